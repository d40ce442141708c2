"""What a judge read from its lab, recorded in a scan and played back without one.

A recording maps each access, such as `.facts` or `.ranks.shards()`, to what it returned or raised. Played back, a lab
answers these and nothing else.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from types import FunctionType, SimpleNamespace
from typing import Any

from dataguard.core.model import Check, Coverage, DataguardError, Finding, Judgement
from dataguard.lab.dataset.places import CulpritPlaces
from tests.support import recording_text
from tests.support.plain_json import Digests, NotPlain, decoded, encoded, parts_of

FOLDER = Path(__file__).parents[1] / "recordings"
ROOT = str(Path(__file__).parents[2])


@cache
def recordings(stem: str) -> dict[str, Recording]:
    """The recordings of a check by face."""
    path = FOLDER / f"{stem}.json"
    known = recording_text.read(path.read_text(encoding="utf-8")) if path.exists() else {}
    return {face: Recording(face, one["reads"], one["verdict"]) for face, one in known.items()}


@dataclass(frozen=True)
class Recording:
    """One face of a check as its judge met it: what it read, and its verdict, as JSON."""

    face: str
    reads: Mapping[str, Any]
    verdict: Any
    changed: Mapping[str, Any] = field(default_factory=dict)

    @property
    def lab(self) -> Any:
        """A lab that answers as recorded."""
        return self.part("")

    def part(self, path: str) -> Played:
        """The part of the lab at a path, each time the same one: judges compare labs."""
        return self._parts.setdefault(path, Played(self, path))

    @cached_property
    def _parts(self) -> dict[str, Played]:
        return {}

    def read(self, path: str) -> Any:
        """What was read there: `.facts`, `.dataset.ends`."""
        if path not in self._decoded:
            self._decoded[path] = decoded(self.reads[path])
        return self._decoded[path]

    def parts(self, path: str) -> dict[int, Any]:
        """All parts of what was read there, for readings that share most of them."""
        if path not in self._decoded_parts:
            self._decoded_parts[path] = parts_of(self.reads[path])
        return self._decoded_parts[path]

    def but(self, changes: Mapping[str, Any]) -> Recording:
        """The same with other answers, by path."""
        other = Recording(self.face, self.reads, None, {**self.changed, **changes})
        other.__dict__["_decoded"] = self._decoded
        return other

    def having(self, changes: Mapping[str, Any]) -> Recording:
        """The same where these fields of what was read differ, by path: `{".facts.role": "val"}`.

        A function is called with what stands there.
        """
        changed: dict[str, Any] = {}
        plain = [path for path, read in self.reads.items() if not (isinstance(read, dict) and _PARTS & read.keys())]
        for path, value in changes.items():
            read = max((one for one in plain if path == one or path.startswith(f"{one}.")), key=len, default=None)
            if read is None:
                changed[path] = value
            else:
                before = changed[read] if read in changed else self.read(read)
                changed[read] = _with(before, path[len(read) + 1 :].split("."), value)
        return self.but(changed)

    @cached_property
    def _decoded(self) -> dict[str, Any]:
        return {}

    @cached_property
    def _decoded_parts(self) -> dict[str, dict[int, Any]]:
        return {}


_PARTS = {"part", "labs", "some labs"}


def _with(thing: Any, fields: Sequence[str], value: Any) -> Any:
    """The same with another value in a field, or in a field of a field."""
    first, *rest = fields
    if first:
        return replace(thing, **{first: _with(getattr(thing, first), rest or [""], value)})
    return value(thing) if isinstance(value, FunctionType) else value


@dataclass(frozen=True, eq=False)
class Played:
    """A lab, or a part of one, that answers what is recorded."""

    _recording: Recording
    _path: str

    def __getattr__(self, name: str) -> Any:
        return _played(self._recording, f"{self._path}.{name}")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return _played(self._recording, f"{self._path}{_call(args, kwargs)}")


def _played(recording: Recording, path: str) -> Any:
    answer = _answer(recording, path)
    if isinstance(answer, Exception):
        raise answer
    return answer


PLACES = (".places", ".streams.reset_at")
"""Where a lab looks for the line of a finding: a recording without a finding has none, and no verdict depends on it."""


def _unplaced(path: str) -> Any:
    """No place: a part whose methods return None, and whose other attributes are None."""
    places = {
        name: None if isinstance(found, property) else lambda *_, **__: None
        for name, found in vars(CulpritPlaces).items()
        if name[0] != "_"
    }
    return SimpleNamespace(**places) if path == ".places" else places.get(path.removeprefix(".places."), lambda _: None)


def _answer(recording: Recording, path: str) -> Any:
    if path in recording.changed:
        return recording.changed[path]
    if path not in recording.reads and path.startswith(PLACES):
        return _unplaced(path)
    if path not in recording.reads:
        raise AttributeError(f"not recorded for {recording.face}: {path}")
    read = recording.reads[path]
    if isinstance(read, dict) and "part" in read:
        return recording.part(read["part"])
    if isinstance(read, dict) and "labs" in read:
        return {name: recording.part(part) for name, part in read["labs"].items()}
    if isinstance(read, dict) and "some labs" in read:
        return tuple(map(recording.part, read["some labs"]))
    return recording.read(path)


def _call(args: tuple[Any, ...], kwargs: dict[str, Any], digests: Digests | None = None) -> str:
    """A call as part of a path."""
    words = json.dumps([_argument(args, digests), _argument(dict(sorted(kwargs.items())), digests)])
    words = words.replace(ROOT, "/project")  # its digest must not depend on the machine that records
    return f"({hashlib.sha256(words.encode()).hexdigest()[:16] if len(words) > LONG else words})"


LONG = 200
"""Characters of arguments from which on their digest stands for them."""


def _argument(value: Any, digests: Digests | None) -> Any:
    """An argument as JSON; labs by their paths."""
    if isinstance(value, Played | Recorder):
        return {"part": value._path}
    if isinstance(value, list) or type(value) is tuple:
        return [_argument(one, digests) for one in value]
    if isinstance(value, dict):
        return {str(name): _argument(one, digests) for name, one in value.items()}
    return encoded(value, digests)


def recording(
    judge: Callable[[Any], Judgement], write: Callable[[Any, dict[str, Any]], None]
) -> Callable[[Any], Judgement]:
    """The same judge; `write` is called with the lab and what was read of it after each judgement."""

    def recorded(lab: Any) -> Judgement:
        reads: dict[str, Any] = {}
        verdict = verdict_of(judge, Recorder(lab, "", reads, {}))
        write(lab, reads)
        yield from verdict.findings
        if isinstance(verdict.outcome, Exception):
            raise verdict.outcome
        looked: Coverage = verdict.outcome
        return looked

    return recorded


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a judge made of a lab: its findings, and what it returned, or the exception that it raised."""

    findings: tuple[Finding, ...]
    outcome: Any


def verdict_of(judge: Callable[[Any], Judgement], lab: Any) -> Verdict:
    """The verdict of a judge, of which only the exceptions that an engine expects are part."""
    findings: list[Finding] = []
    judgement = judge(lab)
    try:
        while True:
            findings.append(next(judgement))
    except StopIteration as stop:
        return Verdict(tuple(findings), stop.value)
    except DataguardError as error:
        return Verdict(tuple(findings), error)


class Recorder:
    """Stands in for a lab, or a part of one, and records what is read from it."""

    def __init__(
        self, thing: Any, path: str, reads: dict[str, Any], digests: Digests, parts: list[Recorder] | None = None
    ) -> None:
        self._thing = thing
        self._parts = [self] if parts is None else parts
        self._path = path
        self._reads = reads
        self._digests = digests

    def __getattr__(self, name: str) -> Any:
        return self._recorded(f"{self._path}.{name}", lambda: getattr(self._thing, name))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        path = f"{self._path}{_call(args, kwargs, self._digests)}"
        plain = [one._thing if isinstance(one, Recorder) else one for one in args]
        return self._recorded(path, lambda: self._thing(*plain, **kwargs))

    def _recorded(self, path: str, read: Callable[[], Any]) -> Any:
        try:
            value = read()
        except DataguardError as error:
            self._reads[path] = encoded(error, self._digests)
            raise
        try:
            self._reads[path] = encoded(value, self._digests)
        except NotPlain:
            if isinstance(value, dict):  # the loaders of the target
                parts = {name: self._part(one, f"[{name}]") for name, one in value.items()}
                self._reads[path] = {"labs": {name: part._path for name, part in parts.items()}}
                return parts
            if isinstance(value, tuple | list):  # some of them
                some = tuple(self._part(one, f"[{one.facts.name}]") for one in value)
                self._reads[path] = {"some labs": [part._path for part in some]}
                return some
            part = self._part(value, path)
            self._reads[path] = {"part": part._path}
            return part
        return value

    def _part(self, thing: Any, path: str) -> Recorder:
        """The one that stands in for a thing: judges compare labs."""
        if not any(one._thing is thing for one in self._parts):
            self._parts.append(Recorder(thing, path, self._reads, self._digests, self._parts))
        return next(one for one in self._parts if one._thing is thing)


def save(check: Check, recordings: Mapping[str, Any]) -> None:
    """Write the recordings of a check by face."""
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{check.stem}.json").write_text(recording_text.written(recordings), encoding="utf-8")


def shown(verdict: Verdict) -> Any:
    """A verdict as JSON, for a comparison."""
    return json.loads(json.dumps([[encoded(one) for one in verdict.findings], _shown_outcome(verdict.outcome)]))


def _shown_outcome(outcome: Any) -> Any:
    return [type(outcome).__name__, str(outcome)] if isinstance(outcome, Exception) else encoded(outcome)
