"""Observations across loaders."""
