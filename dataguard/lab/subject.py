"""What every observer may use of one loader: build it, vary it, its facts, and commands that reproduce a finding."""

from __future__ import annotations

import contextlib
import gc
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import chain
from pathlib import Path
from shlex import join, quote
from typing import Any, TypeVar, overload

from dataguard.core.incident import Incident, LoaderFailed, LoaderRaised, observed_or_none
from dataguard.core.model import DataguardError, Location, NotApplicable, NotTested, Undecided, UsageError
from dataguard.lab.core.loader_facts import LoaderFacts
from dataguard.lab.core.observation_cache import ObservationCache, recalling, returned
from dataguard.lab.core.records import Index
from dataguard.lab.culprit.line_trace import MOST_SECONDS, QUICK_FACTORY, Look, Traced, placed
from dataguard.lab.culprit.value_trace import BatchHistory, looks_of
from dataguard.lab.process.side_by_side import ConcurrencySlots
from dataguard.lab.reading.checkpoint import Checkpoint, requested
from dataguard.lab.reading.epoch_trace import (
    RANK_STRIDE,
    EpochTrace,
    ReadLimit,
    factory_arguments,
    gate,
    gated_build,
)
from dataguard.lab.reading.followed_batch import follow_batch
from dataguard.lab.reading.fresh_import import newly_imported, rebuild, rebuild_all
from dataguard.lab.rng.rng_discovery import seed_global_generators
from dataguard.machine.machine import Machine
from dataguard.process.originals import os
from dataguard.process.torchrun import torchrun_variables
from dataguard.settings.settings import Settings, resolve
from dataguard.settings.target_spelling import is_held, module_of, parsed, program, script_of, shown_target
from dataguard.targets.discovery import through_wrapper
from dataguard.targets.launchers import RankHere
from dataguard.targets.loading import Target
from dataguard.targets.script import run_again
from dataguard.targets.variants import Loader

LARGE = 1 << 28
"""Bytes of a batch from which on a loader is observed once at a time: every observation holds some of them."""
MOST_FOLLOWED = 10
"""Samples of a batch that are read once more for a finding, however long that takes."""
_WORKERS = re.compile(r"\bnum_workers=[1-9]")
T = TypeVar("T")
A = TypeVar("A")


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
        slots: ConcurrencySlots | None = None,
    ) -> None:
        self.target = target
        self.settings = settings
        self.machine = machine
        self.cache = ObservationCache(settings, folder, slots)
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
        spelling, path = self.target.spelling, self.settings.pythonpath
        return Repro(spelling, name, _unfound(spelling, path), _unfound(spelling, path, of_python=True))

    def need_map(self, reason: str) -> None:
        """Raise NotApplicable, for this reason, when the dataset is a stream."""
        if self.facts.kind != "map":
            raise NotApplicable(reason)

    def need_images(self) -> None:
        """Raise NotApplicable when no leaf of the epoch has rows and columns: there is nothing to replace by charts."""
        samples = ((leaf, 2) for record in self.epoch.samples for leaf in record.leaves)
        batches = ((leaf, 3) for record in self.epoch.batches for leaf in record.leaves)
        if not any(leaf.kind == "PIL.Image" or len(leaf.shape or ()) >= axes for leaf, axes in chain(samples, batches)):
            raise NotApplicable("no leaf of a sample or batch has the shape of an image")

    def build(
        self,
        rank_arguments: Mapping[str, int] | None = None,
        *,
        same_seed: bool = False,
        reuse: bool = False,
        wrapped: bool = False,
        **overrides: Any,
    ) -> Loader:
        """Make the loader in this process, with what the settings ask for and these overrides.

        It is the one of the checkpoint, at the first call in a process or if another may `reuse` its dataset; otherwise
        the factory is called again, and always with `rank_arguments`, its `rank` and `world_size`. With
        `same_seed`, the global generators of all ranks begin with one seed; `wrapped`: what such a call makes is read
        through its wrapper, such as accelerate's, which may share it out between ranks.
        """
        wanted = {**requested(self.settings), **overrides}
        plain = {name: value for name, value in overrides.items() if isinstance(value, int | str)}
        settings = ", ".join(f"{name}={value!r}" for name, value in plain.items())
        order = "other batches of indices" if "schedule" in overrides else ""
        ranks = f"{rank_arguments['world_size']} ranks" if rank_arguments and "world_size" in rank_arguments else ""
        self._changed = " and ".join(filter(None, [settings, order, ranks]))
        if self._checkpoint is not None and rank_arguments is None:
            with gate("factory"):
                loader = self._checkpoint.variant(self.facts.name, wanted, reuse=reuse)
            if loader is not None:
                return loader
        offset = 0 if same_seed else RANK_STRIDE * (rank_arguments or {}).get("rank", 0)
        target, name = self.target, self.facts.name
        if rank_arguments and not target.is_object:  # its modules may read its rank, or seed from the system
            seed_global_generators(self.settings.seed + offset)
            if target.runs_once:
                here = RankHere(rank_arguments["rank"], rank_arguments["world_size"])
                run_again(target.spelling, here, torchrun_variables(os.environ))
            target = newly_imported(target)
        try:
            loader = self._called_again(
                lambda: gated_build(target, name, self.settings, wanted, rank_arguments, offset)
            )
        except UsageError as error:
            if not rank_arguments or not target.runs_once:
                raise
            raise NotTested(f"the script makes no loader {name!r} on rank {rank_arguments['rank']}") from error
        return through_wrapper(loader) if wrapped else loader

    def rebuild(self, *, seed: int | None = None, offset: int = 0, **overrides: Any) -> Loader:
        """Make the loader in this process, from newly imported modules, perhaps in a run with another `seed`.

        The seeds of the global generators differ by `offset` from that, which the factory gets.
        """
        wanted = {**requested(self.settings), **overrides}
        settings = self.settings if seed is None else replace(self.settings, seed=seed)
        return self._called_again(lambda: rebuild(self.target, self.facts.name, settings, wanted, offset))

    def call_again(self, arguments: Mapping[str, int]) -> Loader:
        """Call the factory once more in this process, with these arguments, from the modules that are imported."""
        target = replace(self.target, args={**self.target.args, **arguments})
        wanted = {**requested(self.settings), "num_workers": 0}
        return self._called_again(lambda: gated_build(target, self.facts.name, self.settings, wanted))

    @property
    def quick_rebuild(self) -> Callable[[], Loader] | None:
        """`rebuild`, to see in one more call of the factory where it makes things; None if that takes long."""
        return self.rebuild if self.is_called and self.factory_seconds < QUICK_FACTORY else None

    @property
    def is_called(self) -> bool:
        """Whether a factory makes this loader, that can be called again: no script, which would run once more."""
        return not (is_held(self.target.spelling) or self.target.runs_once)

    def rebuild_each(self, names: Collection[str]) -> dict[str, Loader]:
        """Loaders of this target by name, from one more call of the factory in newly imported modules."""
        if len(names) == 1:
            return {name: self.rebuild() for name in names}
        wanted = requested(self.settings)
        return self._called_again(lambda: rebuild_all(self.target, self.settings, wanted, imports=True))

    @property
    def made_with(self) -> list[Subject]:
        """The other map-style loaders that the factory makes in the same call, as far as their epochs are known."""
        others = [other for other in self.siblings.values() if other.target is self.target and other is not self]
        with recalling():
            known = [other for other in others if observed_or_none(lambda: other.epoch)]  # noqa: B023 - called at once
        return [other for other in known if other.facts.kind == "map"] if self.is_called else []

    def rebuild_with(self, other: Subject, *, imports: bool) -> tuple[Loader, Loader]:
        """This loader and another one, perhaps of another target, from one more call of the factory.

        `imports`: from newly imported modules, which load again what they load at import.
        """

        def made(target: Target) -> dict[str, Loader]:
            wanted = requested(self.settings)
            return self._called_again(lambda: rebuild_all(target, self.settings, wanted, imports=imports))

        own = made(self.target)
        others = own if other.target is self.target else made(other.target)
        return own[self.facts.name], others[other.facts.name]

    def _called_again(self, call: Callable[[], T]) -> T:
        """Call the factory; if that fails beside what it made for the checkpoint, without that.

        What an earlier call in this process made is freed first, or each worker would run its finalizers as well.
        """
        gc.collect()
        try:
            return call()
        except LoaderRaised:
            if self._checkpoint is None or self.target.runs_once or not self._checkpoint.let_go():
                raise
        return call()

    def line_in_batch(
        self,
        key: Hashable,
        indices: Sequence[Index],
        find: Callable[[BatchHistory], Look | None],
        follow: Callable[[Loader, Path, Sequence[Index]], BatchHistory] = follow_batch,
        **overrides: Any,
    ) -> Traced | None:
        """The line that is found in the history of a batch of these samples, which are read and collated once more.

        What a library's collate_fn makes is placed where the user's code constructs that.
        """
        seconds = len(indices) * self.epoch.seconds_per_sample
        if len(indices) > MOST_FOLLOWED and seconds > MOST_SECONDS:
            raise Undecided("reading a batch once more takes too long")
        self.afford(("line", key), seconds)
        again = self.quick_rebuild

        def observed(folder: Path) -> Traced | None:
            loader = self.build(**overrides)
            history = follow(loader, folder, indices)
            return placed(find(replace(history, of_factory=cache(partial(looks_of, again)))), loader, again)

        return self.observe(("line", key, tuple(indices)), observed)

    @property
    def has_checkpoint(self) -> bool:
        """Whether observations run in forks of the process in which the factory has run."""
        return self._checkpoint is not None

    @property
    def factory_seconds(self) -> float:
        """How long the factory took, as far as it runs before the checkpoint; 0 if each observation calls it."""
        return self._checkpoint.seconds if self._checkpoint is not None else 0.0

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
            loaders = self.target.build_all(factory_arguments(self.settings), **requested(self.settings))
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
            raise self.not_observed(failure, counted=None if unobservable else self.epoch.read_limit) from failure

    def observe_each(
        self,
        key: Hashable,
        asked: Mapping[str, A],
        run: Callable[[Mapping[str, A], Path], Mapping[str, T | LoaderFailed | None]],
    ) -> T:
        """What `run` finds for this loader, if it does so for others of its target that are `asked` for as well.

        They need not observe it again. What fails or runs out of time for all is observed once more for one alone.
        """
        self.epoch  # noqa: B018 - what fails as it is, fails once
        name = self.facts.name
        found: T | LoaderFailed | None = None
        if len(asked) > 1:
            first = next(other for other in self.siblings.values() if other.target is self.target)
            with contextlib.suppress(LoaderFailed, NotApplicable, Undecided):
                found = first.cache.observe(("each", key), partial(run, asked)).get(name)
        if found is None:
            found = self.observe(key, lambda folder: run({name: asked[name]}, folder))[name]
        if isinstance(found, LoaderFailed):
            raise self.not_observed(found, counted=self.epoch.read_limit) from found
        assert found is not None
        return found

    def not_observed(self, failure: LoaderFailed, counted: ReadLimit | None) -> DataguardError:
        """What is raised where the loader fails only in an observation; `counted` if its dataset counts its reads."""
        incident = failure.incident
        if counted is not None and incident.stage == "sample":
            return NotTested(
                f"needs more than {counted.reads} reads in one process, which the dataset counts: see DG001"
            )
        if isinstance(failure, LoaderRaised):
            self.raised.append(incident)
        if not self.facts.num_workers and _WORKERS.search(incident.changed):
            return NotTested(f"made for num_workers=0: {incident.fails_if_changed}")
        return Undecided(incident.under_other_settings)

    def line_of(self, key: object, find: Callable[[Path], T | None]) -> T | None:
        """The line of the user's code to which a finding points, as an observation finds it: a place or a location.

        None if it finds none or cannot be made: the finding is the same without it.
        """
        return observed_or_none(lambda: self.observe(("line", key), find))

    def _noting(self, run: Callable[[Path], Any], folder: Path) -> Any:
        """In the process of an observation: note in what fails which settings of the loader were changed."""
        try:
            return run(folder)
        except LoaderFailed as failure:
            raise type(failure)(replace(failure.incident, changed=self._changed)) from failure


_START = [Path.cwd(), *map(Path, sys.path)]
"""The folder of the command, which the user's code may leave, and where a process looks for modules that runs there."""


def remember_start() -> None:
    """Keep the folder and the path of this process as those of a command, before the target changes them."""
    _START[:] = [Path.cwd(), *map(Path, sys.path)]


@cache
def _unfound(spelling: str, pythonpath: tuple[str, ...], *, of_python: bool = False) -> tuple[str, ...]:
    """The folders that a target is imported from, and where a command in this folder would not look by itself.

    It looks in this folder, where a new process looks, and, unless it is a command `of_python`, where the settings file
    says. pytest looks in the folder of a test module as well.
    """
    if is_held(spelling):
        return ()
    found = {_real(folder) for folder in _START}
    with contextlib.suppress(UsageError):
        found |= set() if of_python else {_real(folder) for folder in resolve(start=_START[0]).pythonpath}
    module = sys.modules.get(parsed(spelling).module.partition(".")[0])
    files = [*getattr(module, "__path__", ()), *filter(None, [getattr(module, "__file__", None)])][:1]
    folders = dict.fromkeys((*pythonpath, *(str(Path(file).parent) for file in files)))
    return tuple(dict.fromkeys(_from_start(folder) for folder in folders if _real(folder) not in found))


def _real(folder: str | Path) -> str:
    return os.path.realpath(_START[0] / folder)


def _from_start(folder: str) -> str:
    path = _START[0] / folder
    return str(path.relative_to(_START[0]) if path.is_relative_to(_START[0]) else path)


@dataclass(frozen=True, slots=True)
class Repro:
    """Writes such commands for one loader of a target, by its spelling and the loader's name.

    `pythonpath` has the folders to import it from that a command of dataguard would not look in by itself, and
    `python_path` those of Python's own.
    """

    target: str
    loader: str
    pythonpath: tuple[str, ...] = ()
    python_path: tuple[str, ...] = ()

    def scan(self, code: str, options: str) -> str:
        """A command that runs one check."""
        if is_held(self.target):
            return f"dataguard.check({self._held}, select=[{code!r}])"
        if script := script_of(self.target):
            return f"dataguard run --select {code}{options} {program(script[0])} {join(script[1:])}".rstrip()
        return f"{_path_of(self.pythonpath)}dataguard scan {quote(self.target)} --select {code}{options}"

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
        return " ".join([f"{_path_of(self.pythonpath)}dataguard show {quote(self.target)}", *indices, *words])

    def incident(self, incident: Incident, times: int = 1) -> str | None:
        """A command that runs only what failed: a sample with an index, so many times, the factory or the script."""
        if incident.stage == "script" and (script := script_of(self.target)):
            runs = "" if Path(script[0]).suffix != ".py" and module_of(script[0]) is None else "python "
            return f"{_path_of(self.python_path)}{runs}{program(script[0])} {join(script[1:])}".rstrip()
        if incident.stage == "factory":
            return self._factory(incident)
        if incident.stage != "sample" or not incident.index:
            return None
        return self.spelled(incident.index, times)

    def _factory(self, incident: Incident) -> str | None:
        """A command that calls the factory alone, if it is a function whose call is the outermost of the traceback."""
        named = parsed(self.target)
        outermost = incident.own_frames[:1]
        if (
            is_held(self.target)
            or "." in named.attribute
            or [frame.function for frame in outermost] != [named.attribute]
        ):
            return None
        arguments = ", ".join(f"{name}={value!r}" for name, value in named.args.items())
        call = f"from {named.module} import {named.attribute}; {named.attribute}({arguments})"
        return f"{_path_of(self.python_path)}python -c {quote(call)}"

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


def _path_of(folders: Sequence[str]) -> str:
    """What a command begins with for Python to look in these folders."""
    return f"PYTHONPATH={quote(':'.join(folders))} " if folders else ""


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
