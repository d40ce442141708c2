"""Same seeds, same batches (DG7)."""
