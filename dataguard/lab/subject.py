"""What every observer may use of one loader: build it, vary it, its facts, and commands that reproduce a finding."""

from __future__ import annotations

import gc
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from shlex import join, quote
from typing import Any, TypeVar, overload

from dataguard.core.incident import Incident, LoaderFailed, LoaderRaised
from dataguard.core.model import Location, NotApplicable, NotTested, Undecided
from dataguard.lab.core.loader_facts import LoaderFacts
from dataguard.lab.core.observation_cache import ObservationCache, returned
from dataguard.lab.process.side_by_side import ConcurrencySlots
from dataguard.lab.reading.checkpoint import Checkpoint, requested
from dataguard.lab.reading.epoch_trace import RANK_STRIDE, EpochTrace, gate, gated_build
from dataguard.lab.reading.fresh_import import rebuild
from dataguard.lab.rng.rng_discovery import seed_global_generators
from dataguard.machine.machine import Machine
from dataguard.settings.settings import Settings
from dataguard.settings.target_spelling import is_held, parsed, program, script_of, shown_target
from dataguard.targets.loading import Target
from dataguard.targets.variants import Loader

LARGE = 1 << 28
"""Bytes of a batch from which on a loader is observed once at a time: every observation holds some of them."""
_WORKERS = re.compile(r"\bnum_workers=[1-9]")
T = TypeVar("T")


class Subject(ABC):
    """One loader of a target as observers see it."""

    def __init__(
        self,
        target: Target,
        facts: LoaderFacts | LoaderFailed,
        settings: Settings,
        machine: Machine,
        folder: Path,
        checkpoint: Checkpoint | None = None,
        turns: ConcurrencySlots | None = None,
    ) -> None:
        self.target = target
        self.settings = settings
        self.machine = machine
        self.cache = ObservationCache(settings, folder, turns)
        self.afford = self.cache.afford
        self.siblings: Mapping[str, Subject] = {}
        """The loaders of the target by name, this one among them."""
        self._facts = facts
        self._checkpoint = checkpoint
        self._changed = ""
        self.raised: list[Incident] = []
        """The exceptions that observations under other settings met."""

    @property
    def facts(self) -> LoaderFacts:
        """The loader's settings. Raises LoaderFailed when the loader could not even be built."""
        if isinstance(self._facts, LoaderFailed):
            raise self._facts
        return self._facts

    @property
    def epoch(self) -> EpochTrace:
        """One ordinary epoch, as far as samples and budget allow: who fetched what, structure, values and times.

        A dataset whose last indices do not exist is read up to them, so that other checks can run. Raises
        LoaderUnspawnable if the loader fails only under its own start method, LoaderInterleaved if it fails only
        because several workers read through one file offset.
        """
        return self._read_epoch()

    def afford_reads(self, key: object, reads: int) -> None:
        """Raise Undecided if reading so many samples in one process takes too long; see `ObservationCache.afford`."""
        self.afford(key, reads * self.epoch.seconds_per_sample)

    def reads_take_little(self, reads: int) -> bool:
        """Whether reading so many samples leaves nearly all of the budget to others."""
        return self.cache.takes_little(reads * self.epoch.seconds_per_sample)

    def affordable_reads(self, usual: int, few: int, times: int = 1) -> int:
        """How many samples to read, each so many times: as many as usual, or a few if that takes long."""
        return usual if self.reads_take_little(usual * times) else few

    @abstractmethod
    def _read_epoch(self) -> EpochTrace:
        """Read it, or return the cached one: it needs other observations, and so a subclass that has them."""

    @property
    def repro(self) -> Repro:
        """Writes commands that reproduce a finding of this loader, even if its factory fails."""
        name = self.target.name if isinstance(self._facts, LoaderFailed) else self._facts.name
        return Repro(self.target.spelling, name, self.settings.pythonpath)

    def need_map(self, reason: str) -> None:
        """Raise NotApplicable, for this reason, when the dataset is a stream."""
        if self.facts.kind != "map":
            raise NotApplicable(reason)

    def need_images(self) -> None:
        """Raise NotApplicable when no leaf of the epoch has rows and columns: there is nothing to replace by charts."""
        samples = ((leaf, 2) for one in self.epoch.samples for leaf in one.leaves)
        batches = ((leaf, 3) for one in self.epoch.batches for leaf in one.leaves)
        if not any(leaf.kind == "PIL.Image" or len(leaf.shape or ()) >= axes for leaf, axes in chain(samples, batches)):
            raise NotApplicable("no leaf of a sample or batch has the shape of an image")

    def build(
        self,
        place: Mapping[str, int] | None = None,
        *,
        same_seed: bool = False,
        reuse: bool = False,
        **overrides: Any,
    ) -> Loader:
        """Make the loader in this process, with what the settings ask for and these overrides.

        It is the one of the checkpoint, at the first call in a process or if another may `reuse` its dataset; otherwise
        the factory is called again, and always at a `place`, which gives it a `rank` and `world_size`. With
        `same_seed`, the global generators of all ranks begin with one seed.
        """
        wanted = {**requested(self.settings), **overrides}
        plain = {name: value for name, value in overrides.items() if isinstance(value, int | str)}
        settings = ", ".join(f"{name}={value!r}" for name, value in plain.items())
        order = "other batches of indices" if "schedule" in overrides else ""
        ranks = f"{place['world_size']} ranks" if place and "world_size" in place else ""
        self._changed = " and ".join(filter(None, [settings, order, ranks]))
        if self._checkpoint is not None and place is None:
            with gate("factory"):
                loader = self._checkpoint.variant(self.facts.name, wanted, reuse=reuse)
            if loader is not None:
                return loader
        stride = 0 if same_seed else RANK_STRIDE
        target, name, seed = self.target, self.facts.name, self.settings.seed
        return self._called_again(lambda: gated_build(target, name, seed, wanted, place, stride))

    def rebuild(self, **overrides: Any) -> Loader:
        """Make the loader in this process, from newly imported modules."""
        wanted = {**requested(self.settings), **overrides}
        return self._called_again(lambda: rebuild(self.target, self.facts.name, self.settings, wanted))

    def _called_again(self, call: Callable[[], Loader]) -> Loader:
        """Call the factory; if that fails beside what it made for the checkpoint, without that.

        What an earlier call in this process made is freed first, or each worker would run its finalizers as well.
        """
        gc.collect()
        try:
            return call()
        except LoaderRaised:
            if self._checkpoint is None or not self._checkpoint.let_go():
                raise
        return call()

    @property
    def has_checkpoint(self) -> bool:
        """Whether observations run in forks of the process in which the factory has run."""
        return self._checkpoint is not None

    @property
    def asked_for_rank(self) -> Location | None:
        """Where the factory read its rank before the checkpoint, if it did; no fork of that could see it."""
        return self._checkpoint.asked_for_rank if self._checkpoint is not None else None

    @property
    def decoded_before(self) -> bool:
        """Whether the factory decoded images before the checkpoint, where no observation could replace them."""
        return self._checkpoint is not None and self._checkpoint.decodes

    def build_with(self, other: Subject) -> tuple[Loader, Loader]:
        """This loader and another one of its target as one call of the factory makes them: with what both share."""
        if self._checkpoint is not None:
            return self.build(), other.build(reuse=True)
        seed_global_generators(self.settings.seed)
        with gate(self.target.stage):
            loaders = self.target.build_all({"seed": self.settings.seed}, **requested(self.settings))
        return loaders[self.facts.name], loaders[other.facts.name]

    @overload
    def observe(
        self,
        key: object,
        run: Callable[[Path], T],
        *,
        unbounded: bool = ...,
        exclusive: bool = ...,
        unobservable: bool = ...,
    ) -> T: ...

    @overload
    def observe(
        self,
        key: object,
        run: Callable[[Path], Any],
        read: Callable[[Path, Any], T],
        *,
        unbounded: bool = ...,
        exclusive: bool = ...,
        unobservable: bool = ...,
    ) -> T: ...

    def observe(
        self,
        key: object,
        run: Callable[[Path], Any],
        read: Callable[[Path, Any], Any] = returned,
        *,
        unbounded: bool = False,
        exclusive: bool = False,
        unobservable: bool = False,
    ) -> Any:
        """Observe the loader under settings that are not its own, after it ran an ordinary epoch.

        A failure only here says nothing against the loader: it raises Undecided; NotApplicable if a loader without
        workers got some, which it may exclude on purpose. Otherwise like `ObservationCache.observe`. The epoch
        of an `unobservable` loader is not asked for.
        """
        if not unobservable:
            self.epoch  # noqa: B018 - what fails as it is, fails once
        try:
            exclusive = exclusive or (not unobservable and self.epoch.largest >= LARGE)
            return self.cache.observe(key, partial(self._noting, run), read, unbounded=unbounded, exclusive=exclusive)
        except LoaderFailed as failure:
            incident = failure.incident
            if isinstance(failure, LoaderRaised):
                self.raised.append(incident)
            if not self.facts.num_workers and _WORKERS.search(incident.changed):
                raise NotTested(f"made for num_workers=0: {incident.fails_if_changed}") from failure
            raise Undecided(incident.under_other_settings) from failure

    def _noting(self, run: Callable[[Path], Any], folder: Path) -> Any:
        """In the process of an observation: note in what fails which settings of the loader were changed."""
        try:
            return run(folder)
        except LoaderFailed as failure:
            raise type(failure)(replace(failure.incident, changed=self._changed)) from failure


@dataclass(frozen=True, slots=True)
class Repro:
    """Writes such commands for one loader of a target, by its spelling and the loader's name."""

    target: str
    loader: str
    pythonpath: tuple[str, ...] = ()

    def scan(self, code: str, options: str) -> str:
        """A command that runs one check."""
        if is_held(self.target):
            return f"dataguard.check({self._held}, select=[{code!r}])"
        if script := script_of(self.target):
            return f"dataguard run --select {code}{options} {program(script[0])} {join(script[1:])}".rstrip()
        return f"dataguard scan {quote(self.target)} --select {code}{options}"

    def samples(self, *indices: object, batch: bool = False, times: int = 1) -> str:
        """A command that shows samples, read one after the other, each so many times; as one `batch`, collated too."""
        if is_held(self.target):
            options = [*(["batch=True"] if batch else []), *([f"repeat={times}"] if times > 1 else [])]
            return f"dataguard.show({', '.join([self._held, *map(repr, indices), *options])})"
        return self._command(map(_word, indices), batch=batch, times=times)

    def spelled(self, index: str, times: int = 1) -> str:
        """A command that shows a sample, from its index as Python writes it, so many times."""
        if is_held(self.target):
            return f"dataguard.show({self._held}, {index}{f', repeat={times}' if times > 1 else ''})"
        return self._command([quote(index)], times=times)

    def _command(self, indices: Iterable[str], *, batch: bool = False, times: int = 1) -> str:
        words = [f"--loader {_quoted(self.loader)}"] if self._is_ambiguous else []
        words += ["--batch"] if batch else []
        words += [f"--repeat {times}"] if times > 1 else []
        path = f"PYTHONPATH={quote(':'.join(self.pythonpath))} " if self.pythonpath else ""
        return " ".join([f"{path}dataguard show {quote(self.target)}", *indices, *words])

    def incident(self, incident: Incident, times: int = 1) -> str | None:
        """A command that reads the sample at which the user's code failed, if it has an index, so many times."""
        if incident.stage != "sample" or not incident.index:
            return None
        return self.spelled(incident.index, times)

    def apart(self, index: object) -> str:
        """A command that reads a sample in one process, and then in another."""
        command = self.samples(index)
        return f"{command}; {command}"

    @property
    def _is_ambiguous(self) -> bool:
        """Whether the target may have other loaders."""
        return self.loader != parsed(self.target).name

    @property
    def _held(self) -> str:
        name = shown_target(self.target)
        return name if self.loader == name else f"{name}[{self.loader!r}]"


def _quoted(word: str) -> str:
    """A word of a shell on one line: control characters as escape sequences, which bash and zsh read."""
    if word.isprintable():
        return quote(word)
    spelled = (char if char.isprintable() else f"\\u{ord(char):04x}" for char in re.sub(r"(['\\])", r"\\\1", word))
    return f"$'{''.join(spelled)}'"


def _word(index: object) -> str:
    """An index as a word of a shell: a key as it is, unless it looks like a number or an option."""
    if isinstance(index, str) and _KEY.fullmatch(index):
        return quote(index)
    words = repr(index)
    plain = "'" in words and not set(words) & set('"$`\\!\n')  # then double quotes are enough, and the easiest to read
    return f'"{words}"' if plain else quote(words)


_KEY = re.compile(r"(?!(?:None|True|False)$)[^\W\d][\w./()-]*")
