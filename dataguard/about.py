"""What the project is called, and where it is: every link and every command to install it is made from this."""

from __future__ import annotations

PACKAGE = "dataguard"
"""The name to install."""
DOCS = "https://dataguard.readthedocs.io"
"""Where `docs/` is published as a site."""
