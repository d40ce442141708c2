"""Reading a loader: surveys, traced epochs, scripted reads."""
