"""What the source of a project says about its loaders; nothing of it is imported or run."""
