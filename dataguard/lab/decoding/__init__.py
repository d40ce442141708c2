"""Image and sound decoders: the registry of all that a dataset may use, and reading and watching files through them."""
