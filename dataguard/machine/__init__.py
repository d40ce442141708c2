"""The machine: memory, cores, limits, units."""
