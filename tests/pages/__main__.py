"""Write everything that is generated, the catalogue of checks included: `python -m tests.pages`. Says what it wrote.

A check that has no page yet is recorded first: its samples are scanned, which takes minutes.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.pages.catalogue import CHECKS, catalogue

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def main() -> None:
    """Write what is not current, and delete the pages of removed checks."""
    _write({CHECKS / "__init__.py": catalogue()})
    _write(_of_the_catalogue())


def _of_the_catalogue() -> Mapping[Path, str]:
    """Every other file by path; this imports the catalogue as it is now."""
    from dataguard.checks import CATALOGUE
    from dataguard.settings import settings_schema
    from tests.bench import detection
    from tests.pages import gallery
    from tests.pages.check_index import pages
    from tests.pages.findings import findings
    from tests.pages.reference import reference
    from tests.pages.report_image import described, drawn, scanned

    for check in CATALOGUE:
        if not (DOCS / "checks" / f"{check.stem}.md").exists():
            subprocess.run([sys.executable, "-m", "tests.support.record", check.code], cwd=ROOT, check=True)
    current = {f"checks/{name}": text for name, text in pages(CATALOGUE).items()}
    for stale in (DOCS / "checks").glob("dg*.md"):
        if f"checks/{stale.name}" not in current:
            stale.unlink()
            print(f"deleted docs/checks/{stale.name}")  # noqa: T201
    current |= {**reference(DOCS), "findings.md": findings(), "detection.md": detection.page()}
    if described(image := drawn(scanned())) != described((DOCS / "report.svg").read_text(encoding="utf-8")):
        current["report.svg"] = image
    gallery.FOLDER.mkdir(exist_ok=True)
    _write(dict(gallery.stale()))
    current["gallery.md"] = gallery.gallery()
    return {DOCS / name: text for name, text in current.items()} | {settings_schema.FILE: settings_schema.text()}


def _write(files: Mapping[Path, str]) -> None:
    for path, text in files.items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print(f"wrote {path.relative_to(ROOT)}")  # noqa: T201


if __name__ == "__main__":
    main()
