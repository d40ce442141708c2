"""Class names, label tables and masked tokens."""
