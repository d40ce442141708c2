"""The reporting side: starts, watches and stops the observing process."""
