"""The project that the commands of the documents name, as small as it can be."""
