"""Train, validation and test side by side (DG5)."""
