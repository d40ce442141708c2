"""Decoders of images: the registry of those that a dataset may use, and how files are read and watched through them."""
