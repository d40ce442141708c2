"""Observations of random numbers, shared files and start methods."""
