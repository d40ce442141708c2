"""The class names of concatenated datasets, and the integers in samples that are read from each of them."""

from __future__ import annotations

import contextlib
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from dataguard.lab.core.index_schedules import evenly
from dataguard.lab.core.leaves import leaves_of
from dataguard.lab.core.loader_facts import length_of
from dataguard.lab.core.wrapped_datasets import by_type, wrapped_by
from dataguard.lab.labels.class_names import names_of
from dataguard.lab.reading.sample_reader import Reader
from dataguard.lab.spy.value_summaries import numbers_of
from dataguard.targets.variants import Loader

READS = 64


@dataclass(frozen=True, slots=True)
class Part:
    """One of several concatenated datasets: its path, the index of each class name, and what its samples hold.

    `numbers` are the single integers by the path of their leaf, each once; `constant` are the leaves that are the same
    in all of its samples, with their digest.
    """

    path: str
    names: Mapping[str, int]
    numbers: Mapping[str, tuple[int, ...]]
    constant: Mapping[str, bytes]
    samples: int


def names_differ(dataset: Any) -> bool:
    """Whether a dataset concatenates parts with different class names."""
    tables = [names for _, _, names in _named_parts(dataset)]
    return any(names != tables[0] for names in tables)


def find_parts(loader: Loader, folder: Path) -> tuple[Part, ...]:
    """Read samples from all over the dataset, and group them by the parts with class names."""
    parts = list(_named_parts(loader.dataset))
    reader = Reader(loader, folder)
    numbers: dict[int, dict[str, dict[int, None]]] = defaultdict(lambda: defaultdict(dict))
    digests: dict[int, dict[str, list[bytes]]] = defaultdict(lambda: defaultdict(list))
    read: dict[int, int] = defaultdict(int)
    for index in evenly(range(length_of(loader.dataset) or 0), READS):
        with _calls({id(part) for _, part, _ in parts}) as called:
            sample = reader.read(index)
        if len(called) != 1:  # a wrapper mixes samples, or reads none of these
            continue
        part = next(iter(called))
        read[part] += 1
        for leaf in leaves_of(sample):
            digests[part][leaf.path].append(leaf.digest)
        for one in numbers_of(sample):
            if one.size == 1 and one.whole and not one.is_float:
                numbers[part][one.path][int(one.low)] = None
    return tuple(
        Part(
            path,
            names,
            {leaf: tuple(sorted(found)) for leaf, found in numbers[id(part)].items()},
            {leaf: found[0] for leaf, found in digests[id(part)].items() if len(set(found)) == 1},
            read[id(part)],
        )
        for path, part, names in parts
        if read[id(part)]
    )


def _named_parts(dataset: Any) -> Iterator[tuple[str, Any, Mapping[str, int]]]:
    """The outermost datasets with class names below each concatenation."""
    chosen: list[str] = []
    for path, part in wrapped_by(dataset, by_type):
        if "[" not in path or any(path.startswith(f"{above}.") for above in chosen):
            continue
        below = sum(step.endswith("]") for step, _ in by_type(part))
        names = next((one.numbers for one in names_of(path, part) if one.numbers), None)
        if names and below < 2:
            chosen.append(path)
            yield path, part, names


@contextlib.contextmanager
def _calls(parts: set[int]) -> Iterator[set[int]]:
    """The ids of those of the parts whose `__getitem__` is called in this thread."""
    called: set[int] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_name in ("__getitem__", "__getitems__") and code.co_argcount:
            called.update({id(frame.f_locals.get(code.co_varnames[0]))} & parts)

    sys.setprofile(note)
    try:
        yield called
    finally:
        sys.setprofile(None)
