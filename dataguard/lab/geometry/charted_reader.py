"""One loader whose samples are read again and again while charts are drawn over their images."""

from __future__ import annotations

import copy
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from torch.utils.data.dataloader import default_collate

from dataguard.incident import is_library
from dataguard.lab.core.index import Index
from dataguard.lab.core.leaves import iter_leaves
from dataguard.lab.core.stand_ins import standing_in
from dataguard.lab.core.wrapped_datasets import by_name, callables_of
from dataguard.lab.decoding.decoders import Gives, giving
from dataguard.lab.geometry.cached_images import copy_kept, kept_for
from dataguard.lab.geometry.chart_painter import Easel, Given
from dataguard.lab.images.image_containers import exchange, is_picture, planes_of
from dataguard.lab.images.painter import Painter
from dataguard.lab.reading.epoch_trace import gate
from dataguard.lab.reading.leaf_root import collated_alone
from dataguard.lab.reading.sample_reader import Reader
from dataguard.lab.rng.global_rng import SEED, seeded
from dataguard.target.variants import Loader

_QUICK = 0.1
"""Seconds in which a loader is built, for it to be built again and again."""


@dataclass(frozen=True, slots=True)
class View:
    """One sample: its index, the images that came along while it was made, and those among its leaves, by path.

    Leaves are (planes, height, width); `value` is the sample itself.
    """

    index: Index
    given: tuple[Given, ...]
    leaves: Mapping[str, np.ndarray]
    value: Any


class Sitting:
    """Reads samples of one loader through an easel.

    With `bypass`, the dataset's transforms give back what they are called with.
    """

    def __init__(
        self, build: Callable[..., Loader], folder: Path, indices: Sequence[Index], draws: int, *, batched: bool
    ) -> None:
        self.easel = Easel()
        self.bypass = False
        self._painter = Painter(self.easel.draw, giving(Gives.PIXELS, Gives.ARRAY))
        self._painter.install()
        self._start = partial(_started, build, folder, draws)
        self._indices = indices
        self._place = "decoders"
        self._inside = self._renews = False
        self._made: list[Any] = []
        started = time.monotonic()
        self._begin()
        self._is_quick = time.monotonic() - started < _QUICK
        self.collated = batched and self._loader.collate_fn is not default_collate

    def _begin(self) -> None:
        """Build the loader, and stand before its dataset's own callables."""
        self._loader, self._reader = self._start()
        for state, name, held in callables_of(self._loader.dataset, by_name):
            state[name] = standing_in(held, Stand(held, self, name))
        if self._place == "memory":
            copy_kept(self._loader.dataset)

    def places(self) -> Iterator[str]:
        """Go from place to place where images come along, in the order in which they do.

        That is: decoders; arrays that the user's own code makes images of; transforms; what the dataset keeps.
        """
        self._read(-1, 0)  # it imports what is imported late
        self._painter.install()
        yield self._place
        self._painter.brush = _as_it_is
        self._place = "arrays"
        self._painter.take_arrays(self._draw_array)
        yield self._place
        self._place = "transforms"
        yield self._place
        self._place = "memory"
        self._begin()
        yield self._place

    def _draw_array(self, array: Any, name: str) -> Any:
        """An array that becomes an image of Pillow's: drawn over where the user's own code makes it one."""
        caller = sys._getframe(2).f_code.co_filename
        return self.easel.draw(array, name) if self._place == "arrays" and not is_library(caller) else array

    def shot(self, number: int, draw: int, chart: int, *, picture: bool = False, target: bool = False) -> View | None:
        """A sample with a chart in place of its images; None where none was drawn over.

        Where images are kept from earlier reads, the loader is built anew for each, if that is quickly done.
        """
        view = self.look(number, draw, chart, picture=picture, target=target)
        if not view.given and self._is_quick and not self._renews:
            self._renews = True
            view = self.look(number, draw, chart, picture=picture, target=target)
        return view if view.given else None

    def look(
        self, number: int, draw: int, chart: int | None = None, *, picture: bool = False, target: bool = False
    ) -> View:
        """A sample in this state of the generators, with a chart or as it is; pictures or maps as negatives."""
        if self._renews:
            self._begin()
        easel = self.easel
        easel.given.clear()
        self._made.clear()
        easel.chart, easel.negative_picture, easel.negative_map = chart, picture, target
        try:
            value = self._read(number, draw)
        finally:
            easel.chart = None
        leaves = {path: planes_of(leaf) for path, leaf in iter_leaves(value) if is_picture(leaf)}
        return View(self._index(number), tuple(easel.given), leaves, value)

    def _index(self, number: int) -> Index:
        return self._indices[number % len(self._indices)] if self._indices else None

    def _read(self, number: int, draw: int) -> Any:
        """A sample, or a batch of it alone where the user's own collate_fn makes one."""
        if self._indices:
            sample = self._sample(number, draw)
        else:
            with gate("sample"), seeded(SEED + draw):
                sample = next(islice(iter(self._loader.dataset), number % 4, None))
        if self.collated:
            sample, made = collated_alone(self._loader, sample, SEED + draw)
            self.collated = made or self.bypass
        return sample

    def _sample(self, number: int, draw: int) -> Any:
        index = self._index(number)
        if self._place != "memory":
            return self._reader.read(index, draw)
        with kept_for(self._loader.dataset, index, self.easel.draw):
            return copy.deepcopy(self._reader.read(index, draw))  # it may be a view of what is put back now

    def pass_on(self, original: Callable[..., Any], name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call one of the dataset's own callables, with its pictures drawn over where this is the place."""
        has_pictures = any(is_picture(leaf) for _, leaf in iter_leaves((args, kwargs)))
        if self._inside or not has_pictures:  # what another one calls in turn gets pictures that are drawn over already
            return original(*args, **kwargs)
        draws = self._place == "transforms"
        if draws:
            args, kwargs = exchange((args, kwargs), partial(self._draw_input, name))
        if self.bypass:
            return kwargs or (args if len(args) > 1 else args[0])
        self._inside = True
        try:
            value = original(*args, **kwargs)
        finally:
            self._inside = False
        if draws:
            self._made += [leaf for _, leaf in iter_leaves(value) if is_picture(leaf)]
        return value

    def _draw_input(self, name: str, image: Any) -> Any:
        """An image that is handed to a callable, drawn over unless an earlier one has made it."""
        return image if any(image is made for made in self._made) else self.easel.draw(image, name)


class Stand:
    """Stands before a callable of the dataset's, and looks like it."""

    def __init__(self, original: Callable[..., Any], sitting: Sitting, name: str) -> None:
        self._original = original
        self._sitting = sitting
        self._name = name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call it, with its pictures drawn over where the sitting says so."""
        return self._sitting.pass_on(self._original, self._name, args, kwargs)

    def __getattr__(self, name: str) -> Any:
        if name == "_original":  # not set yet: this object is just being copied
            raise AttributeError(name)
        return getattr(self._original, name)


def _started(build: Callable[..., Loader], folder: Path, draws: int) -> tuple[Loader, Reader]:
    loader = build()
    return loader, Reader(loader, folder, draws)


def _as_it_is(image: Any, _: str, __: bool) -> Any:
    return image
