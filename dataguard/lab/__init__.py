"""Observations of one loader, made once and remembered. Empty, so that records can be read without torch."""
