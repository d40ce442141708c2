"""Sound files: how samples respond to tones of known pitch, level and channel that are put in their place."""
