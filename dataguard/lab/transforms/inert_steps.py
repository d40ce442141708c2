"""Steps of a pipeline that never changed what they were given, tried on other pictures and in other containers.

A step that fits the data by chance acts on another picture. One that does nothing by design acts on no picture, in
whatever container. One that acts on the same pictures in another container only does not know the one that it is given.
"""

from __future__ import annotations

import contextlib
import copy
import math
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from dataguard.lab.core.index import Index
from dataguard.lab.core.index_schedules import evenly
from dataguard.lab.core.leaves import iter_leaves
from dataguard.lab.images.image_containers import container_of, exchange, forms, is_picture, like, planes_of, size_of
from dataguard.lab.reading.epoch_trace import gate
from dataguard.lab.reading.sample_reader import Reader
from dataguard.lab.rng.global_rng import SEED, seeded
from dataguard.lab.subject import Subject
from dataguard.lab.transforms.discarded_results import READS as TWICE
from dataguard.lab.transforms.discarded_results import Thrown, find_thrown
from dataguard.lab.transforms.pipeline_watch import Log, Watch, prints
from dataguard.lab.transforms.unused_transforms import FEWEST as FEWEST_UNREAD
from dataguard.lab.transforms.unused_transforms import READS as MOST_UNREAD
from dataguard.lab.transforms.unused_transforms import Unread, find_unread
from dataguard.model import NotApplicable
from dataguard.target.variants import Loader

READS, FEWEST = 16, 4
"""Samples that are read at most, as long as some step has not acted yet, and at least."""
ODDS = 1e-9
"""The odds at which a random step that never acted is no matter of chance any more."""
_SECONDS = 1.0
"""Seconds for the trials of one step; what is not settled by then stays undecided."""
_SOME = 2
"""Pictures out of all of those that are tried, that may be of a kind on which a step acts."""
_LARGEST = 480
"""Pixels of the longer side of a picture for trials."""
_CHANCES = ("p", "prob", "probability")
_MEANT = re.compile(r"identity|no_?op", re.IGNORECASE)
"""Classes that say of themselves that they do nothing."""


@dataclass(frozen=True, slots=True)
class Step:
    """A step of the pipeline: where it hangs, its class, and what became of it.

    `acts` of `calls` changed what they were given, in containers called `given`. `able` tells that it changes some
    picture in these, be it only in a trial; where none of the `trials` did, `acts_on` names the containers in which it
    changes the same pictures. `chance` is the probability with which it says that it acts. `meant` tells that it does
    nothing on purpose, and `settled` that there was time for enough trials.
    """

    path: str
    name: str
    calls: int
    acts: int
    given: tuple[str, ...]
    able: bool
    chance: float | None = None
    trials: int = 0
    acts_on: tuple[str, ...] = ()
    meant: bool = False
    settled: bool = True

    @property
    def is_random(self) -> bool:
        """Whether it says that it acts now and then."""
        return self.chance is not None and 0 < self.chance < 1


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The steps that were called with pictures while so many samples were read, and one whose results reach none."""

    steps: tuple[Step, ...]
    samples: int
    thrown: Thrown | None = None

    @property
    def exercised(self) -> dict[str, int]:
        """How much was looked at."""
        return {
            "samples": self.samples,
            "transforms": len(self.steps),
            "calls": sum(step.calls + step.trials for step in self.steps),
        }


class Transforms:
    """The part of a lab for the steps of a pipeline; the observation is made once."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject

    @property
    def pipeline(self) -> Pipeline:
        """What each step did. Raises NotApplicable where no object is called with a picture."""
        subject = self._subject
        subject.afford((READS + TWICE) * subject.epoch.seconds_per_sample)
        seen = subject.epoch.indices
        indices = tuple(evenly(seen, READS))
        return subject.vary("pipeline", lambda folder: run_pipeline(subject.build, folder, indices))

    @property
    def unread(self) -> Unread | None:
        """The transform that the dataset has and never looks at, if it does."""
        subject = self._subject
        subject.afford(FEWEST_UNREAD * subject.epoch.seconds_per_sample)
        indices = tuple(evenly(subject.epoch.indices, MOST_UNREAD))
        return subject.vary("unread", lambda folder: find_unread(subject.build, folder, indices))


def run_pipeline(build: Callable[..., Loader], folder: Path, indices: Sequence[Index]) -> Pipeline:
    """Watch every step while samples are read, in this process, which is thrown away."""
    loader = build()
    watch = Watch({"dataset": loader.dataset, "collate_fn": loader.collate_fn})
    samples = []
    for sample in _samples(loader, folder, indices):
        samples.append(sample)
        if len(samples) >= FEWEST and all(log.acts for log in watch.logs):
            break
    with contextlib.suppress(Exception), seeded(SEED):  # it may want other batches; an epoch tells what it raises
        loader.collate_fn(samples[:4])
    inner = [log for log in watch.logs if not log.is_outer]
    if not inner:
        raise NotApplicable("the dataset calls no transform or other object with an image")
    steps = tuple(_step_of(log, watch) for log in inner)
    strange = any(step.acts_on for step in steps)  # that is told first, and decides
    return Pipeline(steps, len(samples), None if strange else find_thrown(loader, watch, folder, indices))


def _samples(loader: Loader, folder: Path, indices: Sequence[Index]) -> Iterator[Any]:
    reader = Reader(loader, folder, READS)
    stream = None if indices else iter(loader.dataset)
    for draw in range(READS):
        if stream is None:
            yield reader.read(indices[draw % len(indices)], draw)
            continue
        with gate("sample"), seeded(SEED + draw):
            found = list(islice(stream, 1))
        yield from found


def _step_of(log: Log, watch: Watch) -> Step:
    """What is known of a step; it is tried where it never acted."""
    example: Any = log.example
    pictures = [leaf for _, leaf in iter_leaves(example) if is_picture(leaf)]
    given = tuple(dict.fromkeys(container_of(leaf) for leaf in pictures))
    known = Step(log.path, log.name, log.calls, log.acts, given, able=log.acts > 0)
    if known.able:
        return known
    chance = _chance(log.step)
    asleep = getattr(log.step, "training", True) is False
    if chance == 0 or asleep or _MEANT.search(log.name):
        return replace(known, chance=chance, meant=True)
    trial = Trial(unwatched(log, watch), example, pictures)
    tries = 1 if chance is None or chance >= 1 else math.ceil(math.log(ODDS) / math.log1p(-chance) / _SOME)
    trials, able = trial.as_given(tries)
    acts_on = () if able else trial.otherwise(tries)
    settled = able or not trial.late
    return replace(known, able=able, chance=chance, trials=trials, acts_on=acts_on, settled=settled)


def unwatched(log: Log, watch: Watch) -> Callable[..., Any]:
    """How a step is called without being watched."""
    original = watch.calls[type(log.step)]
    return lambda *args, **kwargs: original(log.step, *args, **kwargs)


def _chance(step: Any) -> float | None:
    """The probability that a step says it acts with, if it does."""
    for name in _CHANCES:
        with contextlib.suppress(Exception):  # a property of the user's own
            chance = getattr(step, name, None)
            if isinstance(chance, int | float) and not isinstance(chance, bool) and 0 <= chance <= 1:
                return float(chance)
    return None


class Trial:
    """Calls one step as the pipeline does, with other pictures in place of those that it was given."""

    def __init__(self, call: Callable[..., Any], example: Any, pictures: Sequence[Any]) -> None:
        self._call = call
        self._example = example
        self._pictures = list(_pictures(*size_of(pictures[0])))
        self._grey = planes_of(pictures[0]).shape[0] == 1
        self._until = time.monotonic() + _SECONDS
        self.late = False

    def as_given(self, tries: int) -> tuple[int, bool]:
        """Try pictures in the container that it is given, of the same type and then of others.

        Returns how often, and whether any was changed.
        """
        count, acts = self._any((partial(_in_form, picture) for picture in self._pictures), tries)
        if acts:
            return count, True
        more, acts = self._any((partial(_in_place, form) for form in self._forms(same=True)), tries)
        return count + more, acts

    def otherwise(self, tries: int) -> tuple[str, ...]:
        """The containers in which it changes the same pictures, and gives them back in the same one."""
        found: dict[str, None] = {}
        for form in self._forms(same=False):
            name = container_of(form)
            if name not in found and self._any([partial(_in_place, form)], tries, kept=name)[1]:
                found[name] = None
        return tuple(found)

    def _forms(self, *, same: bool) -> Iterator[Any]:
        own = {container_of(leaf) for _, leaf in iter_leaves(self._example) if is_picture(leaf)}
        for grey in dict.fromkeys((self._grey, False)):
            for picture in self._pictures:
                yield from (form for form in forms(picture, grey=grey) if (container_of(form) in own) == same)

    def _any(self, swaps: Iterable[Callable[[Any], Any]], tries: int, kept: str | None = None) -> tuple[int, bool]:
        """Whether any of so many calls for each picture changes it; how many did not raise."""
        count = 0
        for swap in swaps:
            for _ in range(tries):
                if time.monotonic() > self._until:
                    self.late = True
                    return count, False
                acts = self._acts(swap, kept)
                if acts is None:
                    break
                count += 1
                if acts:
                    return count, True
        return count, False

    def _acts(self, swap: Callable[[Any], Any], kept: str | None) -> bool | None:
        """Whether a call changes anything; None where it raises, or gives pictures in other containers than `kept`."""
        args, kwargs = exchange(self._example, swap)
        pictures = [leaf for _, leaf in iter_leaves((args, kwargs)) if leaf is not None and is_picture(leaf)]
        if not pictures:
            return None
        before = prints((args, kwargs))
        try:
            given = self._call(*args, **kwargs)
        except Exception:  # noqa: BLE001 - a step need not take pictures that it is never given
            return None
        after = {container_of(leaf) for _, leaf in iter_leaves(given) if is_picture(leaf)}
        if kept and after != {kept}:
            return None
        return prints(given) != before


def _in_form(picture: np.ndarray, given: Any) -> Any:
    return like(given, picture)


def _in_place(form: Any, _: Any) -> Any:
    return copy.deepcopy(form)


def _pictures(height: int, width: int) -> Iterator[np.ndarray]:
    """Pictures of several sizes and contrasts, (height, width, 3) of bytes, the smallest first."""
    source = np.random.default_rng(0)
    shrink = min(1.0, _LARGEST / (2 * max(height, width)))
    height, width = max(16, int(height * shrink)), max(16, int(width * shrink))
    yield source.integers(0, 256, (13, 17, 3), np.uint8)
    yield source.integers(0, 256, (height // 2 + 1, width // 2 + 3, 3), np.uint8)
    yield source.integers(0, 256, (height, width, 3), np.uint8)
    yield source.integers(90, 150, (width + 9, 2 * height + 7, 3), np.uint8)
    shape = (2 * height + 5, 2 * width + 1, 3)
    yield np.linspace(20, 200, math.prod(shape)).reshape(shape).astype(np.uint8)
