"""Figures and ratios measured in one run, by hand and not as tests: `python -m tests.bench` prints them all."""
