"""Records, leaves and the object graph: the ground of all observations."""
