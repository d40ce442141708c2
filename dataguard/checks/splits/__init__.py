"""Training, validation and test splits compared (DG5)."""
