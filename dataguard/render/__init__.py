"""Output: one function per format and kind of report."""
