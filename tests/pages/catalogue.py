"""The catalogue of checks, from the modules in `dataguard/checks`, none of which is imported: one may be missing."""

from __future__ import annotations

from pathlib import Path

CHECKS = Path(__file__).parents[2] / "dataguard" / "checks"


def catalogue() -> str:
    """The text of `dataguard/checks/__init__.py`: every module named after a check, in the order of codes."""
    rooms = {path.stem: path.parent.name for path in CHECKS.glob("*/dg*.py")}
    imports = sorted(f"from dataguard.checks.{room}.{stem} import {stem}\n" for stem, room in rooms.items())
    return (
        '"""The catalogue: every check, in order, written by `python -m tests.pages`. No check knows another."""\n\n'
        "from __future__ import annotations\n\n"
        f"{''.join(imports)}"
        "from dataguard.core.model import Check\n\n"
        f"CATALOGUE: tuple[Check, ...] = (\n{''.join(f'    {stem},{chr(10)}' for stem in sorted(rooms))})\n"
    )
