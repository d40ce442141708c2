"""Formats that continuous integration reads."""
