"""Observations of time."""
