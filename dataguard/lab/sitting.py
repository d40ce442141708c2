"""One loader whose samples are read again and again while charts are drawn over their images."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from torch.utils.data.dataloader import default_collate

from dataguard.lab.containers import exchange, is_picture, planes_of
from dataguard.lab.decoders import DECODERS, Decoder, Painter, chain
from dataguard.lab.easel import Easel, Given
from dataguard.lab.leaves import walk
from dataguard.lab.passes import gate
from dataguard.lab.pins import PIN, pinned
from dataguard.lab.reader import Reader
from dataguard.lab.records import Index
from dataguard.lab.stores import copy_kept, kept_for
from dataguard.variants import Loader

_FILES = (*DECODERS, Decoder("numpy", "load"))


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
        self._painter = Painter(self.easel.draw, _FILES)
        self._painter.install()
        self._loader = build()
        self._reader = Reader(self._loader, folder, draws)
        self._indices = indices
        self.bypass = False
        self._draws_inputs = self._inside = False
        self._made: list[Any] = []
        self._keeps = False
        self.collated = batched and self._loader.collate_fn is not default_collate

    def places(self) -> Iterator[str]:
        """Go from place to place where images come along: decoders, transforms, and what the dataset keeps."""
        self._read(0, 0)  # it imports what is imported late
        self._painter.install()
        self._take_inputs()
        yield "decoders"
        self._painter.brush = _as_it_is
        self._draws_inputs = True
        yield "transforms"
        self._draws_inputs = False
        copy_kept(self._loader.dataset)
        self._keeps = True
        yield "memory"

    def look(
        self, number: int, draw: int, chart: int | None = None, *, picture: bool = False, target: bool = False
    ) -> View:
        """A sample in this state of the generators, with a chart or as it is; pictures or maps as negatives."""
        easel = self.easel
        easel.given.clear()
        self._made.clear()
        easel.chart, easel.negative_picture, easel.negative_map = chart, picture, target
        try:
            value = self._read(number, draw)
        finally:
            easel.chart = None
        leaves = {path: planes_of(leaf) for path, leaf in walk(value) if is_picture(leaf)}
        return View(self._index(number), tuple(easel.given), leaves, value)

    def _index(self, number: int) -> Index:
        return self._indices[number % len(self._indices)] if self._indices else None

    def _read(self, number: int, draw: int) -> Any:
        """A sample, or a batch of it alone where the user's own collate_fn makes one."""
        if self._indices:
            sample = self._sample(number, draw)
        else:
            with gate("sample"), pinned(PIN + draw):
                sample = next(islice(iter(self._loader.dataset), number % 4, None))
        if not self.collated:
            return sample
        with pinned(PIN + draw):
            try:
                return self._loader.collate_fn([sample])
            except Exception:  # noqa: BLE001 - it may want whole batches; the sample itself tells enough then
                self.collated = self.collated and self.bypass
                return sample

    def _sample(self, number: int, draw: int) -> Any:
        index = self._index(number)
        if not self._keeps:
            return self._reader.read(index, draw)
        with kept_for(self._loader.dataset, index, self.easel.draw):
            return self._reader.read(index, draw)

    def _take_inputs(self) -> None:
        """Stand before the dataset's own callables, its transforms: what they are called with may be drawn over."""
        for part in chain(self._loader.dataset):
            for name, held in list(vars(part).items()):
                if callable(held) and not isinstance(held, type):
                    vars(part)[name] = self._before(held, name)

    def _before(self, original: Callable[..., Any], name: str) -> Callable[..., Any]:
        """A callable whose pictures are drawn over, unless an earlier one has given them."""

        def draw(image: Any) -> Any:
            return image if any(image is made for made in self._made) else self.easel.draw(image, name)

        def transform(*args: Any, **kwargs: Any) -> Any:
            if self._inside:
                return original(*args, **kwargs)
            if self._draws_inputs:
                args, kwargs = exchange((args, kwargs), draw)
            if self.bypass and any(is_picture(leaf) for _, leaf in walk((args, kwargs))):
                return kwargs or (args if len(args) > 1 else args[0])
            self._inside = True  # what it calls in turn gets pictures that are drawn over already
            try:
                value = original(*args, **kwargs)
            finally:
                self._inside = False
            if self._draws_inputs:
                self._made += [leaf for _, leaf in walk(value) if is_picture(leaf)]
            return value

        return transform


def _as_it_is(image: Any, _: str, __: bool) -> Any:
    return image
