"""Scan the libraries and write docs/ecosystem.md: `python -m tests.ecosystem [LIBRARY or FACTORY...]`."""

from __future__ import annotations

import os
import platform
import sys
import tempfile
from collections.abc import Sequence
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path

from dataguard.core.model import UsageError
from dataguard.engine import scan
from dataguard.settings.settings import Settings
from tests.ecosystem.entries import ENTRIES
from tests.ecosystem.page import NO_VERDICT, add, page, rows_of

PAGE = Path(__file__).parents[2] / "docs" / "ecosystem.md"


def main(names: Sequence[str]) -> int:
    """Scan the libraries of these names, or all, and keep the rows of the others; 1 if a finding has no verdict."""
    tables = rows_of(PAGE.read_text(encoding="utf-8") if PAGE.exists() else "")
    made = f"{datetime.now(timezone.utc):%Y-%m-%d}, Python {platform.python_version()}, {os.cpu_count()} cores"
    made += f", torch {metadata.version('torch')}"
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"DATAGUARD_ECOSYSTEM": folder, "HF_HUB_OFFLINE": "1"}
        for entry in ENTRIES:
            if names and entry.library not in names and entry.factory not in names:
                continue
            sys.stderr.write(f"{entry.factory}\n")
            try:
                metadata.version(entry.library)
                add(tables, entry, scan(entry.spelling, Settings(contract=entry.contract)))
            except metadata.PackageNotFoundError:
                sys.stderr.write(f"  {entry.library} is not installed\n")
            except UsageError as refused:
                add(tables, entry, str(refused).partition(", not ")[0])
            PAGE.write_text(page(tables, f"Last run: {made}."), encoding="utf-8")
    return int(NO_VERDICT in PAGE.read_text(encoding="utf-8"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
