"""The values in samples (DG5)."""
