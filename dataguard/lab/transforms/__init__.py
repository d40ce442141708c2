"""Observations of transforms."""
