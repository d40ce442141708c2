"""Which image files samples are made of, and what their headers say.

A sample is read no further than to the point at which its last file is handed over, so that hundreds of files can be
looked at in the time that decoding a few of them takes.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from dataguard.lab.core.index import Index
from dataguard.lab.decoding.image_headers import Header
from dataguard.lab.files.file_substitution import OPENERS, Handed, Handing, Seen
from dataguard.lab.reading.sample_reader import Reader
from dataguard.lab.rng.global_rng import SEED, seeded
from dataguard.model import Undecided
from dataguard.target.variants import Loader

Place = Any
"""Where a sample is: its index, or in a stream its position."""
MOST_OF_STREAM = 24
"""How many samples of a stream are looked at: it cannot be left in the middle of one."""
SHARE = 0.02
"""The share of the budget after which no more samples are looked at."""
WHOLE = 2
"""How many samples are read whole, to know how many files one has."""


@dataclass(frozen=True, slots=True)
class Sight:
    """The files that one sample was made of, in the order in which they were first handed to decoders."""

    place: Place
    handed: tuple[Handed, ...]


@dataclass(frozen=True, slots=True)
class Known:
    """A file that a sample is made of, and its place among the files of that sample."""

    place: Place
    part: int
    name: str
    header: Header


@dataclass(frozen=True, slots=True)
class Sightings:
    """The files of some samples, and the modules of decoders that had been imported by then.

    `asked` is how many samples were to be looked at, before the time was up.
    """

    sights: tuple[Sight, ...]
    modules: tuple[str, ...]
    asked: int

    def need_all(self) -> None:
        """Raise Undecided where the time was up before all samples had been looked at."""
        if len(self.sights) < self.asked:
            few = f"no such file found in {len(self.sights)} of {self.asked} samples"
            raise Undecided(f"{few}: raise --budget to look at more")

    @property
    def known(self) -> list[Known]:
        """The files whose headers could be read, each once."""
        found: dict[str, Known] = {}
        for sight in self.sights:
            for part, one in enumerate(sight.handed):
                if one.header is not None:
                    found.setdefault(one.name, Known(sight.place, part, one.name, one.header))
        return list(found.values())

    def beside(self, known: Known) -> list[Header]:
        """The headers of the other files of a sample."""
        (sight,) = (sight for sight in self.sights if sight.place == known.place)
        return [one.header for one in sight.handed if one.header is not None and one.name != known.name]


def look(build: Callable[[], Loader], folder: Path, places: Sequence[Index], seconds: float) -> Sightings:
    """Read samples as far as their files tell what they are, in this process, which is thrown away."""
    handing = Handing(folder)
    handing.install()
    loader = build()
    reader = Reader(loader, folder)
    sights: list[Sight] = []
    with seeded(SEED):
        started = time.monotonic()
        for place in _readings(loader, reader, places, handing):
            sights.append(Sight(place, tuple(handing.handed)))
            handing.install()  # for what it imported
            if len(sights) >= WHOLE and places:
                handing.enough = max(len(sight.handed) for sight in sights) or None
            if time.monotonic() - started > seconds:
                break
    modules = dict.fromkeys(one.module for one in OPENERS if one.module in sys.modules)
    return Sightings(tuple(sights), tuple(modules), len(places))


def _readings(loader: Loader, reader: Reader, places: Sequence[Index], handing: Handing) -> Iterator[Place]:
    """Read sample after sample, and yield its place after each. One that raises is no business of this."""
    if not places:
        with suppress(Exception):
            for position, _ in enumerate(islice(iter(loader.dataset), MOST_OF_STREAM)):
                yield position
                handing.handed.clear()
        return
    for place in places:
        handing.handed.clear()
        with suppress(Seen, Exception):
            reader.dataset[place]
        yield place
