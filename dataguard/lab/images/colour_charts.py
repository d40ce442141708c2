"""Colour charts: the response of a loader to images of known colours, for `lab.images`.

Charts replace what decoders return while a sample is read or, if samples are cached, while the loader is built. If
nothing is decoded, they replace arrays passed to `Image.fromarray` or to the dataset's own transforms; the channel
order is then unknown.
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
from dataguard.lab.core.source_location import Place
from dataguard.lab.images.chart_fit import (
    BLACK,
    CHARTS,
    MIDDLE,
    WHITE,
    ChartResponse,
    Fit,
    fit,
    follows,
    paths_of,
    response_to,
)
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
"""The number of RNG states: without jitter, with jitter, and for black and white alone."""
MOST_SECONDS = 6.0
"""Seconds after which no more draws are made; what is not settled by then stays undecided."""
MOST_BYTES = 1 << 28
"""The most memory that a loader may use to be built for every chart."""
ITEMS = 24
"""The number of different samples, in case some are cached from earlier reads."""
TRIES = 6
"""Samples that are read to find one with a decoded image."""
READS = TRIES + 2 * DRAWS * len(CHARTS)


@dataclass(frozen=True, slots=True)
class Colours(Rooted):
    """How image leaves follow the colours of charts.

    `source` names where images were replaced; it is a decoder if `decoded`, so that the channel order is known. `grey`
    images have no colours. `unclear` leaves change with the colour, but not by a fixed linear function. `collated`
    leaves are those of a batch of one, from collate_fn; `index` is that of one sample. `at` is the line that decodes.
    """

    source: str
    decoded: bool
    grey: bool
    fits: tuple[Fit, ...]
    unclear: tuple[str, ...]
    charts: int
    collated: bool
    index: Index
    at: Place | None

    def evidence(self, fit: Fit) -> dict[str, object]:
        """The measurements of a leaf, for a finding."""
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

    def summary(self, fit: Fit, statistics: Sequence[Statistics]) -> str:
        """The measurements of a leaf in one line."""
        order = fit.order or ("grey" if self.grey or len(fit.gains) == 1 else "mixed")
        numbers = applied(fit.gains, fit.offsets, statistics)
        accuracy = f"fit error {fit.residual:.1g}" if fit.exact else "measured where jitter is clipped"
        return f"channels {order}, {numbers}, {accuracy}, {self.charts} charts"

    @property
    def expression(self) -> str | None:
        """The expression that yields a sample of a loader, for a reproduction."""
        return None if self.collated or self.index is None else f".dataset[{self.index!r}]"

    @property
    def exercised(self) -> dict[str, int]:
        """How much was inspected."""
        return {"charts": self.charts, "leaves": len(self.fits)}


class Images:
    """Observations of image colours; each observation is made once."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject

    @property
    def expected(self) -> Statistics | None:
        """The statistics in the contract, if any. Raises Undecided for unknown weights."""
        contract = self._subject.settings.contract
        name = contract.get("normalization")
        if not isinstance(name, str) or name in KNOWN:
            return declared(contract)
        return self._subject.vary(("weights", name), lambda _: statistics_of(name))

    @property
    def candidates(self) -> list[Statistics]:
        """The statistics that may be intended: those of the contract first, then those of published models."""
        return [*filter(None, [self.expected]), *KNOWN.values()]

    @property
    def charts(self) -> Colours:
        """The response to the charts.

        Raises NotApplicable if no image is decoded, or nothing in a sample follows its colour, and Undecided if nothing
        follows it linearly.
        """
        subject = self._subject
        subject.need_images()
        subject.afford(READS * subject.epoch.seconds_per_sample)
        indices, batched = subject.epoch.asked(ITEMS) if subject.facts.kind == "map" else (), subject.facts.batched
        return subject.vary("colours", lambda folder: run_charts(subject.build, folder, indices, batched=batched))


def run_charts(build: Callable[..., Loader], folder: Path, indices: Sequence[Index], *, batched: bool) -> Colours:
    """Read samples with their images replaced by charts, in this disposable process."""
    painter = Painter()
    painter.install()
    reader = ColourChartReader(build, folder, indices, painter, batched=batched)
    if not reader.finds_an_image():
        raise NotApplicable("no colour or grey image is decoded or passed to a transform while a sample is read")
    responses = reader.responses()
    paths = [path for path in paths_of(responses) if follows(responses, path)]
    fits = {path: fit(responses, path) for path in paths}
    clear = tuple(one for one in fits.values() if one)
    unclear = tuple(path for path, one in fits.items() if one is None)
    if not paths:
        raise NotApplicable("nothing in the sample follows the colour of its image")
    if not clear:
        raise Undecided(f"sample{unclear[0]} is not a fixed linear function of the image colour")
    at = painter.places.get(reader.source)
    return Colours(
        reader.source, reader.decoded, painter.grey, clear, unclear, len(responses), reader.collated, reader.index, at
    )


class ColourChartReader:
    """Reads samples of one loader with their images replaced by colour charts."""

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
        self._prebuilt: dict[RGB, tuple[Loader, Reader]] = {}
        self._decoded_in_build = frozenset(painter.sources)
        self._painter = painter
        self._indices: Iterator[Index] = cycle(indices or [None])
        self._stream = not indices
        self.index: Index = None
        self.source = ""
        self.decoded = False
        self.collated = batched and loader.collate_fn is not default_collate

    def finds_an_image(self) -> bool:
        """Whether a sample has an image that can be replaced; tries one source after the other.

        Images without colours are last, because they may be the masks of others.
        """
        self._read(0)  # triggers late imports
        self._painter.install()
        if self._paints(TRIES) or self._paints_while_built():
            return True
        self._painter.patch_fromarray()
        if self._paints(1):
            return True
        self._painter.patch_transforms(self._loader.dataset)
        if self._paints(1):
            return True
        self._painter.grey = True
        try:
            return self._paints(1, WHITE) and self._paints(1, MIDDLE)
        except LoaderRaised:  # a mask whose values have a meaning
            return False

    def _paints_while_built(self) -> bool:
        """Whether samples are made of images that were decoded and cached while the loader was built.

        If this takes little time and memory, the loader is built once for each chart.
        """
        if not (self._decoded_in_build and self._can_build_more):
            return False
        usual = self._loader, self._reader
        try:
            self._prebuilt = {chart: self._built_with(chart) for chart in CHARTS}
            responses = [response for chart in (BLACK, WHITE) for response in [self._response(chart, 0)] if response]
        except Exception:  # noqa: BLE001 - the user's code may fail on a chart
            responses = []
        self._build()  # files that it wrote meanwhile hold images again
        found = any(follows(responses, path) for path in paths_of(responses))
        if not found:
            self._prebuilt, (self._loader, self._reader) = {}, usual
        self.source, self.decoded = max(self._decoded_in_build), found
        return found

    def _built_with(self, chart: RGB) -> tuple[Loader, Reader]:
        self._painter.colour = chart
        try:
            loader = self._build()
        finally:
            self._painter.colour = None
        return loader, Reader(loader, self._folder, MOST_DRAWS)

    def _paints(self, tries: int, chart: RGB = BLACK) -> bool:
        """Whether one of `tries` samples has an image that is replaced; notes its source."""
        found = any(self._response(chart, 0) for _ in range(tries))
        self.source = max(self._painter.sources, default="")
        self.decoded = found and self.source not in self._painter.undecoded
        return found

    def responses(self) -> list[ChartResponse]:
        """The responses to every chart in a few draws, or in more until all leaves that follow the colour are settled.

        If jitter is rarely clipped, many draws of black and white are needed.
        """
        found: list[ChartResponse] = []
        started = time.monotonic()
        for draw in range(MOST_DRAWS):
            charts = CHARTS if draw < SOME_DRAWS else (BLACK, WHITE)
            found += [response for chart in charts for response in [self._response(chart, draw)] if response]
            late = time.monotonic() - started > MOST_SECONDS
            if draw + 1 >= DRAWS and (late or self._settled(found, draw + 1)):
                break
        return found

    @staticmethod
    def _settled(responses: Sequence[ChartResponse], draws: int) -> bool:
        """Whether more draws would add nothing: all agree, or there are enough of them.

        Each chart must have a response: samples with a grey image have none. An unusual order in two draws may be one
        to which channels are permuted at random.
        """
        if {response.chart for response in responses} != set(CHARTS):
            return False
        fits = [fit(responses, path) for path in paths_of(responses) if follows(responses, path)]
        enough = draws >= SOME_DRAWS // 2
        return bool(fits) and all(
            one is not None and (enough or (one.exact and one.order in ("RGB", ""))) for one in fits
        )

    def _response(self, chart: RGB, draw: int) -> ChartResponse | None:
        """The response to one chart; None if no image of the sample was replaced."""
        self._painter.sources.clear()
        self._painter.colour = chart
        if chart in self._prebuilt:
            self._loader, self._reader = self._prebuilt[chart]
            self._painter.sources |= self._decoded_in_build
        try:
            value = self._read(draw)
        finally:
            self._painter.colour = None
        return response_to(chart, draw, value, self._painter.bands) if self._painter.sources else None

    def _read(self, draw: int) -> Any:
        """The next sample, or a batch of it alone if the user's own collate_fn makes one."""
        if self._stream:
            with gate("sample"), seeded(SEED + draw):
                sample = next(iter(self._loader.dataset))
        else:
            self.index = next(self._indices)
            sample = self._reader.read(self.index, draw)
        if self.collated:
            sample, self.collated = collated_alone(self._loader, sample, SEED + draw)
        return sample
