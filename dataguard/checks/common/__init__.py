"""What checks of several rooms share."""
