"""The loader runs: it raises, dies or hangs (DG0)."""
