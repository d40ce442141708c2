"""What needs a CUDA device: tests, which are skipped without one, and `python -m tests.gpu`, which measures."""
