"""What reading one loader changes in the samples of another, as a cache that both datasets share does.

Some samples of a loader are read alone, in a fork; in another one, the other loader reads the same indices first. All
are read under one random state. A leaf that is the same twice in the one fork, and in the other one is what the other
loader yields for that index, was served from what both share.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType, ModuleType

from dataguard.core.model import Location, NotApplicable
from dataguard.lab.core.object_graph import Node
from dataguard.lab.core.records import Index
from dataguard.lab.core.source_location import variable_at
from dataguard.lab.machine.growing_containers import containers_of, length_of_container
from dataguard.lab.reading.sample_reader import Reader
from dataguard.lab.subject import Subject
from dataguard.targets.variants import Loader

SAMPLES, FEW_SAMPLES = 8, 4
"""Indices of which both loaders are read, and how many of slow ones: half of them share a label of two by chance."""
FEWEST_SERVED = 2
"""Different contents that are served before that is no constant, such as a mean that is fitted at the first read."""

Contents = Mapping[Index, Mapping[str, bytes]]
"""The digests of the leaves of samples, by index and path."""


@dataclass(frozen=True, slots=True)
class CrossedReads:
    """The indices that were read of both loaders, and those `served`: of which a `leaf` is that of the other loader.

    `caches` are containers that both datasets reach, and that grew when the other loader was read; the first one with
    the line that makes it, if that is known.
    """

    indices: tuple[Index, ...]
    served: tuple[Index, ...] = ()
    leaf: str = ""
    caches: tuple[Location, ...] = ()


def find_crossed(subject: Subject, other: Subject) -> CrossedReads:
    """Read samples of a loader, alone and after another one. Raises NotApplicable if they have no indices in common."""
    lengths = subject.facts.length or 0, other.facts.length or 0
    shared = [index for index in subject.epoch.indices if isinstance(index, int) and 0 <= index < min(lengths)]
    indices = tuple(shared[: subject.affordable_reads(SAMPLES, FEW_SAMPLES, 4)])
    if len(indices) < FEWEST_SERVED:
        raise NotApplicable("both loaders have fewer than two indices in common")
    subject.afford_reads(("crossed", other.facts.name), 4 * len(indices))
    alone, again = subject.observe(("alone", indices), lambda folder: _read_twice(subject.build(), folder, indices))
    theirs, after, caches = subject.observe(
        ("crossed", other.facts.name, indices), lambda folder: _read_after(*subject.build_with(other), folder, indices)
    )
    served: dict[str, list[Index]] = {}
    contents: dict[str, set[bytes]] = {}
    for index in indices:
        for path, digest in after.get(index, {}).items():
            own = alone.get(index, {}).get(path)
            if own == again.get(index, {}).get(path) != digest == theirs.get(index, {}).get(path):
                served.setdefault(path, []).append(index)
                contents.setdefault(path, set()).add(digest)
    paths = [path for path in served if len(contents[path]) >= FEWEST_SERVED]
    leaf = max(paths, key=lambda path: len(served[path]), default="")
    return CrossedReads(indices, tuple(served.get(leaf, ())), leaf, caches)


def _read_twice(loader: Loader, folder: Path, indices: Sequence[Index]) -> tuple[Contents, Contents]:
    """The samples of a loader, and the same once more."""
    reader = Reader(loader, folder)
    return _contents(reader, indices), _contents(reader, indices)


def _read_after(
    loader: Loader, other: Loader, folder: Path, indices: Sequence[Index]
) -> tuple[Contents, Contents, tuple[Location, ...]]:
    """The samples of the other loader, then those of this one, and the containers that grew meanwhile."""
    first, second = Reader(other, folder), Reader(loader, folder)
    common = {id(node.value) for node in containers_of({"dataset": first.dataset})}
    before = [
        (node, length_of_container(node.value))
        for node in containers_of({"dataset": second.dataset})
        if id(node.value) in common
    ]
    read = _contents(first, indices)
    caches = [node for node, length in before if length_of_container(node.value) > length]
    return read, _contents(second, indices), tuple(map(_located, caches))


def _located(cache: Node) -> Location:
    """An attribute of a class, or a variable of a module, with the line that makes it."""
    owner = cache.holder.value if cache.holder else None
    name = cache.step.strip(".<>").rpartition(".")[2]
    if isinstance(owner, FunctionType):
        owner = sys.modules.get(owner.__module__)
    if isinstance(owner, type | ModuleType) and (place := variable_at(owner, name)) is not None:
        return Location(*place, f"{owner.__name__}.{name}")
    return Location(what=cache.path)


def _contents(reader: Reader, indices: Sequence[Index]) -> Contents:
    return {answer.index: dict(answer.digests) for answer in map(reader.ask, indices) if not answer.incident}
