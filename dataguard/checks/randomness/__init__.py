"""Random numbers in workers, epochs and ranks (DG1)."""
