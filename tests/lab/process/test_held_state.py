"""Datasets that hold something open or set: each works in plain torch, and no observation says otherwise.

The whole matrix runs with `DATAGUARD_EVERY_FACE`; a few kinds of each sort run always.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from dataguard.core.model import Result, Status
from dataguard.engine import scan
from dataguard.settings.settings import Settings
from tests.loaders.held import known
from tests.loaders.held.kinds import Kind
from tests.support.faces import EVERY_FACE, todays

pytestmark = [
    pytest.mark.scan,
    pytest.mark.skipif(sys.platform != "linux", reason="what forks inherit is read from /proc"),
]

ROOT = Path(__file__).parents[3]
SPREAD = (
    *("relative_seek", "duplicated_descriptor", "named_temporary_file", "cache_file", "flocked", "flocked_shared"),
    *("named_folder", "sqlite_file", "zip_file", "finalizer", "destructor", "file_in_circle"),
    *("locked_by_process", "finalizer_anew", "temporary_folder_anew"),
)
"""Of what was wrong once, and of what is common."""
QUICK = ("DG0", "DG101", "DG106", "DG301", "DG307")
PER_SCAN = 6
KINDS: Mapping[str, Kind] = {name: kind for name, kind in known().items() if EVERY_FACE or name in SPREAD}


def _groups() -> Iterator[tuple[str, ...]]:
    """Kinds that one factory can make: those that leave the same, a few at a time."""
    alike: dict[tuple[str, str], list[str]] = defaultdict(list)
    for name, kind in KINDS.items():
        alike[(kind.anew, kind.make.__module__ if EVERY_FACE else "")].append(name)
    for names in alike.values():
        yield from (tuple(names[start : start + PER_SCAN]) for start in range(0, len(names), PER_SCAN))


GROUPS = list(_groups())


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of temporary files, beside that of held ones. Its name is short: that of a socket has a limit."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("held", "tmp"):
            Path(folder, name).mkdir()
        with monkeypatch.context() as patch:
            patch.setenv("HELD", f"{folder}/held")
            patch.setenv("TMPDIR", f"{folder}/tmp")
            patch.setattr(tempfile, "tempdir", None)
            yield Path(folder, "tmp")


def _installed(names: tuple[str, ...]) -> tuple[str, ...]:
    there = tuple(name for name in names if not KINDS[name].needs or importlib.util.find_spec(KINDS[name].needs))
    if not there:
        pytest.skip(f"needs {', '.join({KINDS[name].needs for name in names})}")
    return there


@pytest.mark.parametrize("names", todays(GROUPS, turns=2), ids=" ".join)
def test_it_works_in_plain_torch_and_no_observation_says_otherwise(names: tuple[str, ...], place: Path) -> None:
    names = _installed(names)
    plain = _in_plain_torch(names, place.parent / "plain")
    assert {name: why for name, (why, _) in plain.items() if why} == {}
    report = scan(
        f'tests.loaders.held:make(kinds="{" ".join(names)}")',
        Settings(select=() if EVERY_FACE else QUICK, roles=dict.fromkeys(names, "train")),
    )
    assert {(one.loader, one.code): why for one in report.results if (why := _unjustified(one, plain))} == {}
    anew = KINDS[names[0]].anew
    assert bool(anew) == bool(report.notes), report.notes
    assert anew in "".join(report.notes)
    left = {path.name for path in place.iterdir() if not (path / "zygote").exists()}
    assert {name for name in left if not name.startswith("torchinductor_")} == set()  # torch's own
    assert _unended(place.parent / "held") == {}


def _in_plain_torch(names: tuple[str, ...], folder: Path) -> dict[str, tuple[str, bool]]:
    """Why each kind fails without us, if it does, and whether its dataset can be pickled."""
    folder.mkdir()
    command = [sys.executable, "-W", "ignore", "-m", "tests.loaders.held", *names]
    variables = {**os.environ, "HELD": str(folder), "TMPDIR": str(folder)}
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=ROOT, env=variables)
    plain: dict[str, tuple[str, bool]] = json.loads(ran.stdout)
    return plain


def _unjustified(result: Result, plain: Mapping[str, tuple[str, bool]]) -> str:
    """What is wrong with a result, if anything."""
    kind = KINDS.get(result.loader)
    if kind is None or result.status is Status.BROKEN:
        return f"{result.status.value}: {result.reason}, {result.findings}"
    if result.status is Status.INCONCLUSIVE and not kind.undecided:
        return str(result.reason)
    if result.status is not Status.FAILED or result.code in kind.codes:
        return ""
    if result.code in ("DG104", "DG105") and not plain[result.loader][1]:
        return ""
    return result.findings[0].message


def _unended(folder: Path) -> dict[str, list[str]]:
    """The notes of datasets that did not end as often as they were made."""
    notes = {path.stem: path.read_text().split() for path in folder.glob("*.calls")}
    return {name: words for name, words in notes.items() if words.count("made") != words.count("ended")}
