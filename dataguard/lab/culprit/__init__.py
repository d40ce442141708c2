"""The line of the user's code after which a value is wrong."""
