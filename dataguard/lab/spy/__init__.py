"""The part that runs inside workers."""
