"""Observations of streams, orders and resuming."""
