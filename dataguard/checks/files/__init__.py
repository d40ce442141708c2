"""How image files are read (DG5)."""
