"""What workers draw from random generators while a model trains: recorded in them, compared in the main process."""
