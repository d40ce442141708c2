"""Reads samples of one loader repeatedly, with their images replaced by charts.

Charts replace what decoders return, arrays that become Pillow images, what the dataset's transforms are called with, or
what the dataset caches in memory for the index that is read. Caches are copied before anything is written to them,
because arrays may be memory-mapped from the user's files or shared.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from torch.utils.data.dataloader import default_collate

from dataguard.core.incident import is_library
from dataguard.lab.core.leaves import describe, iter_leaves
from dataguard.lab.core.loader_facts import by_name, callables_of
from dataguard.lab.core.records import Index
from dataguard.lab.core.source_location import standing_in
from dataguard.lab.culprit.line_trace import LineTrace, Measure
from dataguard.lab.decoding.decoders import Decoder, Gives, giving
from dataguard.lab.geometry.charts import ChartPainter, InputImage
from dataguard.lab.images.cached_images import copy_cached_images, replaced_in_cache
from dataguard.lab.images.clips import frames_of
from dataguard.lab.images.painter import Painter, is_image, replace_images
from dataguard.lab.process.write_protection import forbid_writes
from dataguard.lab.reading.sample_reader import Reader
from dataguard.process.process_tree import undisturbed_seconds
from dataguard.targets.variants import Loader

ORIGINALS, FEWEST_ORIGINALS = 6, 2
"""Samples that are read without charts, to distinguish images from masks, and how many of those that take long: more
see masks of other labels, fewer take less time."""
_LONG_SECONDS = 2.5
"""Seconds after which the fewest of them are enough: a limit of time."""
_QUICK_SECONDS = 0.1
"""A loader that is built in fewer seconds may be rebuilt for every read: for up to ten draws of nine, 9 s."""

IMAGES_AND_ARRAYS = giving(Gives.PIXELS, Gives.ARRAY, Gives.STORED)
"""What decodes or reads single images. Frames of videos are none: two of them are no image and its mask."""


@dataclass(frozen=True, slots=True)
class ChartedSample:
    """One sample: its index, the input images seen while it was read, and its image leaves by path.

    Leaves are (planes, height, width), with the planes of all images of a stack, one image after the other; `value` is
    the sample itself.
    """

    index: Index
    inputs: tuple[InputImage, ...]
    leaves: Mapping[str, np.ndarray]
    value: Any

    @property
    def stacked(self) -> Mapping[str, int]:
        """The number of images in each leaf: that of its frames in a clip."""
        return {path: len(frames_of(leaf)) for path, leaf in iter_leaves(self.value) if path in self.leaves}


class ChartedReader:
    """Reads samples of one loader while a chart painter replaces their images, those that these `decoders` decode.

    With `bypass`, the dataset's transforms return their arguments. `unread` samples are made without a decoder.
    """

    def __init__(
        self,
        build: Callable[..., Loader],
        folder: Path,
        indices: Sequence[Index],
        draws: int,
        *,
        batched: bool,
        decoders: Sequence[Decoder] = IMAGES_AND_ARRAYS,
        unread: bool = False,
    ) -> None:
        self.painter = ChartPainter()
        self.bypass = False
        self._patches = Painter(self.painter.paint, decoders)
        self._patches.install()
        self._build = build
        self._folder = folder
        self._draws = draws
        self._unread = unread
        self._indices = indices
        self._source = "decoders"
        self._in_callable = self._rebuilds = self._charted = False
        self._outputs: list[Any] = []
        started = undisturbed_seconds()
        self._rebuild()
        self._is_quick = undisturbed_seconds() - started < _QUICK_SECONDS
        self.collated = batched and self._reader.loader.collate_fn is not default_collate

    def _rebuild(self) -> None:
        """Build the loader, and wrap its dataset's own callables."""
        self._reader = Reader(self._build(), self._folder, self._draws)
        callables = list(callables_of(self._reader.dataset, by_name))
        for state, name, held in callables:
            state[name] = standing_in(held, _StandIn(held, self, name))
        self._has_callables = bool(callables)
        if self._source == "memory":
            copy_cached_images(self._reader.dataset)
        self._charted = False

    def sources(self) -> Iterator[str]:
        """Try the sources of images one after the other, in the order in which a pipeline uses them.

        That is: decoders; arrays that the user's own code converts to images; inputs of transforms; cached images.
        Pillow converts nothing before it is imported, and a dataset without callables has no transforms.
        """
        self._read(-1, 0)  # triggers late imports
        self._patches.install()
        if not self._unread:
            yield self._source
        self._patches.replace = _unchanged
        self._source = "arrays"
        self._patches.patch_fromarray(self._paint_array)
        if "PIL.Image" in sys.modules:
            yield self._source
        self._source = "transforms"
        if self._has_callables:
            yield self._source
        self._source = "memory"
        if self._charted:  # the dataset may keep charts that it was given
            self._rebuild()
        else:
            copy_cached_images(self._reader.dataset)
        yield self._source

    def originals(self) -> list[ChartedSample]:
        """A few samples without charts; only one if no image is seen while it is read."""
        started = undisturbed_seconds()
        samples = [self.read(0, 0)]
        for number in range(1, ORIGINALS if samples[0].inputs else 1):
            if number >= FEWEST_ORIGINALS and undisturbed_seconds() - started > _LONG_SECONDS:
                break
            samples.append(self.read(number, 0))
        return samples

    def _paint_array(self, array: Any, name: str) -> Any:
        """An array that becomes a Pillow image: replaced by a chart if the user's own code converts it."""
        caller = sys._getframe(3).f_code.co_filename  # above `fromarray` and what is called in its place
        return self.painter.paint(array, name) if self._source == "arrays" and not is_library(caller) else array

    def read_charted(
        self, number: int, draw: int, chart: int, *, negative_image: bool = False, negative_mask: bool = False
    ) -> ChartedSample | None:
        """A sample with its images replaced by a chart; None if none was replaced.

        If images are cached from earlier reads, the loader is rebuilt for every read, provided that it is fast.
        """
        negative = {"negative_image": negative_image, "negative_mask": negative_mask}
        sample = self.read(number, draw, chart, **negative)
        if not sample.inputs and self._is_quick and not self._rebuilds:
            self._rebuilds = True
            sample = self.read(number, draw, chart, **negative)
        return sample if sample.inputs else None

    def read(
        self,
        number: int,
        draw: int,
        chart: int | None = None,
        *,
        negative_image: bool = False,
        negative_mask: bool = False,
    ) -> ChartedSample:
        """A sample under the RNG state of this draw, with its images unchanged or replaced by a chart."""
        if chart is not None:
            forbid_writes()
            self._charted = True
        if self._rebuilds:
            self._rebuild()
        painter = self.painter
        painter.inputs.clear()
        self._outputs.clear()
        painter.chart, painter.negative_image, painter.negative_mask = chart, negative_image, negative_mask
        try:
            value = self._read(number, draw)
        finally:
            painter.chart = None
        leaves = {
            path: frames.reshape(-1, *frames.shape[2:])
            for path, leaf in iter_leaves(value)
            if is_image(leaf)
            for frames in [frames_of(leaf)]
        }
        return ChartedSample(self._index(number), tuple(painter.inputs), leaves, value)

    def follow(
        self, measure: Measure, number: int, draw: int, chart: int, *, negative_image: bool = False
    ) -> LineTrace | None:
        """What is measured line by line while a sample is read with a chart; None if no image was replaced."""
        roots = {"dataset": self._reader.dataset, "collate_fn": self._reader.loader.collate_fn}
        trace = LineTrace(measure, roots, dropping=True)
        with trace.following():
            sample = self.read_charted(number, draw, chart, negative_image=negative_image)
        return trace if sample else None

    def _index(self, number: int) -> Index:
        return self._indices[number % len(self._indices)] if self._indices else None

    def _read(self, number: int, draw: int) -> Any:
        """A sample, or a batch of it alone if the user's own collate_fn makes one."""
        sample = self._sample(number, draw) if self._indices else self._reader.read_streamed(number % 4, draw)
        if self.collated:
            sample, batched = self._reader.collated(sample, draw)
            self.collated = batched or self.bypass
        return sample

    def _sample(self, number: int, draw: int) -> Any:
        index = self._index(number)
        if self._source != "memory":
            return self._reader.read(index, draw)
        with replaced_in_cache(self._reader.dataset, index, self.painter.paint):
            return copy.deepcopy(self._reader.read(index, draw))  # it may be a view of the cache, which is restored now

    def call_through(
        self, original: Callable[..., Any], name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Call one of the dataset's own callables, with its images replaced by charts if transforms are the source."""
        has_images = any(is_image(leaf) for _, leaf in iter_leaves((args, kwargs)))
        if self._in_callable or not has_images:  # a nested callable gets images that are replaced already
            return original(*args, **kwargs)
        paints = self._source == "transforms"
        if paints:
            args, kwargs = replace_images((args, kwargs), partial(self._paint_input, name))
        if self.bypass:
            return kwargs or (args if len(args) > 1 else args[0])
        self._in_callable = True
        try:
            value = original(*args, **kwargs)
        finally:
            self._in_callable = False
        if paints:
            self._outputs += [leaf for _, leaf in iter_leaves(value) if is_image(leaf)]
        return value

    def _paint_input(self, name: str, image: Any) -> Any:
        """An image passed to a callable, replaced by a chart unless an earlier callable returned it."""
        return image if any(image is output for output in self._outputs) else self.painter.paint(image, name)


class _StandIn:
    """Wraps a callable of the dataset; has its attributes as well."""

    def __init__(self, original: Callable[..., Any], reader: ChartedReader, name: str) -> None:
        self._original = original
        self._reader = reader
        self._name = name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call it through the reader."""
        return self._reader.call_through(self._original, self._name, args, kwargs)

    def __getattr__(self, name: str) -> Any:
        if name == "_original":  # not set yet: this object is being copied
            raise AttributeError(name)
        return getattr(self._original, name)


def _unchanged(image: Any, _: str, __: bool) -> Any:
    return image


def is_steady(sample: ChartedSample, again: ChartedSample) -> bool:
    """Whether two draws of a sample read the same images, and differ in nothing but images."""
    if [image.thumbnail.tobytes() for image in sample.inputs] != [image.thumbnail.tobytes() for image in again.inputs]:
        return False
    values = (
        {path: leaf for path, leaf in iter_leaves(charted.value) if not is_image(leaf)} for charted in (sample, again)
    )
    first, second = ({path: describe(path, leaf).digest for path, leaf in leaves.items()} for leaves in values)
    return first == second
