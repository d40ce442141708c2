"""Recordings with one thing altered, such as another role, an empty list or a value at a threshold.

The samples show what happens; the edges of a judge lie between them. Which alterations are tried is fixed, and those
that lead to another verdict are kept with the recording.
"""

from __future__ import annotations

import ast
import copy
import importlib
import json
import random
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest import mock

from dataguard.checks import CATALOGUE
from dataguard.model import Check
from tests.support.plain_json import KIND, class_of, decoded, encoded, fields_of
from tests.support.recordings import Recording, shown, verdict_of

Step = str | int
Alteration = tuple[str, list[Step], Any]
"""What was read, the way to what is altered in it, and what stands there then."""

TRIED, KEPT = 480, 48
"""Alterations of a recording that are tried and kept at most."""
LISTED = 2
"""Entries of a list that are altered: the first ones, and the last."""
GONE = [{KIND: f"dataguard.model:{name}", "args": ["it is not there"]} for name in ("NotApplicable", "Undecided")]
WORDS = ("train", "val", "map", "stream", "fork", "spawn", None)


def altered(recording: Recording, alteration: Alteration) -> Recording:
    """The recording with one thing altered."""
    read, way, value = alteration
    return recording.but({read: decoded(_changed(recording.reads[read], way, value), recording.parts(read))})


def _changed(thing: Any, way: Sequence[Step], value: Any) -> Any:
    """The same JSON with one thing altered, and all others shared."""
    if not way:
        return value
    step, *rest = way
    other = copy.copy(thing)
    inside = (
        encoded(fields_of(thing[KIND])[str(step)]) if isinstance(thing, dict) and step not in thing else thing[step]
    )
    other[step] = _changed(inside, rest, value)
    return other


def distinct(check: Check, recordings: Mapping[str, Recording]) -> dict[str, list[Any]]:
    """For each face, the alterations that lead to a verdict of another kind, each with that verdict."""
    words: set[str] = set()
    places: set[str] = set()
    found: dict[str, list[Any]] = {}
    for name, one in recordings.items():
        words.add(_masked(one.verdict))
        tried = [(alteration, _verdict(check, one, alteration)) for alteration in _tried(check, one)]
        new, other = [], []
        for alteration, verdict in tried:
            if verdict is None or verdict == one.verdict:
                continue
            kind = _masked(verdict) if not _is_echo(one, alteration, verdict) else "echo"
            if kind not in words and kind != "echo":
                new.append([*alteration, verdict])
            elif (place := _named(alteration) + kind) not in places:
                other.append([*alteration, verdict])
                places.add(place)
            words.add(kind)
        found[name] = (_edges(one, tried) + new + other)[:KEPT]
    return found


def _edges(recording: Recording, tried: list[tuple[Alteration, Any]]) -> list[Any]:
    """Neighbouring numbers in one place, and lengths of one list, between which the verdict changes."""
    places: defaultdict[str, dict[float, tuple[Alteration, Any]]] = defaultdict(dict)
    for alteration, verdict in tried:
        value = alteration[2]
        size = len(value) if isinstance(value, list) else value
        if verdict is not None and isinstance(size, int | float) and not isinstance(size, bool):
            places[json.dumps([alteration[:2], isinstance(value, list)])][size] = alteration, verdict
    kept = []
    for sizes in places.values():
        ordered = [sizes[size] for size in sorted(sizes)]
        for (one, before), (two, after) in pairwise(ordered):
            if _masked(before) != _masked(after):
                kept += [[*one, before], [*two, after]]
    return [json.loads(one) for one in dict.fromkeys(map(json.dumps, kept))]


def _verdict(check: Check, recording: Recording, alteration: Alteration) -> Any:
    """The verdict as JSON; None where the data contradict themselves."""
    try:
        return shown(verdict_of(check.judge, altered(recording, alteration).lab))
    except Exception:  # noqa: BLE001
        return None


def _masked(verdict: Any) -> str:
    """The words of a verdict, without its numbers."""
    return re.sub(r"\d+", "0", json.dumps(verdict))


def _is_echo(recording: Recording, alteration: Alteration, verdict: Any) -> bool:
    """Whether a verdict only repeats a word that it is given."""
    read, way, value = alteration
    if not way or not isinstance(value, str):
        return False
    inside = recording.reads[read]
    for step in way:
        inside = inside[step] if not isinstance(inside, dict) or step in inside else None
    return json.dumps(verdict).replace(value, str(inside)) == json.dumps(recording.verdict)


def _named(alteration: Alteration) -> str:
    read, way, _ = alteration
    return read.partition("(")[0] + "".join(f"/{step}" for step in way if isinstance(step, str))


def _tried(check: Check, recording: Recording) -> list[Alteration]:
    """A sample of what can be altered; all that the loader is known to be."""
    numbers, words = constants(check.judge.__module__)
    fields = _fields_read(check, recording)
    found: list[Alteration] = []
    for read, value in recording.reads.items():
        if isinstance(value, dict) and {"part", "labs", "some labs"} & value.keys():
            continue
        found += [(read, [], gone) for gone in GONE if value is not None]
        found += [(read, way, other) for way, other in _others(value, [], _Choice(fields, numbers, (*WORDS, *words)))]
    random.Random(recording.face).shuffle(found)
    found.sort(key=lambda one: bool(one[1]))
    return found[: TRIED if recording.face in ("bad", "good") else TRIED // 2]


@dataclass(frozen=True)
class _Choice:
    """The fields that a judge reads, and the numbers and words to put there."""

    fields: set[tuple[str, str]]
    numbers: Sequence[float]
    words: Sequence[str | None]


def _fields_read(check: Check, recording: Recording) -> set[tuple[str, str]]:
    """The fields of dataclasses that a judge reads, each with the name of its class."""
    names = set(re.findall(r'"(dataguard[\w.]*:[\w.]+)"', json.dumps(recording.reads)))
    found: set[tuple[str, str]] = set()

    def tracked(name: str) -> Callable[[object, str], Any]:
        def get(thing: object, field: str) -> Any:
            found.add((name, field))
            return object.__getattribute__(thing, field)

        return get

    with ExitStack() as stack:
        for name in names:
            if fields_of(name):
                stack.enter_context(mock.patch.object(class_of(name), "__getattribute__", tracked(name)))
        verdict_of(check.judge, recording.lab)
    return found


def _others(value: Any, way: list[Step], choice: _Choice) -> Iterator[tuple[list[Step], Any]]:
    """What a value, or a value in it, may be instead."""
    match value:
        case bool():
            yield way, not value
        case int() | float():
            near = [one + step for one in choice.numbers if isinstance(one, int) for step in (-1, 1)]
            for other in dict.fromkeys((0, value + 1, value - 1, 2 * value, *choice.numbers, *near)):
                if other != value and isinstance(other, int) >= isinstance(value, int):
                    yield way, type(value)(other)
        case str():
            yield from ((way, other) for other in choice.words if other != value)
        case None:
            yield from ((way, other) for other in (1, "x", *choice.words[:2]))
        case list():
            lengths = {0, 1, 2, *(int(one) + step for one in choice.numbers for step in (-1, 0, 1)), len(value) - 1}
            yield from ((way, value[:length]) for length in sorted(lengths) if 0 <= length < len(value))
            yield way, value + value[-1:]
            for place in {*range(min(len(value), LISTED)), len(value) - 1} - {-1}:
                yield from _others(value[place], [*way, place], choice)
        case {"of": list() as entries}:
            yield from ((way, {**value, "of": other}) for other in ([], entries[:1], entries[:-1]) if other != entries)
            for place in {*range(min(len(entries), LISTED)), len(entries) - 1} - {-1}:
                if value[KIND] in ("dict", "Counter"):
                    for part in (0, 1):
                        yield from _others(entries[place][part], [*way, "of", place, part], choice)
                else:
                    yield from _others(entries[place], [*way, "of", place], choice)
        case {"$": str() as kind} if ":" in kind and not {"is", "args"} & value.keys():
            yield way, None
            for name, default in fields_of(kind).items():
                if (kind, name) not in choice.fields:
                    continue
                inner = value[name] if name in value else encoded(default)
                yield from _others(inner, [*way, name], choice)


@cache
def constants(module: str) -> tuple[tuple[float, ...], tuple[str, ...]]:
    """The numbers and words that a judge's module, and the checks' modules that it imports from, compare with."""
    numbers: dict[float, None] = {}
    words: dict[str, None] = {}
    for name in _with_imports(module):
        tree = ast.parse(Path(str(sys.modules[name].__file__)).read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, int | float) and node.value is not True:
                numbers[node.value] = None
            for one in [node.left, *node.comparators] if isinstance(node, ast.Compare) else ():
                texts = one.elts if isinstance(one, ast.Tuple) else [one]
                words |= {
                    two.value: None for two in texts if isinstance(two, ast.Constant) and isinstance(two.value, str)
                }
    return tuple(numbers), tuple(words)


def _with_imports(module: str) -> Iterator[str]:
    importlib.import_module(module)
    yield module
    tree = ast.parse(Path(str(sys.modules[module].__file__)).read_text(encoding="utf-8"))
    for node in tree.body:
        if (
            isinstance(node, ast.ImportFrom)
            and str(node.module).startswith("dataguard.checks.")
            and not str(node.module).endswith(".check")
        ):
            yield str(node.module)


def by_stem(stem: str) -> Check:
    """The check of this stem."""
    return next(check for check in CATALOGUE if check.stem == stem)
