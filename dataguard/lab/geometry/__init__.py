"""Observations of masks and boxes."""
