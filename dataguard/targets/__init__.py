"""From a spelling to loaders that can be built."""
