"""The dataset read by index at the ends of its range, in one process."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from dataguard.incident import Incident, LoaderFailed
from dataguard.lab.core.index import plain_index
from dataguard.lab.reading.sample_reader import Answer, Reader
from dataguard.lab.subject import Subject
from dataguard.model import NotApplicable, Undecided
from dataguard.process.originals import time
from dataguard.targets.variants import Loader

_SIZED = (list, tuple, dict, np.ndarray)  # a user-defined `__len__` may do anything
NEAR, NEAREST = 5, 3
"""How many samples at the beginning are read, and how many of those that are slow."""
SLOW = 0.2
"""The seconds above which a sample is slow."""


@dataclass(frozen=True, slots=True)
class Ends:
    """Results at the ends of the index range.

    `first_failing` is the smallest index of the failing tail inside `range(length)`, None if the last index works.
    `inside` are samples within the range, `beyond` the results at `length`, `length + 1` and `length + 2`.
    `first_again` is a second read of the first sample of `inside`, to separate stable leaves from random ones.
    """

    length: int
    first_failing: int | None
    last: Answer
    inside: tuple[Answer, ...]
    first_again: Answer
    beyond: tuple[Answer, ...]
    reads: int

    @property
    def identifying(self) -> list[str]:
        """Leaves that do not depend on the random state and differ between samples."""
        first, again = self.inside[0].digests, self.first_again.digests
        paths = [path for path, digest in again.items() if first.get(path) == digest]
        values = {path: len({inside.digests.get(path) for inside in self.inside}) for path in paths}
        return [path for path in paths if values[path] > 0.8 * len({inside.index for inside in self.inside})]


def find_ends(subject: Subject) -> Ends:
    """What the dataset returns at and beyond the ends of its index range (map-style only).

    Raises Undecided if it dies or hangs beyond the end, which no loader requests.
    """
    subject.need_map("a stream has no indices")
    try:
        return subject.cache.observe("ends", lambda folder: probe_ends(subject.build(), folder))
    except LoaderFailed as failure:
        index, length = failure.incident.index or "", subject.facts.length
        if length is not None and index.isdigit() and int(index) >= length:
            raise Undecided(f"dataset[{index}], beyond the end: {failure.incident.headline}") from failure
        raise


def first_failing(subject: Subject) -> int | None:
    """The smallest index of a tail that does not exist, None if there is no such tail."""
    try:
        return find_ends(subject).first_failing
    except (LoaderFailed, NotApplicable, Undecided):
        return None


def probe_ends(loader: Loader, folder: Path) -> Ends:
    """Read the loader's dataset at and beyond the ends of its range, with every generator frozen.

    Raises NotApplicable for a dataset without a length or without integer indices.
    """
    dataset: Any = loader.dataset
    length = length_of_indexed(dataset)
    need_integers(loader)
    reader = Reader(loader, folder)
    first = reader.ask(0)
    started = time.perf_counter()
    last = reader.ask(length - 1)
    near = NEAREST if time.perf_counter() - started > SLOW else NEAR
    beyond = tuple(reader.ask(length + step) for step in (0, 1, 2))
    first_failing = None
    if last.incident and not first.incident and _means_out_of_range(last.incident, beyond):
        first_failing = _boundary(reader, length)
        last = reader.ask(first_failing)
    inside = [first, *(reader.ask(index) for index in _inside(dataset, length, near)), last]
    return Ends(length, first_failing, last, tuple(inside), reader.ask(0), beyond, reader.reads)


def length_of_indexed(dataset: Any) -> int:
    """The length of a map-style dataset. Raises NotApplicable without one, or with too few samples."""
    try:
        length = len(dataset)
    except Exception as error:
        raise NotApplicable(f"len({type(dataset).__name__}) raises {type(error).__name__}") from error
    if length < 2:
        raise NotApplicable(f"the dataset has {length} sample{'s' * (length != 1)}")
    return int(length)


def need_integers(loader: Loader) -> None:
    """Raise NotApplicable for a loader whose indices are not integers."""
    sampler = loader.sampler if loader.batch_sampler is None else loader.batch_sampler
    for entry in islice(iter(sampler), 1):
        index = entry[0] if isinstance(entry, list | tuple) and entry else entry
        if not isinstance(plain_index(index), int):
            raise NotApplicable(f"indices are of type {type(index).__name__}, not integers")


def _inside(dataset: Any, length: int, near: int) -> list[int]:
    """Indices that a wrapped or clamped index probably maps to: near both ends, and modulo lengths in the dataset."""
    lengths = {len(part) for part in getattr(dataset, "__dict__", {}).values() if isinstance(part, _SIZED)}
    landed = {(length + step) % period for period in lengths if period for step in (0, 1, 2)}
    wanted = {*range(1, near), *range(length - 3, length - 1), *sorted(landed)[:near]}
    return [index for index in sorted(wanted) if 0 < index < length - 1]


def _means_out_of_range(incident: Incident, beyond: tuple[Answer, ...]) -> bool:
    """Whether the error at the last index is that of an index that does not exist."""
    lookup = "LookupError" in (incident.error_type, *incident.error_bases)
    same = all(answer.incident and answer.incident.error_type == incident.error_type for answer in beyond)
    return lookup or same


def _boundary(reader: Reader, length: int) -> int:
    """The smallest index from which every read fails, by bisection."""
    good, bad = 0, length - 1
    while bad - good > 1:
        middle = (good + bad) // 2
        if reader.ask(middle).incident:
            bad = middle
        else:
            good = middle
    return bad
