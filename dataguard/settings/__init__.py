"""Settings, their parsers and their files."""
