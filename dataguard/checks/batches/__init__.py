"""How collate_fn turns samples into batches (DG4)."""
