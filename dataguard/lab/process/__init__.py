"""Observations in separate processes: isolation, answers, incidents, and what runs side by side."""
