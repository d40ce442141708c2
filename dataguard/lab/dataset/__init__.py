"""Observations of the dataset protocol."""
