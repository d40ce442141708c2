"""The numbers in samples (DG5)."""
