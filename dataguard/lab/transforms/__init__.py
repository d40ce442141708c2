"""Observations of transforms, and of images that a dataset mixes (`sample_mixtures.py`, for DG412)."""
