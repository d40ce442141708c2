"""The observing process."""
