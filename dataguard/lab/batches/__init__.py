"""Observations of collate_fn, pinning and settings."""
