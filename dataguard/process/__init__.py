"""Processes as the reporting side starts, watches and ends them."""
