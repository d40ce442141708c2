"""What runs inside workers: the spy and its instruments."""
