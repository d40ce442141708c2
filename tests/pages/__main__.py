"""Write every generated page: `python -m tests.pages`."""

from __future__ import annotations

from pathlib import Path

from dataguard.checks import CATALOGUE
from dataguard.render.check_pages import pages
from tests.pages.reference import reference
from tests.pages.report_image import SCAN, drawn, scanned

DOCS = Path(__file__).parents[2] / "docs"


def main() -> None:
    """Write the pages, and delete those of removed checks."""
    current = {**{f"checks/{name}": text for name, text in pages(CATALOGUE).items()}, **reference(DOCS)}
    for stale in (DOCS / "checks").glob("dg*.md"):
        if f"checks/{stale.name}" not in current:
            stale.unlink()
    for name, text in (current | {"report.svg": drawn(SCAN, scanned(SCAN))}).items():
        (DOCS / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
