"""Batches with a model: learning, loss and inputs (DG9)."""
