"""Loaders that tests scan, importable by their spelling."""
