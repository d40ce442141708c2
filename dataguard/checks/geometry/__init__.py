"""Masks and boxes under augmentation (DG5)."""
