"""Time (DG8)."""
