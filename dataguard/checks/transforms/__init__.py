"""Transforms without effect (DG5)."""
