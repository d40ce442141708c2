"""Where pictures and their maps come out, and with which values: charts drawn over both, for `lab.geometry`.

A chart is drawn over what decoders give to the user's code, over what the transforms of the dataset are called with, or
over what the dataset keeps in memory: over the first of these where a picture is found. The same sample is read with
every chart, with all generators held still, so that the charts meet the same crop, flip and jitter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np

from dataguard.lab.core.index import Index
from dataguard.lab.core.records import LeafRecord
from dataguard.lab.geometry.alignment import DRAWS, FEWEST, LOOKS, Study, Target
from dataguard.lab.geometry.box_alignment import Boxed, run_boxes
from dataguard.lab.geometry.chart_painter import Given, Value, rule_of
from dataguard.lab.geometry.charted_reader import Sitting, View
from dataguard.lab.geometry.stripe_charts import CHARTS
from dataguard.lab.images.image_containers import SMALLEST, planes_last
from dataguard.lab.reading.leaf_root import Rooted
from dataguard.lab.subject import Subject
from dataguard.model import NotApplicable, Undecided
from dataguard.target.variants import Loader

T = TypeVar("T")

PAIRS = 4
"""How many pairs of labels are tried until one comes out as two values."""
MOST_ENTANGLED = 4
"""One of so many draws may be entangled."""
READS = LOOKS + (CHARTS + 2) * FEWEST


@dataclass(frozen=True, slots=True)
class Charted(Rooted):
    """What became of the charts.

    `source` names where maps were drawn over; `labels` are the values of label maps as they come along there, and
    `spoilt` how many there are in a map that was stored lossily. `emptied` are leaves of whole numbers that never
    change, where no leaf follows a map that has several values.
    """

    source: str
    labels: tuple[Value, ...]
    spoilt: int | None
    targets: tuple[Target, ...]
    emptied: tuple[str, ...]
    collated: bool
    index: Index
    draws: int
    reads: int

    @property
    def exercised(self) -> dict[str, int]:
        """How much was looked at."""
        return {"draws": self.draws, "charts": self.reads, "leaves": len(self.targets)}


class Geometry:
    """The part of a lab for pictures and their maps; the observation is made once."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject

    @property
    def maps(self) -> Charted:
        """What became of pictures and maps. Raises NotApplicable where no map comes with a picture."""
        if not any(sum(map(_is_image, one.leaves)) > 1 for one in self._subject.epoch.samples):
            raise NotApplicable("no sample holds an image with a mask or another dense target")
        return self._observe("maps", run_maps, READS)

    @property
    def boxes(self) -> Boxed:
        """What became of boxes and points. Raises NotApplicable where there are none beside an image that moves."""
        samples = [one.leaves for one in self._subject.epoch.samples]
        if not any(any(map(_is_image, leaves)) and _holds_table(leaves) for leaves in samples):
            raise NotApplicable("no sample holds an image with boxes or points")
        return self._observe("boxes", run_boxes, READS)

    def _observe(self, key: str, run: Callable[..., T], reads: int) -> T:
        subject = self._subject
        subject.afford(reads * subject.epoch.seconds_per_sample)
        indices, batched = subject.epoch.asked(DRAWS) if subject.facts.kind == "map" else (), subject.facts.batched
        return subject.vary(key, lambda folder: run(subject.build, folder, indices, batched=batched))


def _is_image(leaf: LeafRecord) -> bool:
    """Whether a leaf has two sides of some length."""
    shape = leaf.shape or ()
    return leaf.kind == "PIL.Image" or (len(shape) > 1 and (planes_last(shape) or min(shape[-2:]) >= SMALLEST))


def _holds_table(leaves: Sequence[LeafRecord]) -> bool:
    """Whether a leaf may be a table of boxes or points, or two numbers stand side by side as they do in a list."""
    numbers = {leaf.path for leaf in leaves if leaf.kind in ("int", "float")}
    listed = {path.removesuffix("[1]") for path in numbers if path.endswith("[1]")}
    tabled = any((leaf.shape or (0,))[-1] in range(2, 7) for leaf in leaves)
    return tabled or any(f"{path}[{place}]" in numbers for path in listed for place in (0, 2))


def run_maps(build: Callable[..., Loader], folder: Path, indices: Sequence[Index], *, batched: bool) -> Charted:
    """Read samples while charts are drawn over their pictures and maps, in this process, which is thrown away."""
    sitting = Sitting(build, folder, indices, DRAWS, batched=batched)
    looks = _looks_with_maps(sitting)
    rule = rule_of([look.given for look in looks])
    if rule is None:
        raise NotApplicable("no mask or other dense target is read with an image")
    maps = [one for look in looks for one in look.given if rule(one)]
    labels = _labels_of(maps)
    sitting.easel.is_map = rule
    study = draw_all(sitting, labels)
    if not study.draws:
        raise Undecided("images are cached, so charts could not be injected")
    if MOST_ENTANGLED * study.entangled > len(study.draws):
        raise Undecided("image crops depend on the mask, such as patches around a lesion: charts differ")
    targets = tuple(study.targets(looks))
    emptied = () if targets or len(labels) < 2 else tuple(_constant(looks, study.pictures))
    if not targets and not emptied:
        raise NotApplicable("nothing in the sample follows the mask that is read with its image")
    return Charted(
        maps[0].source,
        labels,
        max((one.values for one in maps if one.is_spoilt), default=None),
        targets,
        emptied,
        sitting.collated,
        study.draws[-1].index,
        len(study.draws),
        study.reads,
    )


def draw_all(sitting: Sitting, labels: Sequence[Value]) -> Study:
    """All draws, with two labels that come out differently: the user's code may take some for one."""
    pairs: list[tuple[Value, Value] | None] = [(labels[0], label) for label in labels[:0:-1]]
    for pair in pairs[:PAIRS] or [None]:
        sitting.easel.ends = pair
        study = Study(sitting)
        study.take(1)
        if study.maps:
            break
    study.take(DRAWS)
    return study


def _looks_with_maps(sitting: Sitting) -> list[View]:
    """Samples as they are, with the images that come along at the first place where a picture and a map do."""
    for _ in sitting.places():
        first = sitting.look(0, 0)
        looks = [first, *(sitting.look(number, 0) for number in range(1, LOOKS if first.given else 1))]
        looks = [look for look in looks if look.given]
        if rule_of([look.given for look in looks]) is not None:
            return looks
    return []


def _labels_of(maps: Sequence[Given]) -> tuple[Value, ...]:
    """The values of all label maps; none where one of the maps has too many of them, or most stand at edges only."""
    labels = {value for one in maps for value in one.labels or ()}
    edges = labels.intersection(*(one.edges | (labels - set(one.labels or ())) for one in maps))
    soft = {label for label in edges if min(labels) < label < max(labels)}
    mixed = len({one.planes for one in maps}) > 1 or not _are_labelled(maps)
    return () if mixed or (len(soft) > len(labels) - len(soft) > 1) else tuple(sorted(labels))


def _are_labelled(maps: Sequence[Given]) -> bool:
    """Whether all are label maps: a lossy file may hide that of one among several that were stored alike."""
    hidden = sum(one.labels is None for one in maps)
    return not hidden or (_HIDDEN * hidden <= len(maps) and all(one.is_spoilt for one in maps if one.labels))


_HIDDEN = 4
"""One of so many maps may be so small, or so full of edges, that haloes cover its labels."""


def _constant(looks: Sequence[View], pictures: set[str]) -> Iterator[str]:
    """Leaves of whole numbers, no picture among them, that hold one value in all samples."""
    for path in looks[0].leaves:
        leaves = [look.leaves[path] for look in looks if path in look.leaves]
        whole = all(leaf.dtype.kind in "iub" and len(leaf) == 1 for leaf in leaves)
        if whole and path not in pictures and len({value for leaf in leaves for value in np.unique(leaf)}) == 1:
            yield path
