"""Observations in processes of their own: isolation, stacks, what went wrong."""
