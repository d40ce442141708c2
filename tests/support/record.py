"""Record what the judges read of their samples: `python -m tests.support.record [--others N] [CODE ...]`.

Each check alone judges its plain twins and up to N other bad and N other good faces. Run it when a judge reads
something new, or the classes of observations change. Where only the words of findings change, `--judge` is enough: it
scans nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import os
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from dataguard.checks import CATALOGUE
from dataguard.core.model import Check, Status
from dataguard.engine import scan
from dataguard.lab.core.records import Numbers
from dataguard.lab.reading.epoch_trace import EpochTrace
from dataguard.process.launcher import shared_zygote
from dataguard.settings.settings import Settings
from tests.support import recording_text
from tests.support.faces import Face, samples, settings_of
from tests.support.plain_json import KIND
from tests.support.recordings import FOLDER, ROOT, Recording, recordings, save, shown, verdict_of

MOST = 8
"""How many faces one scan judges."""
VERDICTS = FOLDER / "verdicts.json"
"""How many faces of each check got the verdict that their names promise, when they were recorded."""
TIMES = ("seconds", "began")
"""Fields that hold times, with those that end in `_seconds`."""
FEW = 32
"""Samples that are read of a face, if they are enough for its verdict: recordings are to be small."""


def chosen(check: Check, others: int) -> Iterator[Face]:
    """The twins, and so many other faces of either kind."""
    faces = samples(check)
    for kind in ("bad", "good"):
        yield from [face for face in faces if face.name == kind]
        yield from [face for face in faces if face.name.startswith(f"{kind}_")][:others]


def recorded(check: Check, faces: list[Face]) -> dict[str, Any]:
    """The recordings of these faces by name; a face of which few samples give another verdict is read at length."""
    found: dict[str, Any] = {}
    for samples_ in (FEW, Settings().samples):
        missing = [face for face in faces if not any(_is_of(face, name) for name in found)]
        for start in range(0, len(missing), MOST):
            found |= _scanned(check, missing[start : start + MOST], samples_)
    for face in faces:
        if not any(_is_of(face, name) for name in found):
            print(f"{face}: not the verdict that its name promises", file=sys.stderr)  # noqa: T201
    return found


def _scanned(check: Check, faces: list[Face], samples_: int) -> dict[str, Any]:
    """What was read of the loaders of these faces, where the faces get the verdicts that their names promise."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"FACES": " ".join(map(str, faces)), "RECORD": folder}
        asked = {"select": (check.code,), "samples": samples_, "timeout": 10, **settings_of(check)}
        report = scan("tests.loaders.recorded:named", Settings(**asked))
        for result in report.results:
            if result.status is Status.BROKEN:
                print(f"{result.id}: {str(result.reason).strip().splitlines()[-1]}", file=sys.stderr)  # noqa: T201
        found = {}
        for path in sorted(Path(folder).iterdir()):
            one = json.loads(anonymous(path.read_text(encoding="utf-8")))
            if one.get("check") == check.stem:
                name = one["loader"].partition(".")[2]
                found[name] = {"reads": one["reads"], "verdict": _replayed(check, name, one["reads"])}
    kept: dict[str, Any] = {}
    for face in faces:
        own = {name: one for name, one in found.items() if _is_of(face, name)}
        if any(one["verdict"][0] for one in own.values()) == face.name.startswith("bad"):
            kept |= own
    return kept


def _replayed(check: Check, name: str, reads: dict[str, Any]) -> Any:
    """The verdict on what was recorded, which is left as `trim` leaves it."""
    verdict = shown(verdict_of(check.judge, Recording(name, reads, None).lab))
    trim(check, name, reads)
    assert shown(verdict_of(check.judge, Recording(name, reads, None).lab)) == verdict
    return verdict


def trim(check: Check, name: str, reads: dict[str, Any]) -> None:
    """Leave out what the judge does not read of epochs, and times if the verdict is the same without them.

    So that recordings are small, and a new one differs from the last where the judge sees something else.
    """
    _leave_out_unread(check, name, reads)
    verdict = shown(verdict_of(check.judge, Recording(name, reads, None).lab))
    timeless = _timeless(reads)
    # Without times, a judge may ask for what was not recorded: some arguments hold records.
    with contextlib.suppress(AttributeError, ArithmeticError):
        if shown(verdict_of(check.judge, Recording(name, timeless, None).lab)) == verdict:
            reads.update(timeless)


def _timeless(value: Any) -> Any:
    """The same with a millisecond for each time that was measured."""
    if isinstance(value, list):
        return [_timeless(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {
        name: 0.001 if isinstance(one, float) and (name in TIMES or name.endswith("_seconds")) else _timeless(one)
        for name, one in value.items()
    }


def _leave_out_unread(check: Check, name: str, reads: dict[str, Any]) -> None:
    """Empty the long fields of epochs, and of the numbers in them, that the judge does not read."""
    recording = Recording(name, reads, None)
    epochs = {path: recording.read(path) for path, read in reads.items() if _is_epoch(read)}
    pairs = [pair for path, epoch in epochs.items() for pair in _numbers(epoch, reads[path])]
    touched: dict[int, set[str]] = {}
    for kind, things in ((Numbers, [numbers for numbers, _ in pairs]), (EpochTrace, list(epochs.values()))):
        tracked = _tracked(kind, touched)
        for thing in things:
            object.__setattr__(thing, "__class__", tracked)
    verdict_of(check.judge, replace(recording, changed=epochs).lab)
    for path, epoch in epochs.items():
        seen = touched.get(id(epoch), set())
        for field in ("samples", "batches", "value_summaries"):
            if field not in seen and field in reads[path]:
                reads[path][field] = []
        if "hashes" not in seen:
            reads[path].pop("hashes", None)
    for numbers, of in pairs:
        for field in {"values", "rows"} - touched.get(id(numbers), set()):
            of.pop(field, None)


def _is_epoch(read: Any) -> bool:
    return isinstance(read, dict) and read.get(KIND, "").endswith(":EpochTrace")


def _tracked(kind: type, touched: dict[int, set[str]]) -> type:
    """A class like this one that notes, by the identity of an object, which of its attributes are read."""

    def noted(self: Any, name: str) -> Any:
        touched.setdefault(id(self), set()).add(name)
        return object.__getattribute__(self, name)

    return type(kind.__name__, (kind,), {"__slots__": (), "__getattribute__": noted})


def _numbers(epoch: EpochTrace, read: dict[str, Any]) -> Iterator[tuple[Numbers, dict[str, Any]]]:
    """The numbers of an epoch, and each as it is recorded."""
    for summary, of in zip(epoch.value_summaries, read.get("value_summaries", ()), strict=True):
        yield from zip(summary.numbers, of["numbers"], strict=True)


def _is_of(face: Face, loader: str) -> bool:
    """Whether a loader is that of a face, or one of its loaders."""
    return loader.split(".")[0] == face.name


def anonymous(text: str) -> str:
    """Without the folders of this machine."""
    for folder, name in (
        (ROOT, "/project"),
        *((folder, "/site-packages") for folder in sys.path if folder.endswith("site-packages")),
        (sysconfig.get_path("stdlib"), f"/lib/python{sys.version_info.major}.{sys.version_info.minor}"),
        (tempfile.gettempdir(), "/tmp"),
    ):
        text = text.replace(folder, name)
    return text


def note(check: Check, faces: list[Face], found: Mapping[str, Any]) -> None:
    """Write down how many faces of each kind got the verdict that their names promise, of how many that were judged."""
    verdicts = json.loads(VERDICTS.read_text(encoding="utf-8")) if VERDICTS.exists() else {}
    row: dict[str, Any] = {"date": datetime.date.today().isoformat(), "torch": version("torch")}
    for kind in ("bad", "good"):
        own = [face for face in faces if face.name.startswith(kind)]
        row[kind] = [sum(any(_is_of(face, name) for name in found) for face in own), len(own)]
    verdicts[check.code] = row
    VERDICTS.write_text(json.dumps(dict(sorted(verdicts.items())), indent=1) + "\n", encoding="utf-8")


def judged_again(check: Check) -> dict[str, Any]:
    """The recordings of a check with the verdicts of the judge as it is now."""
    known = recordings(check.stem)
    return {
        name: {"reads": one.reads, "verdict": shown(verdict_of(check.judge, one.lab))} for name, one in known.items()
    }


def rename(names: list[list[str]]) -> None:
    """Write the new names of classes or modules into every recording."""
    for path in sorted(FOLDER.glob("dg*.json")):
        before = path.read_text(encoding="utf-8")
        text = json.dumps(recording_text.read(before))
        for old, new in names:
            # Values, and arguments of calls: these are JSON inside of a text.
            for start in (f'"{KIND}": "', f'\\"{KIND}\\": \\"'):
                text = text.replace(f"{start}{old}", f"{start}{new}")
        if (now := recording_text.written(json.loads(text))) != before:
            path.write_text(now, encoding="utf-8")


def main() -> None:
    """Record what the checks that were asked for read."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("codes", nargs="*")
    parser.add_argument("--others", type=int, default=4)
    parser.add_argument("--judge", action="store_true", help="scan nothing: judge what is recorded again")
    parser.add_argument("--renamed", nargs=2, action="append", default=[], help="instead: a class or module, OLD NEW")
    asked = parser.parse_args()
    if asked.renamed:
        rename(asked.renamed)
        return
    with shared_zygote():
        for check in CATALOGUE:
            if asked.codes and not check.code.startswith(tuple(asked.codes)):
                continue
            if asked.judge:
                again = judged_again(check)
                if again and any(one["verdict"] != recordings(check.stem)[name].verdict for name, one in again.items()):
                    save(check, again)
                    print(f"{check.code}: other verdicts", flush=True)  # noqa: T201
                continue
            faces = list(chosen(check, asked.others))
            found = recorded(check, faces)
            note(check, faces, found)
            if found:
                save(check, found)
            print(f"{check.code}: {len(found)} recordings", flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
