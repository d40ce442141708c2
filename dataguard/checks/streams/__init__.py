"""Shards, order, length and resuming (DG2)."""
