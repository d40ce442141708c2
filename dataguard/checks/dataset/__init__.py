"""The map-style dataset protocol (DG3)."""
