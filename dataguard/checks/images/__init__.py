"""Channels, scale and normalization of images (DG5)."""
