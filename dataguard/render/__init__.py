"""Output: one function for each format and each kind of report."""
