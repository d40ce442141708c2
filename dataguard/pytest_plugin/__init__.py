"""The pytest plugin and its fixtures."""
