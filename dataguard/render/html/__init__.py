"""The HTML formats: one self-contained page, light and dark, without scripts and without network."""
