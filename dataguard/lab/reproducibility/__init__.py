"""Runs of a loader from the same seeds, and where they differ first."""
