"""Statistics behind verdicts."""
