"""Pipeline steps that never changed their input, and steps whose results are discarded: `lab.transforms`.

A step without effect is tried on other images and in other containers. One that happens to have no effect on the data
changes another image. One that does nothing by design changes no image, in any container. One that changes the same
images in another container does not support the one it is given.

For the second question, samples are read twice under the same RNG state, the second time with other images in the
result of one step. If the result of that step is used, the second sample differs.
"""

from __future__ import annotations

import contextlib
import copy
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dataguard.core.incident import LoaderFailed
from dataguard.core.model import NotApplicable
from dataguard.lab.core.leaves import array_of, is_pillow, iter_leaves, keep
from dataguard.lab.core.records import Index
from dataguard.lab.culprit.line_trace import Traced
from dataguard.lab.images.painter import (
    container_of,
    in_container_of,
    in_containers,
    is_image,
    planes_of,
    replace_images,
    size_of,
)
from dataguard.lab.reading.sample_reader import Reader
from dataguard.lab.subject import Subject
from dataguard.lab.transforms.dropped_results import DROPPED_READS, DroppedResult, find_dropped
from dataguard.lab.transforms.pipeline_watch import (
    FEWEST_UNUSED_READS,
    MOST_IN_BATCH,
    NO_STEPS,
    UNUSED_READS,
    CallLog,
    PipelineWatch,
    UnusedTransform,
    find_unused,
    fingerprint,
    has_steps,
    holds,
    read_samples,
    try_to_collate,
    watch_of,
)
from dataguard.lab.transforms.sample_mixtures import SampleMixture, line_of_target, sample_mixture_of
from dataguard.process.originals import time
from dataguard.targets.variants import Loader

PIPELINE_READS, FEWEST_PIPELINE_READS = 16, 4
"""The most samples that are read, as long as some step has had no effect, and the fewest: a step that acts once needs
no trial, and a trial takes longer than a read."""
INERT_ODDS = 1e-9
"""A random step without effect counts as inert if the odds of that are lower: one in a billion, as for all
accusations."""
_TRIAL_SECONDS = 1.0
"""Seconds for the trials of one step, a limit of time; what is not settled by then stays undecided."""
_SUITABLE_IMAGES = 2
"""How many of the five trial images are expected to be of a kind that a step changes: so many fewer calls of each
suffice."""
_LARGEST_SIDE = 480
"""The longer side of a trial image in pixels: a limit of time, above the sizes that models take."""
_ROUNDING = 1 / 512
"""A change of less than half a step of 8 bits, as a share of the range of an image: what rounding makes of it."""
_NO_OP = re.compile(r"identity|no_?op", re.IGNORECASE)
"""Class names of steps that do nothing by design."""


@dataclass(frozen=True, slots=True)
class PipelineStep:
    """A step of the pipeline: its path, its class, and its effect.

    `acts` of `calls` changed their input, in the containers `given`. `has_effect` means that it changes some image in
    these, at least in a trial; if none of the `trials` did, `acts_on` names the containers in which it changes the same
    images. `probability` is its own attribute. `intended` means that it does nothing by design, and `settled` that
    there was time for enough trials.
    """

    path: str
    name: str
    calls: int
    acts: int
    given: tuple[str, ...]
    has_effect: bool
    probability: float | None = None
    trials: int = 0
    acts_on: tuple[str, ...] = ()
    intended: bool = False
    settled: bool = True

    @property
    def is_random(self) -> bool:
        """Whether its probability is between 0 and 1."""
        return self.probability is not None and 0 < self.probability < 1


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The steps that were called with images while samples were read, and one whose results are discarded."""

    steps: tuple[PipelineStep, ...]
    samples: int
    discarded: Discarded | None = None

    @property
    def exercised(self) -> dict[str, int]:
        """How much was inspected."""
        return {
            "samples": self.samples,
            "transforms": len(self.steps),
            "calls": sum(step.calls + step.trials for step in self.steps),
        }


class Transforms:
    """Observations of pipeline steps; each observation is made once."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject

    @property
    def pipeline(self) -> Pipeline:
        """The effect of each step. Raises NotApplicable if no object is called with an image."""
        subject = self._subject
        subject.need_images()
        if not subject.reads_take_little(FEWEST_PIPELINE_READS) and not subject.observe(
            "steps", lambda _: has_steps(subject.build())
        ):
            raise NotApplicable(NO_STEPS)
        subject.afford_reads("pipeline", FEWEST_PIPELINE_READS)
        indices = subject.epoch.asked(PIPELINE_READS) if subject.facts.kind == "map" else ()
        return subject.observe("pipeline", lambda folder: run_pipeline(subject.build, folder, indices))

    @property
    def dropped(self) -> tuple[DroppedResult, ...]:
        """The lines that compute another array of a sample and drop it; none are looked for if reading is slow."""
        subject = self._subject
        if not subject.reads_take_little(DROPPED_READS):
            return ()
        indices = subject.epoch.asked(DROPPED_READS) if subject.facts.kind == "map" else ()
        return subject.observe("dropped", lambda folder: find_dropped(subject.build, folder, indices))

    @property
    def unused(self) -> UnusedTransform | None:
        """The transform that the dataset holds and never uses, if any."""
        subject = self._subject
        subject.need_images()
        if not subject.reads_take_little(FEWEST_UNUSED_READS) and not subject.observe(
            "held", lambda _: holds(subject.build)
        ):
            return None
        subject.afford_reads("unused", FEWEST_UNUSED_READS)
        indices = subject.epoch.asked(UNUSED_READS) if subject.facts.kind == "map" else ()
        return subject.observe("unused", lambda folder: find_unused(subject.build, folder, indices))

    @property
    def sample_mixture(self) -> SampleMixture | None:
        """How the dataset mixes its samples, and what their targets say of it; None if it does not."""
        return sample_mixture_of(self._subject)

    def line_of_target(self, found: SampleMixture) -> Traced | None:
        """The line of the dataset that makes the target of a mixed sample."""
        subject = self._subject
        return subject.observe("line of mixed target", lambda folder: line_of_target(subject.build(), folder, found))


def run_pipeline(build: Callable[..., Loader], folder: Path, indices: Sequence[Index]) -> Pipeline:
    """Watch every step while samples are read, in this disposable process."""
    loader = build()
    watch = watch_of(loader)
    if not watch.watches:
        raise NotApplicable(NO_STEPS)
    batch: list[Any] = []
    count = 0
    for sample in read_samples(loader, folder, indices, PIPELINE_READS):
        count += 1
        keep(sample, batch, 1, MOST_IN_BATCH)
        del sample  # the next one may take as much memory
        if count >= FEWEST_PIPELINE_READS and all(log.acts for log in watch.logs):
            break
    try_to_collate(loader, batch)
    inner = [log for log in watch.logs if not log.is_outer]
    if not inner:
        raise NotApplicable(NO_STEPS)
    steps = tuple(_step_of(log, watch) for log in inner)
    wrong_container = any(step.acts_on for step in steps)  # it is reported first, and decides
    return Pipeline(steps, count, None if wrong_container else find_discarded(loader, watch, folder, indices))


def _step_of(log: CallLog, watch: PipelineWatch) -> PipelineStep:
    """The effect of a step; it is tried on other images if it had none."""
    example: Any = log.example
    images = [leaf for _, leaf in iter_leaves(example) if is_image(leaf)]
    given = tuple(dict.fromkeys(container_of(leaf) for leaf in images))
    step = PipelineStep(log.path, log.name, log.calls, log.acts, given, has_effect=log.acts > 0)
    if step.has_effect:
        return step
    probability = _probability(log.step)
    in_eval_mode = getattr(log.step, "training", True) is False
    if probability == 0 or in_eval_mode or _NO_OP.search(log.name):
        return replace(step, probability=probability, intended=True)
    trial = TransformTrials(unwatched(log, watch), example, images)
    chance = min(probability or 1.0, 1.0)  # 0 was intended
    tries = 1 if chance == 1 else math.ceil(math.log(INERT_ODDS) / math.log1p(-chance) / _SUITABLE_IMAGES)
    trials, has_effect = trial.as_given(tries)
    acts_on = () if has_effect else trial.in_other_containers(tries)
    settled = has_effect or not trial.timed_out
    return replace(
        step, has_effect=has_effect, probability=probability, trials=trials, acts_on=acts_on, settled=settled
    )


def unwatched(log: CallLog, watch: PipelineWatch) -> Callable[..., Any]:
    """Calls a step without watching it."""
    original = watch.calls[type(log.step)]
    return lambda *args, **kwargs: original(log.step, *args, **kwargs)


def _probability(step: Any) -> float | None:
    """The probability attribute of a step, if it has one."""
    for name in ("p", "prob", "probability"):
        with contextlib.suppress(Exception):  # a property may raise
            probability = getattr(step, name, None)
            if isinstance(probability, int | float) and not isinstance(probability, bool) and 0 <= probability <= 1:
                return float(probability)
    return None


class TransformTrials:
    """Calls one step as the pipeline does, with other images."""

    def __init__(self, call: Callable[..., Any], example: Any, images: Sequence[Any]) -> None:
        self._call = call
        self._example = example
        self._images = list(_images(*size_of(images[0])))
        self._grey = planes_of(images[0]).shape[0] == 1
        self._until = time.monotonic() + _TRIAL_SECONDS
        self.timed_out = False

    def as_given(self, tries: int) -> tuple[int, bool]:
        """Try images in the container that it is given, with the same dtype and then with others.

        Returns the number of trials, and whether any image was changed.
        """
        count, acts = self._any((partial(_in_container, image) for image in self._images), tries)
        if acts:
            return count, True
        more, acts = self._any((partial(_replaced_by, image) for image in self._in_containers(same=True)), tries)
        return count + more, acts

    def in_other_containers(self, tries: int) -> tuple[str, ...]:
        """The containers in which it changes the same images, and returns them in the same container."""
        names: dict[str, None] = {}
        for image in self._in_containers(same=False):
            name = container_of(image)
            if name not in names and self._any([partial(_replaced_by, image)], tries, container=name)[1]:
                names[name] = None
        return tuple(names)

    def _in_containers(self, *, same: bool) -> Iterator[Any]:
        containers = {container_of(leaf) for _, leaf in iter_leaves(self._example) if is_image(leaf)}
        for grey in dict.fromkeys((self._grey, False)):
            for image in self._images:
                yield from (
                    variant
                    for variant in in_containers(image, grey=grey)
                    if (container_of(variant) in containers) == same
                )

    def _any(
        self, replacements: Iterable[Callable[[Any], Any]], tries: int, container: str | None = None
    ) -> tuple[int, bool]:
        """The number of calls that did not raise, up to `tries` for each image, and whether any changed the image."""
        count = 0
        for replacement in replacements:
            for _ in range(tries):
                if time.monotonic() > self._until:
                    self.timed_out = True
                    return count, False
                acts = self._acts(replacement, container)
                if acts is None:
                    break
                count += 1
                if acts:
                    return count, True
        return count, False

    def _acts(self, replacement: Callable[[Any], Any], container: str | None) -> bool | None:
        """Whether a call changes anything; None if it raises, or returns images outside `container`."""
        args, kwargs = replace_images(self._example, replacement)
        images = [leaf for _, leaf in iter_leaves((args, kwargs)) if leaf is not None and is_image(leaf)]
        if not images:
            return None
        before = fingerprint((args, kwargs))
        pixels = [array_of(image).copy() for image in images] if container else []
        try:
            given = self._call(*args, **kwargs)
        except Exception:  # noqa: BLE001 - a step need not support images that it is never given
            return None
        if fingerprint(given) == before:
            return False
        if not container:
            return True
        after = [leaf for _, leaf in iter_leaves(given) if is_image(leaf)]
        if {container_of(leaf) for leaf in after} != {container}:
            return None
        return len(after) != len(pixels) or any(map(_differs, pixels, map(array_of, after)))


def _differs(before: np.ndarray, after: np.ndarray) -> bool:
    """Whether an image differs by more than rounding: a step that is switched off still interpolates floats."""
    if before.shape != after.shape or before.dtype != after.dtype:
        return True
    change = np.abs(after.astype(float) - before)
    return bool(change.max() > _ROUNDING * np.ptp(before))


def _in_container(image: np.ndarray, given: Any) -> Any:
    return in_container_of(given, image)


def _replaced_by(image: Any, _: Any) -> Any:
    return copy.deepcopy(image)


def _images(height: int, width: int) -> Iterator[np.ndarray]:
    """Images of several sizes and contrasts, (height, width, 3) of uint8, the smallest first."""
    source = np.random.default_rng(0)
    shrink = min(1.0, _LARGEST_SIDE / (2 * max(height, width)))
    height, width = max(16, int(height * shrink)), max(16, int(width * shrink))
    yield source.integers(0, 256, (13, 17, 3), np.uint8)
    yield source.integers(0, 256, (height // 2 + 1, width // 2 + 3, 3), np.uint8)
    yield source.integers(0, 256, (height, width, 3), np.uint8)
    yield source.integers(90, 150, (width + 9, 2 * height + 7, 3), np.uint8)
    large = (2 * height + 5, 2 * width + 1, 3)
    yield np.linspace(20, 200, math.prod(large)).reshape(large).astype(np.uint8)


DISCARD_READS, FEWEST_DISCARDED = 8, 6
"""The most samples that are read twice for a step, and how many of them the step must be called for: a sample may drop
the result of one by chance, as a choice between two does, but of six once in 64 times."""
_DISCARD_SECONDS = 3.0
"""Seconds after which no more samples are read: a limit of time."""
_MOST_CALLS = 64
"""The most calls of a step in one sample: beyond, it may be retried until its result is accepted."""
_BYTE_MODES = ("L", "P", "RGB", "RGBA", "CMYK")
_PLAIN_TYPES = (torch.Tensor, np.ndarray, np.generic, str, bytes, bool, int, float, list, tuple, type(None))


@dataclass(frozen=True, slots=True)
class Discarded:
    """A step, by its path and its class, and how many samples stayed the same whatever it returned."""

    path: str
    name: str
    samples: int


def find_discarded(loader: Loader, watch: PipelineWatch, folder: Path, indices: Sequence[Index]) -> Discarded | None:
    """The first watched step whose result is discarded, found by reading samples again.

    A step that works in place needs no result. Samples with objects of unknown types cannot be judged: the result may
    be inside.
    """
    if len(indices) < FEWEST_DISCARDED:
        return None
    reader = Reader(loader, folder, DISCARD_READS)
    until = time.monotonic() + _DISCARD_SECONDS
    try:
        if not all(
            isinstance(leaf, _PLAIN_TYPES) or is_pillow(leaf) for _, leaf in iter_leaves(reader.read(indices[0]))
        ):
            return None
        for log in [log for log in watch.logs if not log.is_nested]:
            samples = _unchanged_samples(log, watch, reader, indices, until)
            if samples >= FEWEST_DISCARDED and log.acts and not log.in_place:
                return Discarded(log.path, log.name, samples)
    except LoaderFailed:  # it raises for other images: they are used
        return None
    return None


def _unchanged_samples(
    log: CallLog, watch: PipelineWatch, reader: Reader, indices: Sequence[Index], until: float
) -> int:
    """How many samples stay the same with other images from a step; 0 if any differs."""
    count = 0
    for draw, index in enumerate(indices[:DISCARD_READS]):
        usual = fingerprint(reader.read(index, draw))
        replacement = _ImageReplacement(log)
        watch.change = replacement
        try:
            other = fingerprint(reader.read(index, draw))
        finally:
            watch.change = None
        if replacement.failed or usual != other or time.monotonic() > until:
            return 0
        count += replacement.calls > 0
    return count


class _ImageReplacement:
    """Replaces the images in the results of one step, and counts its calls."""

    def __init__(self, log: CallLog) -> None:
        self._log = log
        self.calls = 0
        self.failed = False

    def __call__(self, log: CallLog, given: Any) -> Any:
        if log is not self._log or self.calls > _MOST_CALLS:
            return given
        self.calls += 1
        changed = replace_images(given, _other)
        self.failed |= self.calls > _MOST_CALLS or fingerprint(changed) == fingerprint(given)
        return changed


def _other(image: Any) -> Any:
    """Another image of the same shape and type, or the same image for rare Pillow modes.

    Its values are far from the original ones, so that it differs after rounding or a threshold as well.
    """
    if is_pillow(image):
        return image.point(lambda value: value ^ 128) if image.mode in _BYTE_MODES else image
    kind, size = array_of(image).dtype.kind, array_of(image).dtype.itemsize
    if kind == "f":
        return -image - 1
    return image ^ True if kind == "b" else image ^ 128 if (kind, size) == ("u", 1) else image + 1
