"""Observations of image files."""
