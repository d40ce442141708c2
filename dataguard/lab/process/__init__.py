"""Observations in separate processes: isolation, stacks, exceptions."""
