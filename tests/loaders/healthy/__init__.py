"""Healthy loaders that look suspicious, in the styles of training code: a scan of each finds nothing."""
