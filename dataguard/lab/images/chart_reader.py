"""Reads samples of one loader with their images replaced by charts of one colour, wherever they are decoded."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import cycle
from math import gcd
from pathlib import Path
from typing import Any, TypeVar

from torch.utils.data.dataloader import default_collate

from dataguard.core.incident import LoaderRaised
from dataguard.core.model import NotApplicable
from dataguard.lab.core.records import Index
from dataguard.lab.culprit.line_trace import LineTrace, Measure
from dataguard.lab.images.cached_images import copy_cached_images, replaced_in_cache
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
from dataguard.lab.images.colour_lines import levels
from dataguard.lab.images.painter import RGB, Painter
from dataguard.lab.process.isolation import in_fork
from dataguard.lab.process.write_protection import WriteRefused, forbid_writes
from dataguard.lab.reading.sample_reader import Reader
from dataguard.lab.spy.usage_readings import memory_taken
from dataguard.process.process_tree import undisturbed_seconds
from dataguard.targets.variants import Loader

T = TypeVar("T")

FEWEST_DRAWS, JITTER_DRAWS, MOST_DRAWS = 2, 12, 40
"""The number of RNG states: without jitter, with jitter, and for black and white alone.

Two draws that agree need no third; jitter that is clipped in one of ten draws reaches the end of the range three times
in 40 draws in 78 of 100 cases.
"""
CONFIRMING_DRAWS = 8
"""Draws of red alone, after draws that agree: jitter that is rounded to 8 bits does so once in a hundred times, and
channels that are reversed in half of the draws once in four before these draws, and in one of a thousand after them."""
DRAW_SECONDS = 6.0
"""Seconds after which no more draws are made: a tenth of the default budget. What is not settled by then stays
undecided."""
MOST_BUILD_BYTES = 1 << 28
"""The most memory, 256 MiB, that a loader may use to be built for every chart: all six are kept."""
FEWEST_MIXED_SAMPLES = 5
"""The fewest samples that can be read in turn, each with another chart every time: this and the charts are coprime."""
IMAGE_TRIES, SLOW_TRIES = 6, 2
"""Samples that are read to find one with a decoded image, and how many if that takes long: others may come from a
cache."""


RED: RGB = (255, 0, 0)
"""The chart that shows the channel order, beside black and white."""
MOST_ITEMS = 24
"""The number of different samples, in case some are cached from earlier reads."""


def fits_of(responses: Sequence[ChartResponse]) -> dict[str, Fit | None]:
    """The fit of each leaf that follows the colour."""
    return {path: fit(responses, path) for path in paths_of(responses) if follows(responses, path)}


class ColourChartReader:
    """Reads samples of one loader with their images replaced by charts, which its `painter` draws in this process."""

    def __init__(
        self,
        build: Callable[..., Loader],
        folder: Path,
        indices: Sequence[Index],
        *,
        batched: bool,
        tries: int = IMAGE_TRIES,
    ) -> None:
        self.painter = Painter()
        self.painter.install()
        self._build = build
        self._tries = tries
        self._folder = folder
        self._reader = Reader(self._measured_build(), folder, MOST_DRAWS)
        self._prebuilt: dict[RGB, Reader] = {}
        self._indices: Iterator[Index] = cycle(_mixing(indices) or [None])
        self._is_stream = not indices
        self._forks = self._in_memory = False
        self.index: Index = None
        self.source = ""
        self.decoded = False
        self.collated = batched and self._reader.loader.collate_fn is not default_collate

    def _measured_build(self) -> Loader:
        """Build the loader, and note what it decodes, and whether it can be built for each chart."""
        started, taken = undisturbed_seconds(), memory_taken()
        loader = self._build()
        quick, small = (
            undisturbed_seconds() - started < DRAW_SECONDS / len(CHARTS),
            memory_taken() - taken < MOST_BUILD_BYTES,
        )
        self._can_build_more = quick and small
        self._decoded_in_build = frozenset(self.painter.sources)
        return loader

    def require_an_image(self, *, decoded_before: bool, unread: bool = False) -> None:
        """Raise NotApplicable if there is none that can be replaced; see `finds_an_image`."""
        if not self.finds_an_image(decoded_before=decoded_before, unread=unread):
            raise NotApplicable("no colour or grey image is decoded or passed to a transform while a sample is read")

    def finds_an_image(self, *, decoded_before: bool, unread: bool = False) -> bool:
        """Whether a sample has an image that can be replaced; tries one source after the other.

        If images were `decoded_before` the first loader was given, another one is built to replace them. `unread`:
        samples are known to be read from no file, and made without a decoder.

        Images without colours are last, because they may be the masks of others.
        """
        self._read(0)  # triggers late imports
        self.painter.install()
        if not unread and self._paints(self._tries):
            return True
        if decoded_before and not self._decoded_in_build:
            self._measured_build()
        if self._paints_while_built():
            return True
        converted = self.painter.patch_fromarray()
        if converted and self._paints(1):
            return True
        transformed = self.painter.patch_transforms(self._reader.dataset)
        if transformed and self._paints(1):
            return True
        self.painter.patch_arrays()
        if (not unread and self._paints(1)) or self._paints_in_memory():
            return True
        if unread and not (converted or transformed):
            return False
        self.painter.grey = True
        try:
            return self._paints(1, WHITE) and self._paints(1, MIDDLE)
        except LoaderRaised:  # a mask whose values have a meaning
            return False

    def _paints_while_built(self) -> bool:
        """Whether samples are made of images that were decoded and cached while the loader was built.

        If this takes little time and memory, the loader is built once for each chart, and may write no file then. That
        is tried in a fork, because there is no way back.
        """
        if not (self._decoded_in_build and self._can_build_more):
            return False
        self.source = max(self._decoded_in_build)
        try:
            self.decoded = bool(in_fork(partial(self._build_for_charts, BLACK, WHITE)))
        except WriteRefused:  # other sources are tried
            return False
        if self.decoded:
            self._build_for_charts(*CHARTS)
        return self.decoded

    def _paints_in_memory(self) -> bool:
        """Whether a sample is made of an image that the dataset holds in memory."""
        self._in_memory = not self._is_stream
        if self._in_memory:
            copy_cached_images(self._reader.dataset)  # they may be shared, or mapped from the user's files
            self._in_memory = self._paints(1)
        return self._in_memory

    def _build_for_charts(self, *charts: RGB) -> bool:
        """Build the loader for each of these charts. Returns whether samples follow it."""
        forbid_writes()
        self._prebuilt = {chart: self._built_with(chart) for chart in charts}
        responses = [response for chart in (BLACK, WHITE) for response in [self._response(chart, 0)] if response]
        return any(follows(responses, path) for path in paths_of(responses))

    def _built_with(self, chart: RGB) -> Reader:
        self.painter.colour = chart
        try:
            loader = self._build()
        finally:
            self.painter.colour = None
        return Reader(loader, self._folder, MOST_DRAWS)

    def _paints(self, tries: int, chart: RGB = BLACK) -> bool:
        """Whether one of `tries` samples has an image that is replaced; notes its source."""
        replaced = any(self._response(chart, 0) for _ in range(tries))
        self.source = max(self.painter.sources, default="")
        self.decoded = replaced and self.source not in self.painter.undecoded
        return replaced

    def responses(self) -> list[ChartResponse]:
        """The responses to every chart in a few draws, or in more until all leaves that follow the colour are settled.

        If jitter is rarely clipped, many draws of black and white are needed.
        """
        responses: list[ChartResponse] = []
        started, disagree = undisturbed_seconds(), False
        for draw in range(MOST_DRAWS):
            charts = CHARTS if draw < JITTER_DRAWS or disagree else (BLACK, WHITE)
            responses += [response for chart in charts for response in [self._response(chart, draw)] if response]
            fits = list(fits_of(responses).values())
            disagree = any(leaf_fit is not None and leaf_fit.order is None for leaf_fit in fits)
            seen = {response.chart for response in responses} == set(CHARTS)
            late = undisturbed_seconds() - started > DRAW_SECONDS
            settled = draw + 1 >= FEWEST_DRAWS and seen and self._settled(fits, draw + 1)
            if (late and draw + 1 >= FEWEST_DRAWS) or (settled and self._stays(responses, draw + 1)):
                break
        return responses

    def _stays(self, responses: Sequence[ChartResponse], draws: int) -> bool:
        """Whether leaves that were the same in all draws are so for red in a few more, or for white if grey."""
        if draws >= JITTER_DRAWS // 2:
            return True
        chart = WHITE if self.painter.grey else RED
        more = [self._response(chart, draw) for draw in range(draws, draws + CONFIRMING_DRAWS)]
        return all(
            leaf_fit is not None and leaf_fit.exact for leaf_fit in fits_of([*responses, *filter(None, more)]).values()
        )

    @staticmethod
    def _settled(fits: Sequence[Fit | None], draws: int) -> bool:
        """Whether more draws would add nothing: all agree, or there are enough of them.

        An unusual order in two draws may be one to which channels are permuted at random.
        """
        enough = draws >= JITTER_DRAWS // 2
        return bool(fits) and all(
            leaf_fit is not None
            and leaf_fit.order is not None
            and (enough or (leaf_fit.exact and leaf_fit.order in ("RGB", "")))
            for leaf_fit in fits
        )

    def forget(self) -> None:
        """Read each sample in a separate fork from now on: it may show images that earlier reads have cached."""
        self._reader = Reader(self._build(), self._folder, MOST_DRAWS)
        self._forks = True
        if self._in_memory:
            copy_cached_images(self._reader.dataset)

    def _response(self, chart: RGB, draw: int) -> ChartResponse | None:
        """The response to one chart; None if no image of the sample was replaced."""
        respond = partial(self._respond, chart, draw)
        return in_fork(respond) if self._forks else respond()

    def _respond(self, chart: RGB, draw: int) -> ChartResponse | None:
        return self._measured(chart, draw, partial(response_to, chart, draw))

    def keep_sample(self) -> None:
        """Read the same sample from now on, each time in a separate fork if earlier reads are cached."""
        if self._prebuilt:
            raise NotApplicable("images are decoded while the loader is built, once for each chart")
        self._indices = cycle([self.index])
        self._forks = self._response(WHITE, 0) is None or self._forks

    def measured(self, chart: RGB | None, draw: int, measure: Callable[[Any, int], T]) -> T | None:
        """A measurement of one sample with a chart, or as it is; None if its image was not replaced."""
        run = partial(self._measured, chart, draw, measure)
        return in_fork(run) if self._forks else run()

    def _measured(self, chart: RGB | None, draw: int, measure: Callable[[Any, int], T]) -> T | None:
        forbid_writes()
        self.painter.sources.clear()
        self.painter.colour = chart
        if chart in self._prebuilt:
            self._reader = self._prebuilt[chart]
            self.painter.sources |= self._decoded_in_build
        try:
            value = self._read(draw)
        finally:
            self.painter.colour = None
        return measure(value, self.painter.bands) if self.painter.sources else None

    def followed(self, chart: RGB, draw: int = 0, measure: Measure = levels) -> LineTrace:
        """What a sample with this chart holds, line by line: the same sample for each chart."""
        self._indices = iter([self.index, self.index])
        roots = {"dataset": self._reader.dataset, "collate_fn": self._reader.loader.collate_fn}
        trace = LineTrace(measure, roots)
        with trace.following():
            self._respond(chart, draw)
        return trace

    def _read(self, draw: int) -> Any:
        """The next sample, or a batch of it alone if the user's own collate_fn makes one."""
        if self._is_stream:
            sample = self._reader.read_streamed(0, draw)
        else:
            self.index = next(self._indices)
            sample = self._sample(draw)
        if self.collated:
            sample, self.collated = self._reader.collated(sample, draw)
        return sample

    def _sample(self, draw: int) -> Any:
        if not self._in_memory:
            return self._reader.read(self.index, draw)
        with replaced_in_cache(self._reader.dataset, self.index, self.painter.paint_array):
            return copy.deepcopy(self._reader.read(self.index, draw))  # it may be a view of what is restored now


def _mixing(indices: Sequence[Index]) -> Sequence[Index]:
    """As many of the indices as meet every chart in turn: one that met a single chart would pass for its colour."""
    mixing = (count for count in range(len(indices), FEWEST_MIXED_SAMPLES - 1, -1) if gcd(count, len(CHARTS)) == 1)
    return indices[: next(mixing, len(indices))]
