"""Pictures of samples for reports."""
