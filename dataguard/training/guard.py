"""`dataguard.guard`: watch loaders while a model trains, and report what they showed.

A guarded loader becomes an object of a subclass of its own class. It stays the same object, so that attributes, `len`,
`state_dict`, `isinstance` and `type(loader)(...)`, by which Lightning makes another one like it, work as before. A
loader that is made from its class is guarded, too. Its iterator hands each batch to the `Watch` of the loader.
"""

from __future__ import annotations

import contextlib
import time
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from torch.utils.data import DataLoader, Dataset, IterableDataset

from dataguard.core.model import Check, Result, Status, UsageError
from dataguard.lab.core.loader_facts import length_of
from dataguard.machine.checkup import environment
from dataguard.machine.units import counted, span
from dataguard.report import Report
from dataguard.targets.discovery import GUARDED, is_loader, parts_of
from dataguard.training.epoch_order import Order, Pass, Proxy, RecordedSampler, shuffler_of
from dataguard.training.randomness.changed_samples import FEWEST_EPOCHS
from dataguard.training.resumed_run import Progress
from dataguard.training.violations import Action, Options, on_rank, watched
from dataguard.training.watch import WATCHES, Watch

L = TypeVar("L")


class Guard:
    """The functions `guard(loader)`, `guard.watches(loader)`, `guard.report()` and `guard.reset()`."""

    def __call__(
        self,
        loader: L,
        *,
        name: str | None = None,
        role: str | None = None,
        num_classes: int | None = None,
        ignore_index: int | None = None,
        label: str | int | None = None,
        all_values: bool = False,
        on_violation: Action = "warn",
        ignore: Collection[str] = (),
        save_to: str | Path | None = None,
        max_wait: float | None = None,
        ranks: bool = False,
        rank_timeout: float = 300.0,
        same_batches: int = 1,
        resume: str | Path | None = None,
    ) -> L:
        """Watch a loader, and return it: the same object, which a training loop iterates as before.

        Each batch is looked at before the loop has it: NaN and Inf, labels out of range, another dtype or number of
        dimensions than before, a last batch of one sample. Epochs are compared: the same order again, as without
        `set_epoch`, and workers or epochs that draw the same random numbers. A violation is named by its check:
        `dataguard explain DG206`.

        Args:
            loader: a DataLoader or subclass, a wrapper or dict of them, or an object with an `__iter__` of its own.
            name: what the loader is called in warnings and reports; a name such as `val` is its role, too.
            role: `train`, `val`, `test` or `predict`. By default a loader that shuffles is a training loader, unless
                gradients are disabled while it is iterated.
            num_classes: labels are 0 to num_classes - 1; by default what the dataset declares, else unknown.
            ignore_index: a label beyond those that is on purpose; -100 always is.
            label: the key, or the position, of the labels in a batch; by default the second of a tuple, or `labels`.
            all_values: check the values of every batch. By default the first batches are checked, and later ones as
                often as takes half a percent of the time.
            on_violation: `warn` once for each check, `raise` ContractViolation for checks that are errors, or only
                `record` for the report.
            ignore: codes of checks whose violations are on purpose.
            save_to: a folder for the first batch that violates each check; without it, nothing is written.
            max_wait: the largest share of an epoch that the loop may wait for batches (DG801), such as 0.2.
            ranks: all ranks compare their numbers of batches, and what is in the first ones, once in an epoch; all of
                them must guard the loader.
            rank_timeout: seconds that a rank waits for the others.
            same_batches: how many consecutive ranks share a model, as in tensor parallelism, and so read the same
                batches: with `ranks`, a difference between them is a violation (DG202), and not that they agree.
            resume: a name for the run, such as `checkpoints/run1`: a small file of that name is written beside each
                checkpoint, when `guard.checkpoint()` or the loader's `state_dict` is called. A run that finds the file
                is compared with it (DG209): whether it continues where that checkpoint was saved.

        Raises UsageError for a wrong argument, and for an object that cannot be watched.
        """
        folder = None if save_to is None else Path(save_to)
        options = Options(
            role=role,
            num_classes=num_classes,
            ignore_index=ignore_index,
            label=label,
            all_values=all_values,
            on_violation=on_violation,
            ignore=tuple(ignore),
            save_to=folder,
            max_wait=max_wait,
            ranks=ranks,
            rank_timeout=rank_timeout,
            same_batches=same_batches,
            resume=None if resume is None else Path(resume),
        )
        inside = list(_loaders_of(loader))
        for part, inner in inside:
            named = ".".join(filter(None, (name, part))) or role or "loader"
            guarded(inner, _unique(named), options)
            if resume is not None:
                watch_of(inner).progress = _progress(Path(f"{resume}.{named}"))
        if resume is not None and len(inside) == 1 and inside[0][1] is not loader:
            _watch_wrapper(loader, watch_of(inside[0][1]))
        return loader

    def checkpoint(self) -> None:
        """Say that a checkpoint is saved now: what the loop receives next must come next after a restart, too.

        It writes a small file for each loader that is guarded with `resume`. Call it where the model is saved; a loader
        with a `state_dict` does so itself when that is called.
        """
        for progress in _PROGRESS.values():
            progress.save()

    def watches(self, loader: Any) -> bool:
        """Whether any loader in an object is guarded."""
        return any(watch_of(inner) is not None for _, inner in _loaders_of(loader))

    def report(self, *loaders: Any) -> Report:
        """What these loaders showed so far; without arguments, all that this process has guarded."""
        watches = [watch_of(inner) for loader in loaders for _, inner in _loaders_of(loader)]
        return report_of([watch for watch in watches if watch] if loaders else WATCHES)

    def reset(self) -> None:
        """Forget the loaders guarded so far, which reports then leave out."""
        WATCHES.clear()
        _PROGRESS.clear()


guard = Guard()


def _loaders_of(loader: Any) -> Iterator[tuple[str, Any]]:
    """What can be watched in an object, by name: loaders, else the object if it is iterated itself."""
    if isinstance(loader, Dataset) or hasattr(loader, "train_dataloader"):
        raise UsageError(f"guard takes a loader, not a {type(loader).__name__}")
    watchable = [("", loader)] if is_loader(loader) else [part for part in parts_of(loader) if is_loader(part[1])]
    if not watchable and not hasattr(type(loader), "__iter__"):
        raise UsageError(f"guard takes a loader, not a {type(loader).__name__}")
    yield from watchable or [("", loader)]


_PROGRESS: dict[Path, Progress] = {}
"""The progress of this process, by file: a loader that skips the first batches continues with that of the whole one."""


def _progress(path: Path) -> Progress:
    if path.absolute() not in _PROGRESS:
        _PROGRESS[path.absolute()] = Progress(path)
    return _PROGRESS[path.absolute()]


def _unique(name: str) -> str:
    """A name that no other loader of the report has."""
    taken = {watch.name for watch in WATCHES}
    numbers = (name if number == 1 else f"{name}-{number}" for number in range(1, len(taken) + 2))
    return next(candidate for candidate in numbers if candidate not in taken)


def guarded(loader: Any, name: str, options: Options) -> Any:
    """The same loader, watched from now on. Raises UsageError for an object whose class cannot be changed."""
    base = getattr(type(loader), GUARDED, type(loader))
    is_torch = issubclass(base, DataLoader)
    watch = Watch(name, options, getattr(loader, "dataset", None), in_order=getattr(loader, "in_order", True))
    try:
        kind = _guarded_loader(base) if is_torch else _guarded_iterable(base)
        kind = _resuming(kind) if hasattr(base, "load_state_dict") else kind
        for attribute in ("__name__", "__qualname__", "__module__", "__doc__"):
            setattr(kind, attribute, getattr(base, attribute))
        for attribute, value in ((_WATCH, watch), (GUARDED, base), ("__reduce_ex__", _reduced)):
            setattr(kind, attribute, value)
        loader.__class__ = kind
    except (AttributeError, TypeError) as error:
        words = f"guard cannot watch a {base.__name__}: pass a DataLoader, or an object of your own class"
        raise UsageError(words) from error
    if is_torch and vars(loader).get("_iterator") is not None:
        _adopt_iterator(loader, watch)
    WATCHES.append(watch)
    return loader


def _adopt_iterator(loader: Any, watch: Watch) -> None:
    """Watch the iterator that a loader has made already and gives out next: for persistent workers, or its state.

    Its order is not recorded. Another iterator would draw from the global generator, and change the training.
    """
    made, shuffler = loader._iterator, None if isinstance(loader.dataset, IterableDataset) else shuffler_of(loader)
    if not isinstance(made, Batches):
        holder = weakref.ref(loader)

        def begin() -> Pass:
            return watch.begin(length_of(holder()) if shuffler else None, shuffler)

        loader._iterator = Batches(made, watch, begin(), begin)


_WATCH = "_dataguard_watch"
"""The attribute of a guarded class that holds its watch."""


def _guarded_loader(base: Any) -> type:
    """A class of DataLoaders whose sampler, start of workers, and batches are watched."""

    class Guarded(base):  # type: ignore[misc]
        def _get_iterator(self: Any) -> Any:
            watch: Watch = watch_of(self)
            # A loader holds the iterator of persistent workers: in a circle both would outlive their last use.
            loader = weakref.ref(self)
            streams = isinstance(self.dataset, IterableDataset)
            sampler = None if streams else RecordedSampler(super()._index_sampler)
            shuffler = None if streams else shuffler_of(self)

            def begin() -> Pass:
                if sampler is None:
                    now = watch.begin()
                    now.stream = loader
                    return now
                sampler.order = Order()
                return watch.begin(length_of(loader()), shuffler, sampler.order)

            now, user_init = begin(), self.worker_init_fn
            try:
                self.__dict__[_SAMPLER] = sampler
                self.worker_init_fn = watch.worker_init(self, now)
                return Batches(super()._get_iterator(), watch, now, begin)
            finally:
                del self.__dict__[_SAMPLER]
                self.worker_init_fn = user_init

        @property
        def _index_sampler(self) -> Any:
            recorded = vars(self).get(_SAMPLER)
            return super()._index_sampler if recorded is None else recorded

    return Guarded


_SAMPLER = "_dataguard_sampler"
"""The attribute of a loader that holds its recorded sampler while it makes an iterator."""


class Batches(Proxy):
    """The iterator of a loader, each batch of which is looked at before the loop has it."""

    def __init__(self, inner: Any, watch: Watch, now: Pass, begin: Callable[[], Pass]) -> None:
        super().__init__(inner)
        self._watch = watch
        self._now = now
        self._begin = begin

    def __iter__(self) -> Iterator[Any]:
        return self

    def __len__(self) -> int:
        return len(self._inner)

    def __next__(self) -> Any:
        now, watch = self._now, self._watch
        asked = time.perf_counter()
        try:
            batch = next(self._inner)
        except StopIteration:
            if now.delivered:
                watch.end(now)
            raise
        given = time.perf_counter()
        if now.returned is not None:  # workers start for the first batch
            now.waited += given - asked
            now.worked += asked - now.returned
            watch.waited += given - asked
            watch.worked += asked - now.returned
        watch.see(now, batch)
        if now.delivered == now.planned:  # Lightning asks for no more batches than `len`
            watch.end(now)
        now.returned = time.perf_counter()
        return batch

    def _reset(self, *args: Any, **kwargs: Any) -> None:
        """Begin the next epoch with workers that are alive still, where torch asks for it."""
        self._now = self._begin()
        self._inner._reset(*args, **kwargs)


def _guarded_iterable(base: Any) -> type:
    """The same for objects that are no DataLoader."""

    class Guarded(base):  # type: ignore[misc]
        def __iter__(self) -> Iterator[Any]:
            watch: Watch = watch_of(self)
            return Batches(super().__iter__(), watch, watch.begin(), watch.begin)

    return Guarded


def _resuming(base: Any) -> type:
    """A class of guarded loaders with checkpoints: what comes after one is the rest of an epoch."""

    class Resuming(base):  # type: ignore[misc]
        def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
            watch_of(self).resumes = True
            return super().load_state_dict(*args, **kwargs)

        def state_dict(self, *args: Any, **kwargs: Any) -> Any:
            state = super().state_dict(*args, **kwargs)
            watch: Watch = watch_of(self)
            if not watch.is_wrapped:  # the wrapper is asked for its state as well, and may ask here after each batch
                watch.save_progress()
            return state

    return Resuming


def _watch_wrapper(wrapper: Any, watch: Watch) -> None:
    """Follow what an object around the loader gives to the loop, such as accelerate's, which fetch a batch ahead."""
    base = getattr(type(wrapper), GUARDED, type(wrapper))
    is_given = isinstance(wrapper, Mapping | Sequence) or not hasattr(base, "__iter__")

    class Wrapper(base):  # type: ignore[misc, valid-type]
        def __iter__(self) -> Any:
            return _Handed(super().__iter__(), watch)

        def __reduce_ex__(self, protocol: Any) -> Any:
            plain = object.__new__(base)
            vars(plain).update(vars(self))
            return plain.__reduce_ex__(protocol)

    class Stateful(Wrapper):
        def state_dict(self, *args: Any, **kwargs: Any) -> Any:
            state = super().state_dict(*args, **kwargs)
            watch.save_progress()
            return state

    kind = Stateful if hasattr(base, "state_dict") else Wrapper
    for attribute in ("__name__", "__qualname__", "__module__", "__doc__"):
        setattr(kind, attribute, getattr(base, attribute))
    setattr(kind, GUARDED, base)
    if not is_given:
        with contextlib.suppress(AttributeError, TypeError):  # an object whose class cannot be changed
            _set_class(wrapper, kind)
            watch.is_wrapped = True


_set_class = vars(object)["__class__"].__set__
"""Sets the class of an object, also of one that pretends to be of another one."""


class _Handed(Proxy):
    """The iterator of a wrapper, whose batches the loop receives."""

    def __init__(self, inner: Any, watch: Watch) -> None:
        super().__init__(inner)
        self._watch = watch

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        batch = next(self._inner)
        self._watch.hand(batch)
        return batch


def _reduced(loader: Any, _: Any) -> Any:
    """A pickle holds the loader without the guard, and the options of the guard."""
    watch: Watch = watch_of(loader)
    plain = object.__new__(getattr(type(loader), GUARDED))
    vars(plain).update(vars(loader))
    return guarded, (plain, watch.name, watch.options)


def watch_of(loader: Any) -> Any:
    """The watch of a guarded loader; None for any other object."""
    return getattr(type(loader), _WATCH, None)


def report_of(watches: Sequence[Watch]) -> Report:
    """The report on some guarded loaders."""
    settings = {watch.name: str(watch.options) for watch in watches}
    return Report(
        targets=("guard",),
        results=tuple(_result(watch, check) for watch in watches for check in watched().values()),
        environment=environment(),
        settings=settings,
        seconds=sum(watch.spent for watch in watches),
        notes=tuple(_note(watch) for watch in watches),
    )


def _note(watch: Watch) -> str:
    """One line about a loader: how much was read, and who waited for whom."""
    if not watch.batches:
        return f"{on_rank(watch.name)}: {NEVER}"
    read = f"{on_rank(watch.name)}: {counted(watch.batches, 'batches')}, {counted(watch.epochs, 'whole epochs')}"
    read = "; ".join(filter(None, (read, watch.loss_mask.shares)))
    whole = watch.waited + watch.worked
    if not whole:  # a single batch
        return read
    waited, spent = watch.waited / whole, watch.spent / whole
    return f"{read}; the loop waited {waited:.0%} of {span(whole)}, the guard took {spent:.1%}"


BETWEEN_EPOCHS = "the checkpoint was saved between two epochs"
NEVER = "never iterated: guard what the loop iterates, after `accelerator.prepare` and the like"


def _result(watch: Watch, check: Check) -> Result:
    """The outcome of one check: failed if there was a violation."""
    findings = tuple(watch.alarm.findings.get(check.code, ()))
    status, reason = Status.FAILED, None
    exercised: Mapping[str, int] = {"batches": watch.batches}
    if watch.broken is not None:
        status, reason = Status.BROKEN, watch.broken
    elif findings and watch.alarm.counts[check.code] > len(findings):
        reason = f"the first {len(findings)} of {watch.alarm.counts[check.code]:,} violations"
    elif not findings:
        status, reason, exercised = _without_findings(watch, check.code)
    return Result(check.code, check.name, check.severity, watch.name, status, findings, reason, exercised)


def _without_findings(watch: Watch, code: str) -> tuple[Status, str | None, Mapping[str, int]]:
    for applies, reason in _conditions(watch, code):
        if not applies:
            return Status.SKIPPED, reason, {}
    exercised, enough = _exercised(watch)[code]
    fewest = f"fewer than {'four' if code == 'DG307' else 'two'} whole epochs"
    return (Status.PASSED, None, exercised) if enough else (Status.INCONCLUSIVE, fewest, {})


def _conditions(watch: Watch, code: str) -> Iterator[tuple[bool, str]]:
    """What must hold for a check to apply, each with the reason if it does not."""
    yield watch.batches > 0, NEVER
    yield watch.alarm.listens(code), "ignored"
    if code in ("DG206", "DG403"):
        yield watch.is_training, "no training with a sampler that shuffles: pass role='train' if it is one"
    if code in ("DG101", "DG102"):
        yield watch.replays.follows, "no training with workers and a map-style dataset"
    if code in ("DG202", "DG203"):
        yield watch.ranks is not None, "ranks=True was not passed"
        yield bool(watch.ranks and watch.ranks.compared), "there are no other ranks"
    if code == "DG209":
        yield watch.progress is not None, "resume was not passed"
        yield (
            bool(watch.progress and watch.progress.before),
            "no record of an earlier run: guard.checkpoint() writes it",
        )
        yield bool(watch.progress and watch.progress.before and watch.progress.before.batch), BETWEEN_EPOCHS
        yield bool(watch.progress and watch.progress.compared), "nothing was read after the restart"
    if code == "DG307":
        yield watch.changed is not None and watch.changed.follows, "no samples of floats, or the dataset has set_epoch"
    if code == "DG423":
        yield watch.loss_mask.batches > 0, "no batch has tokens and their labels"
    if code == "DG502":
        yield watch.labels.count is not None, "the number of classes is unknown: pass num_classes"
    if code == "DG801":
        yield watch.options.max_wait is not None, "max_wait was not passed"


def _exercised(watch: Watch) -> dict[str, tuple[Mapping[str, int], bool]]:
    """What a pass of each check is based on, and whether that is enough."""
    batches, twice = {"batches": watch.batches}, watch.trained > 1
    ranks = {"epochs": watch.ranks.compared if watch.ranks else 0}
    contents = {"epochs": watch.ranks.contents if watch.ranks else 0}
    return {
        "DG101": ({"epochs": watch.trained}, twice),
        "DG102": ({"epochs": watch.trained}, twice),
        "DG202": (contents, bool(contents["epochs"])),
        "DG203": (ranks, True),
        "DG206": ({"epochs": watch.trained}, twice),
        "DG209": ({"batches": watch.progress.compared if watch.progress else 0}, True),
        "DG305": (batches, True),
        "DG307": ({"epochs": watch.trained}, watch.trained >= FEWEST_EPOCHS),
        "DG403": (batches, True),
        "DG423": ({"batches": watch.loss_mask.batches}, True),
        "DG501": ({"batches": watch.checked}, True),
        "DG502": ({"batches": watch.checked}, True),
        "DG801": ({"epochs": watch.epochs}, True),
    }
