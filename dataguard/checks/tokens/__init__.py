"""What rows of tokens and their labels teach a language model (DG410, DG421 to DG430)."""
