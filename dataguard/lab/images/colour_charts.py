"""Colour charts: what a loader makes of images whose colour is known, for `subject.colour`.

The images that decoders hand to the user's code are painted over, while a sample is read or, where samples are kept
from then on, while the loader is built. Where nothing is decoded, arrays are painted on their way into
`Image.fromarray` or into the dataset's own transforms; the order of their channels is then the user's word.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any

from torch.utils.data.dataloader import default_collate

from dataguard.incident import LoaderRaised
from dataguard.lab.core.index import Index
from dataguard.lab.images.chart_fit import BLACK, CHARTS, MIDDLE, WHITE, Fit, Shot, fit, follows, paths_of, shoot
from dataguard.lab.images.painter import RGB, Painter
from dataguard.lab.images.weight_statistics import statistics_of
from dataguard.lab.reading.epoch_trace import gate
from dataguard.lab.reading.leaf_root import Rooted, collated_alone
from dataguard.lab.reading.sample_reader import Reader
from dataguard.lab.rng.global_rng import SEED, seeded
from dataguard.lab.spy.usage_readings import memory_taken
from dataguard.lab.subject import Subject
from dataguard.model import NotApplicable, Undecided, known
from dataguard.settings.normalization import KNOWN, Statistics, applied, declared, recovered, shown
from dataguard.target.variants import Loader

DRAWS, SOME_DRAWS, MOST_DRAWS = 2, 12, 40
"""How many states the generators are put into; with jitter more of them, and in the end for black and white alone."""
MOST_SECONDS = 6.0
"""Seconds after which no more draws are made; what is not settled by then stays undecided."""
MOST_BYTES = 1 << 28
"""What a loader holds at most for it to be built for every chart."""
ITEMS = 24
"""Different samples, so that one kept from an earlier read is passed over."""
TRIES = 6
"""Samples that are read to find one with a decoded image."""
READS = TRIES + 2 * DRAWS * len(CHARTS)


@dataclass(frozen=True, slots=True)
class Colours(Rooted):
    """How image leaves follow the colours of charts.

    `source` names where they were painted, and `decoded` tells that it is a decoder, so that the order of channels is
    known; `grey` that images have no colours to begin with. `unclear` leaves change with the colour, but not by a fixed
    straight line. `collated` tells that leaves are those of a batch of one, as collate_fn gives it; `index` is that of
    one sample.
    """

    source: str
    decoded: bool
    grey: bool
    fits: tuple[Fit, ...]
    unclear: tuple[str, ...]
    charts: int
    collated: bool
    index: Index

    def evidence(self, fit: Fit) -> dict[str, object]:
        """What was measured of a leaf, for a finding."""
        mean, std = recovered(fit.gains, fit.offsets)
        return known(
            {
                "charted via": self.source,
                "channel order": fit.order,
                "mean": shown(mean),
                "std": shown(std),
                "values of black and white": [shown(fit.offsets), shown(fit.white)],
                "charts": self.charts,
                "fit error": float(f"{fit.residual:.2g}"),
            }
        )

    def told(self, fit: Fit, statistics: Sequence[Statistics]) -> str:
        """What was measured of a leaf, in one line."""
        order = fit.order or ("grey" if self.grey or len(fit.gains) == 1 else "mixed")
        numbers = applied(fit.gains, fit.offsets, statistics)
        sure = f"fit error {fit.residual:.1g}" if fit.exact else "measured where jitter is clipped"
        return f"channels {order}, {numbers}, {sure}, {self.charts} charts"

    @property
    def expression(self) -> str | None:
        """What to evaluate of a loader to see a sample again."""
        return None if self.collated or self.index is None else f".dataset[{self.index!r}]"

    @property
    def exercised(self) -> dict[str, int]:
        """How much was looked at."""
        return {"charts": self.charts, "leaves": len(self.fits)}


class Images:
    """The part of a lab for colours; the observation is made once."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject

    @property
    def meant(self) -> Statistics | None:
        """The statistics that the contract says are meant, if it does. Raises Undecided for weights nobody knows."""
        contract = self._subject.settings.contract
        name = contract.get("normalization")
        if not isinstance(name, str) or name in KNOWN:
            return declared(contract)
        return self._subject.vary(("weights", name), lambda _: statistics_of(name))

    @property
    def meanings(self) -> list[Statistics]:
        """The statistics that may be meant: those of the contract first, then those of published models."""
        return [*filter(None, [self.meant]), *KNOWN.values()]

    @property
    def charts(self) -> Colours:
        """What became of the charts.

        Raises NotApplicable where no image with colours is decoded, or nothing of a sample follows it, and Undecided
        where what follows it does so in no plain manner.
        """
        subject = self._subject
        subject.afford(READS * subject.epoch.seconds_per_sample)
        indices, batched = subject.epoch.asked(ITEMS) if subject.facts.kind == "map" else (), subject.facts.batched
        return subject.vary("colours", lambda folder: run_charts(subject.build, folder, indices, batched=batched))


def run_charts(build: Callable[..., Loader], folder: Path, indices: Sequence[Index], *, batched: bool) -> Colours:
    """Read samples while their images are charts, in this process, which is thrown away."""
    painter = Painter()
    painter.install()
    studio = Studio(build, folder, indices, painter, batched=batched)
    if not studio.finds_an_image():
        raise NotApplicable("no colour or grey image is decoded or passed to a transform while a sample is read")
    shots = studio.shots()
    paths = [path for path in paths_of(shots) if follows(shots, path)]
    fits = {path: fit(shots, path) for path in paths}
    clear = tuple(one for one in fits.values() if one)
    unclear = tuple(path for path, one in fits.items() if one is None)
    if not paths:
        raise NotApplicable("nothing in the sample follows the colour of its image")
    if not clear:
        raise Undecided(f"sample{unclear[0]} is not a fixed linear function of the image colour")
    return Colours(
        studio.source, studio.decoded, painter.grey, clear, unclear, len(shots), studio.collated, studio.index
    )


class Studio:
    """Reads samples of one loader with charts for images."""

    def __init__(
        self, build: Callable[..., Loader], folder: Path, indices: Sequence[Index], painter: Painter, *, batched: bool
    ) -> None:
        self._build = build
        self._folder = folder
        started, taken = time.monotonic(), memory_taken()
        self._loader = loader = build()
        quick, small = time.monotonic() - started < MOST_SECONDS / len(CHARTS), memory_taken() - taken < MOST_BYTES
        self._can_build_more = quick and small
        self._reader = Reader(loader, folder, MOST_DRAWS)
        self._stocked: dict[RGB, tuple[Loader, Reader]] = {}
        self._stock = frozenset(painter.painted)
        self._painter = painter
        self._indices: Iterator[Index] = cycle(indices or [None])
        self._stream = not indices
        self.index: Index = None
        self.source = ""
        self.decoded = False
        self.collated = batched and loader.collate_fn is not default_collate

    def finds_an_image(self) -> bool:
        """Whether a sample is made of an image that can be painted; looks for the place where it can.

        Images without colours come last, for they may be masks beside others that have them.
        """
        self._read(0)  # it imports what is imported late
        self._painter.install()
        if self._paints(TRIES) or self._keeps_charts():
            return True
        self._painter.take_arrays()
        if self._paints(1):
            return True
        self._painter.take_inputs(self._loader.dataset)
        if self._paints(1):
            return True
        self._painter.grey = True
        try:
            return self._paints(1, WHITE) and self._paints(1, MIDDLE)
        except LoaderRaised:  # a mask whose numbers mean something
            return False

    def _keeps_charts(self) -> bool:
        """Whether samples are made of images that were decoded while the loader was built, and are kept since.

        It is built anew with each chart for all of them then, where that takes little time and memory.
        """
        if not (self._stock and self._can_build_more):
            return False
        usual = self._loader, self._reader
        try:
            self._stocked = {chart: self._built_with(chart) for chart in CHARTS}
            shots = [shot for chart in (BLACK, WHITE) for shot in [self._shoot(chart, 0)] if shot]
        except Exception:  # noqa: BLE001 - the user's code computes something of the images that a chart does not have
            shots = []
        self._build()  # what it wrote into files meanwhile is made of images again
        found = any(follows(shots, path) for path in paths_of(shots))
        if not found:
            self._stocked, (self._loader, self._reader) = {}, usual
        self.source, self.decoded = max(self._stock), found
        return found

    def _built_with(self, chart: RGB) -> tuple[Loader, Reader]:
        self._painter.colour = chart
        try:
            loader = self._build()
        finally:
            self._painter.colour = None
        return loader, Reader(loader, self._folder, MOST_DRAWS)

    def _paints(self, tries: int, chart: RGB = BLACK) -> bool:
        """Whether one of so many samples is made of an image that is painted, and by whom."""
        found = any(self._shoot(chart, 0) for _ in range(tries))
        self.source = max(self._painter.painted, default="")
        self.decoded = found and self.source not in self._painter.undecoded
        return found

    def shots(self) -> list[Shot]:
        """Every chart in a few draws, in more of them as long as some leaf that follows the colour is not settled.

        Jitter that hardly ever goes as far as black and white are cut off takes many of those two.
        """
        found: list[Shot] = []
        started = time.monotonic()
        for draw in range(MOST_DRAWS):
            charts = CHARTS if draw < SOME_DRAWS else (BLACK, WHITE)
            found += [shot for chart in charts for shot in [self._shoot(chart, draw)] if shot]
            late = time.monotonic() - started > MOST_SECONDS
            if draw + 1 >= DRAWS and (late or self._settled(found, draw + 1)):
                break
        return found

    @staticmethod
    def _settled(shots: Sequence[Shot], draws: int) -> bool:
        """Whether more draws would add nothing: all agree, or there are enough of them.

        Each chart has to be among them: samples of a grey image in between are not painted.
        """
        if {shot.chart for shot in shots} != set(CHARTS):
            return False
        fits = [fit(shots, path) for path in paths_of(shots) if follows(shots, path)]
        enough = draws >= SOME_DRAWS // 2
        return bool(fits) and all(one is not None and (one.exact or enough) for one in fits)

    def _shoot(self, chart: RGB, draw: int) -> Shot | None:
        """One chart; None where the sample was made of no image that was painted."""
        self._painter.painted.clear()
        self._painter.colour = chart
        if chart in self._stocked:
            self._loader, self._reader = self._stocked[chart]
            self._painter.painted |= self._stock
        try:
            value = self._read(draw)
        finally:
            self._painter.colour = None
        return shoot(chart, draw, value, self._painter.bands) if self._painter.painted else None

    def _read(self, draw: int) -> Any:
        """The next sample, or a batch of it alone where the user's own collate_fn makes one."""
        if self._stream:
            with gate("sample"), seeded(SEED + draw):
                sample = next(iter(self._loader.dataset))
        else:
            self.index = next(self._indices)
            sample = self._reader.read(self.index, draw)
        if self.collated:
            sample, self.collated = collated_alone(self._loader, sample, SEED + draw)
        return sample
