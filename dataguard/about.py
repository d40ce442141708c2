"""What the project is called, and where it is: every link and every command to install it is made from this."""

from __future__ import annotations

PACKAGE = "dataguard"
"""The name to install."""
DOCS = "https://dataguard.readthedocs.io"
"""Where `docs/` is published as a site."""
REPOSITORY = "https://github.com/dataguard-dev/dataguard"
"""Where the code is developed."""
ISSUES = f"{REPOSITORY}/issues"
"""Where wrong findings, missed bugs and crashes are reported."""
