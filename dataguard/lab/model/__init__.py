"""Observations of batches with a model."""
