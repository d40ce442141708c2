"""Random number generators: found, frozen, seeded, watched."""
