"""Labels, targets and blank samples (DG5)."""
