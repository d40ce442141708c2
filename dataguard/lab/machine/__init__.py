"""Observations of memory, handles and threads."""
