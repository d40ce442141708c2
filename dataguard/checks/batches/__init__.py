"""What collate_fn makes of samples (DG4)."""
