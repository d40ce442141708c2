"""Class names and label tables."""
