"""What users call in tests of their own."""
