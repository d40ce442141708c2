"""How much of its own image the dataset mixes into a sample, and how much of it the target says.

The image files of a sample are read as black and white images: that of the sample itself is the one that is decoded in
all draws. Where another image is decoded as well, its own is white and the other black: the mean is its share. A draw
counts if its target does not depend on what images show, and if nothing else changes how bright they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
from xxhash import xxh3_64_digest

from dataguard.lab.batches.mixtures import LEAST_MIXED, MOST_UNEVEN, Mixture, may_be_mixed
from dataguard.lab.core.leaves import array_of, iter_leaves
from dataguard.lab.core.records import Index
from dataguard.lab.culprit.line_trace import Traced, placed
from dataguard.lab.decoding.decoders import Gives, giving
from dataguard.lab.images.painter import Painter, as_given, in_container_of, is_image, size_of
from dataguard.lab.process.write_protection import forbid_writes
from dataguard.lab.reading.followed_batch import follow_sample
from dataguard.lab.reading.sample_reader import Reader
from dataguard.lab.subject import Subject
from dataguard.targets.variants import Loader

FIRST_DRAWS, MOST_DRAWS, MEASURED_DRAWS = 6, 16, 10
"""Random states in which a sample is read as it is, of which the first must show two images and two targets, and how
many are measured, with three charts each: five of six boxes that CutMix draws are clipped."""
FIRST_READS, MIXTURE_READS = 1 + FIRST_DRAWS, 1 + MOST_DRAWS + 3 * MEASURED_DRAWS
FEWEST_ROWS = 4
"""The fewest measured draws for a verdict."""
SAME_GAIN, MOST_CHANGED, MOST_EMPTY = 0.01, 0.05, 0.3
"""By how much the range of a pixel may differ between draws, as rounding does, how many may differ more, as those at
the edges of padding, and how many may show neither image, such as padding."""

Hues = tuple[int, int]
"""What the sample's own image and all others are replaced by, from 0 to 255."""
_BLACK, _WHITE, _OWN = (0, 0), (255, 255), (255, 0)


@dataclass(frozen=True, slots=True)
class SampleMixture:
    """How the sample of an index is mixed; its target is soft in a `draw`."""

    mixture: Mixture
    index: Index
    draw: int


def sample_mixture_of(subject: Subject) -> SampleMixture | None:
    """How the dataset mixes a sample; None if it does not.

    Nothing is read unless batches have soft targets, or two labels and a weight.
    """
    batches = [summary.numbers for summary in subject.epoch.value_summaries if summary.position is None]
    if subject.facts.kind != "map" or not may_be_mixed(batches):
        return None
    indices = subject.epoch.asked(1)
    subject.afford_reads("mixes images", FIRST_READS)
    if not subject.observe("mixes images", lambda folder: mixes_images(subject.build(), folder, indices)):
        return None
    subject.afford_reads("sample mixture", MIXTURE_READS)
    return subject.observe("sample mixture", lambda folder: find_sample_mixture(subject.build(), folder, indices))


class _Mixer:
    """Reads one sample whose images are replaced, and notes which images are decoded."""

    def __init__(self, loader: Loader, folder: Path, index: Index) -> None:
        self.painter = Painter(self.replace, giving(Gives.PIXELS))
        self._reader = Reader(loader, folder, MOST_DRAWS)
        self.index = index
        self.hues: Hues | None = None
        self.own: bytes | None = None
        self.decoded: list[bytes] = []

    def replace(self, image: Any, *_: object) -> Any:
        """A decoded image, or what replaces it."""
        if not is_image(image):
            return image
        digest = xxh3_64_digest(array_of(image).tobytes())
        self.decoded.append(digest)
        if self.hues is None:
            return image
        grey = np.full((*size_of(image), 3), self.hues[digest != self.own], np.uint8)
        chart = in_container_of(image, grey)
        return image if chart is None else as_given(chart, image)

    def read(self, draw: int, hues: Hues | None = None) -> Any:
        """A sample as it is, or with its images replaced."""
        self.decoded, self.hues = [], hues
        return self._reader.read(self.index, draw)


def mixes_images(loader: Loader, folder: Path, indices: Sequence[Index]) -> bool:
    """Whether a few draws of one sample show two images in one of them, and two targets."""
    return _started(loader, folder, indices) is not None


def _started(loader: Loader, folder: Path, indices: Sequence[Index]) -> tuple[_Mixer, list[_Draw]] | None:
    """What replaces the images of a sample, and its first draws as they are; None if these do not mix two images."""
    mixer = _Mixer(loader, folder, indices[0])
    mixer.read(0)  # triggers late imports
    mixer.painter.install()
    draws = [_whole(mixer, draw) for draw in range(FIRST_DRAWS)]
    if not any(images for images, _ in draws):
        mixer.painter.patch_fromarray(mixer.replace)  # arrays that are held in memory
        draws = [_whole(mixer, draw) for draw in range(FIRST_DRAWS)]
    mixes = any(len(images) > 1 for images, _ in draws) and not all(_equal(draws[0][1], one) for _, one in draws)
    return (mixer, draws) if mixes else None


def find_sample_mixture(loader: Loader, folder: Path, indices: Sequence[Index]) -> SampleMixture | None:
    """How the first of these samples is mixed; None if that cannot be measured."""
    started = _started(loader, folder, indices)
    if started is None:
        return None
    mixer, draws = started
    draws += [_whole(mixer, draw) for draw in range(FIRST_DRAWS, MOST_DRAWS)]
    common = frozenset.intersection(*(images for images, _ in draws))
    mixed = [draw for draw, (images, _) in enumerate(draws) if len(images) == 2][:MEASURED_DRAWS]
    if len(common) != 1 or len(mixed) < FEWEST_ROWS:
        return None
    (mixer.own,) = common
    forbid_writes()
    return _measured(mixer, {draw: draws[draw][1] for draw in mixed}, [targets for _, targets in draws])


Targets = Mapping[str, np.ndarray]
"""The leaves of a sample that may be a target, or a part of one: a number, or weights of classes."""
_Draw = tuple[frozenset[bytes], Targets]
"""The different images that are decoded in a draw, and its targets."""


def _whole(mixer: _Mixer, draw: int) -> _Draw:
    value = mixer.read(draw)
    return frozenset(mixer.decoded), _targets(value)


def _targets(value: Any) -> Targets:
    arrays = {
        path: array_of(leaf) for path, leaf in iter_leaves(value) if not isinstance(leaf, str | bytes | type(None))
    }
    return {path: array for path, array in arrays.items() if array.dtype.kind in "iuf" and array.ndim < 2}


def _measured(mixer: _Mixer, mixed: Mapping[int, Targets], everything: Sequence[Targets]) -> SampleMixture | None:
    """Read the draws in which another image is mixed in, with charts."""
    views: dict[int, list[dict[str, np.ndarray]]] = {}
    for draw, targets in mixed.items():
        read = [mixer.read(draw, hues) for hues in (_BLACK, _WHITE, _OWN)]
        if all(_equal(_targets(value), targets) for value in read):
            views[draw] = [_images(value) for value in read]
    found = [
        (replace(mixture, leaves=(path, mixture.targets.removeprefix("sample").partition(" and ")[0])), draws)
        for path in {path for view in views.values() for path in view[0]}
        for shares, pixel in [_shares({draw: view for draw, view in views.items() if path in view[0]}, path)]
        for mixture, draws in _mixtures(shares, mixed, everything, pixel)
    ]
    if not found:
        return None
    mixture, draws = min(found, key=lambda one: one[0].error)
    return SampleMixture(mixture, mixer.index, draws[0])


def _equal(one: Targets, other: Targets) -> bool:
    return one.keys() == other.keys() and all(np.array_equal(one[path], other[path]) for path in one)


def _images(value: Any) -> dict[str, np.ndarray]:
    return {path: array_of(leaf).astype(np.float64) for path, leaf in iter_leaves(value) if is_image(leaf)}


Share = tuple[float, float]
"""The least and the largest share that an image may have, where some pixels show none."""


def _shares(views: Mapping[int, Sequence[Mapping[str, np.ndarray]]], path: str) -> tuple[dict[int, Share], float]:
    """The share of the sample's own image in each draw that shows it, and what a pixel at each edge of a box adds."""
    charts = {draw: [view[path] for view in both] for draw, both in views.items() if all(path in one for one in both)}
    if len({chart.shape for both in charts.values() for chart in both}) != 1:
        return {}, 0.0
    gains = {draw: white - black for draw, (black, white, _) in charts.items()}
    usual = np.max(list(gains.values()), axis=0)
    shares: dict[int, Share] = {}
    for draw, (black, _, own) in charts.items():
        gain = gains[draw]
        shown = (usual > 0) & (np.abs(gain - usual) <= SAME_GAIN * usual)
        empty = ~shown & (np.abs(gain) <= SAME_GAIN * usual.max())
        changed = 1 - float(shown.mean()) - float(empty.mean())
        if changed > MOST_CHANGED or float(empty.mean()) > MOST_EMPTY or not shown.any():
            continue
        held = float(((own - black)[shown] / gain[shown]).sum()) / gain.size
        shares[draw] = held, held + changed + float(empty.mean())
    sides = sorted(next(iter(gains.values())).shape)[-2:]
    return shares, 2 / min(sides)


def _mixtures(
    shares: Mapping[int, Share], mixed: Mapping[int, Targets], everything: Sequence[Targets], pixel: float
) -> Iterator[tuple[Mixture, list[int]]]:
    """What each target says, beside the shares that are measured, of those whose weights vary."""
    for name, weights in _weights(mixed, everything):
        rows = {draw: (shares[draw], weight) for draw, weight in weights.items() if draw in shares}
        soft = [draw for draw, (_, weight) in rows.items() if LEAST_MIXED < weight < 1 - LEAST_MIXED]
        if len(soft) >= FEWEST_ROWS and np.ptp([rows[draw][1] for draw in soft]) > MOST_UNEVEN:
            pairs = [(float(np.clip(weight, *share)), weight) for share, weight in map(rows.__getitem__, soft)]
            yield Mixture(f"sample{name}", tuple(pairs), pixel), soft


def _weights(mixed: Mapping[int, Targets], everything: Sequence[Targets]) -> Iterator[tuple[str, dict[int, float]]]:
    """The weight of one class in each draw, by the leaves that say it: soft targets, or two labels and a weight."""
    first = everything[0]
    for path, array in first.items():
        tables = [targets[path] for targets in everything if path in targets and targets[path].shape == array.shape]
        if array.ndim == 1 and array.dtype.kind == "f" and len(tables) == len(everything) and _are_soft(tables):
            yield from _soft_weights(path, np.stack(tables), {draw: targets[path] for draw, targets in mixed.items()})
    labels = [path for path, array in first.items() if not array.ndim and array.dtype.kind in "iu"]
    fractions = [path for path, array in first.items() if not array.ndim and array.dtype.kind == "f"]
    for one, other in permutations(labels, 2):
        own = {int(targets[one]) for targets in everything if one in targets}
        for path in fractions if len(own) == 1 else ():
            differ = {
                draw: float(targets[path])
                for draw, targets in mixed.items()
                if {one, other, path} <= targets.keys() and targets[one] != targets[other]
            }
            name = f"{one} and sample{other}, weighted by sample{path}"
            yield name, differ
            yield name, {draw: 1 - weight for draw, weight in differ.items()}


def _are_soft(tables: Sequence[np.ndarray]) -> bool:
    return all(len(row) > 1 and row.min() >= 0 and abs(float(row.sum()) - 1) <= MOST_UNEVEN for row in tables)


def _soft_weights(
    path: str, tables: np.ndarray, rows: Mapping[int, np.ndarray]
) -> Iterator[tuple[str, dict[int, float]]]:
    """The weights of each class that all draws hold, of those that hold another one; label smoothing is taken off."""
    floor = float(tables.min())
    if tables.shape[1] == 2 and floor > 0:  # the smallest weight may be that of smoothing or of mixing
        return
    above = tables > floor + LEAST_MIXED / 2
    for number in np.flatnonzero(above.all(0)):
        weights = {}
        for draw, row in rows.items():
            held = row[row > floor + LEAST_MIXED / 2] - floor
            if len(held) == 2:
                weights[draw] = float((row[number] - floor) / held.sum())
        yield path, weights


def line_of_target(loader: Loader, folder: Path, found: SampleMixture) -> Traced | None:
    """The line of the dataset that makes the target, in a draw in which it is mixed."""
    history = follow_sample(loader, folder, found.index, found.draw)
    return placed(history.line_in_sample(found.mixture.leaves[1]), loader, None)
