"""Checks of the files, rows and frames that values come from."""
