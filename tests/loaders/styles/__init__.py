"""Loaders in the styles of research code, each with one bug; lines that a maintainer would change carry `# culprit`."""
