"""What needs an accelerator: tests, which are skipped without one, and `python -m tests.gpu`, which measures."""
