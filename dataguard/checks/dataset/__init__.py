"""The protocol of a map-style dataset (DG3)."""
