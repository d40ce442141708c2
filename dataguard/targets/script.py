"""A training script as a target: its loaders, as they are when the first of them is asked for a batch.

`Script` runs the script up to that point. Of a script that trains in several ranks, only one runs, and in this process:
see `targets.launchers`. In a process that is a rank of a real group, the script runs once more, from its start.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from traceback import walk_tb
from types import FrameType, ModuleType
from typing import Any
from weakref import WeakSet

import torch
from greenlet import getcurrent, greenlet
from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.utils.data import DataLoader, Dataset, DistributedSampler

from dataguard.core.incident import is_library
from dataguard.core.model import DataguardError, UsageError
from dataguard.settings.target_spelling import script_of
from dataguard.targets.discovery import is_loader, is_wrapper, parts_of
from dataguard.targets.launchers import Ended, RankHere, as_one_rank, run_main
from dataguard.targets.variants import Loader, replaced

_EVALUATING, _TRAINING = ("sanity", "valid", "eval", "test", "predict"), ("train", "fit")
"""Parts of the names of functions that evaluate, and of those that train."""
_EVALUATION_MAKER = "get_eval_dataloader"
"""The method of a trainer that makes the loader of one of its evaluation datasets (transformers, trl and their kin)."""
_MOST_ENTRIES = 1000
"""A larger collection holds samples, not loaders."""


class Script:
    """Called, it runs a script up to the first batch that it asks for, and returns its loaders by name.

    The script is stopped there, with all that it holds: unwinding it would run its `finally` blocks, which may delete
    what the loaders read. It runs once in a process; further calls return the same loaders. What is iterated in place
    of a loader, such as what accelerate makes of it, is returned in its place. If the first loader
    evaluates, as in a sanity check before the training, it yields nothing, and the script continues to the next one.
    A script that trains on what no loader made is stopped at its first step. One that raises has the loaders that
    existed then, and `notes` say so. A fork of the process can let it `resume`.
    """

    def __init__(self, path: str, arguments: Iterable[str], here: RankHere | None = None) -> None:
        with suppress(ImportError):  # its loaders have an __iter__ of their own, which must be known
            import_module("torchdata.stateful_dataloader")
        self.path = path
        self.arguments = tuple(arguments)
        self.notes: list[str] = []
        self._here = here or RankHere()
        self._start: Start | None = None
        self._run = greenlet(self._main)
        self._process = 0
        self._watching = ExitStack()
        self._asked: list[tuple[str, Loader]] = []
        self._made: list[Loader] = []
        self._found: dict[str, Loader] | None = None
        self._told: WeakSet[DistributedSampler[Any]] = WeakSet()
        self._trains_at = ""
        self._at: tuple[Loader, Begin | None] | None = None
        self._fed: Iterator[Any] | None = None

    def __call__(self) -> dict[str, Loader]:
        """The loaders by name. Raises UsageError if the script ends without one, and what the script raises."""
        if self._found is None:
            self._process = os.getpid()
            self._start = Start.now()
            variables = self._run.switch()
            if self._found is None:
                self._found = _named([variables], self._asked, self._made)
        if not self._found:
            raise UsageError(self._trains_at or f"{self.path} ended without a DataLoader: nothing to scan")
        return self._found

    def _main(self) -> Mapping[str, Any]:
        """Run the script to its end, and return its global variables."""
        variables: Mapping[str, Any] = {}
        with self._watching:
            self._watching.enter_context(_replaced_iter(self._passes, self._made))
            self._watching.enter_context(_before_steps(self._steps))
            self._watching.enter_context(_epochs_told(self._told))
            run_waiting = self._watching.enter_context(as_one_rank(self._here))
            try:
                variables = run_main(self.path, self.arguments)
                run_waiting()
            except Ended:
                pass
            except DataguardError:
                raise
            except Exception as error:
                if self._here.world is not None or self._fed is not None:
                    raise  # a framework may not have shared out its loaders yet; or the script trains
                namespaces = [frame.f_locals for frame, _ in walk_tb(error.__traceback__) if _is_own(frame)]
                self._found = _named(namespaces, self._asked, self._made)
                if not self._found and _lacks_package(error):
                    hint = f"run it as `dataguard run -m pkg.{Path(self.path).stem}`"
                    raise UsageError(f"{self.path} is a module of a package: {hint}") from error
                if not self._found:
                    raise
                self.notes.append(f"{self.path} raised {_summary(error)}: its loaders are scanned as they were then")
        return variables

    @property
    def can_resume(self) -> bool:
        """Whether it stands at the first batch of a loader."""
        return self._at is not None

    def resume(self, name: str, feed: Callable[[Loader, Begin], Iterator[Any]]) -> None:
        """Let the script train with the batches that `feed` makes of one of its loaders, until these or the script end.

        Loaders that it iterates before yield nothing. Where the batches end, the script stands still again, and for
        good: what follows its loop, such as saving the model, does not run. For a fork of the process that ends
        afterwards. Raises what the script raises.
        """
        assert self._at is not None
        wanted, outside = (self._found or {})[name], getcurrent()

        def fed(loader: Loader, begin: Begin | None) -> Iterator[Any]:
            if loader is wanted and begin is not None:
                self._watching.close()
                yield from feed(loader, begin)
                outside.switch()

        self._fed = fed(*self._at)
        self._watching.enter_context(_replaced_iter(fed, []))
        self._run.switch()

    def again(self, here: RankHere, variables: Mapping[str, str]) -> Script:
        """The script before it runs, for a process that is such a rank; see `run_again`."""
        if self._start is not None:
            self._start.restore(variables)
        return Script(self.path, self.arguments, here)

    def _passes(self, loader: Loader, begin: Begin | None) -> Iterator[Any]:
        """What the script gets of a loader that it iterates, as `begin` would: nothing, and at once, if it evaluates.

        Else the script stops, and gets what it is fed once it resumes.
        """
        frames = list(_frames())
        evaluates = _evaluates(frame.f_code.co_name for frame in frames)
        again = any(loader is asked for _, asked in self._asked)
        self._asked.append(("val" if evaluates else "train", loader))
        variables = (value for space in _spaces(frames) for _, value in _loaders_in(space))
        is_remade = _is_in(self._made, loader) and not _is_in(variables, loader)  # so will the one that trains
        trains = any("train" in name.lower() for name in self._held(frames))
        if evaluates and not again and (is_remade or not trains):
            return iter(())
        self._asked += self._made_later(frames)
        self._found = self._held(frames)
        self._at = loader, begin
        self._note_untold(loader, frames)
        self._stop()
        if self._fed is None:
            raise AssertionError("a script that was stopped is running")
        return self._fed

    def _note_untold(self, loader: Loader, frames: Sequence[FrameType]) -> None:
        """Say so if the user's own loop begins its first epoch without a call of `set_epoch` of its sampler."""
        sampler = getattr(loader, "sampler", None)
        shuffles = isinstance(sampler, DistributedSampler) and sampler.shuffle
        caller = next((frame for frame in frames if frame.f_code.co_filename != __file__), None)
        if shuffles and sampler not in self._told and caller and _is_own(caller):
            name = next((name for name, one in (self._found or {}).items() if one is loader), "the loader")
            self.notes.append(
                f"{self.path} had not called set_epoch of the {type(sampler).__name__} of {name} before its first "
                "epoch: if it never does, all epochs have one order (DG206); guard(loader) sees that while it trains"
            )

    def _made_later(self, frames: Sequence[FrameType]) -> list[tuple[str, Loader]]:
        """The loaders of an evaluation that a trainer on the stack makes only after its first steps."""
        owners = {id(frame.f_locals.get("self")): frame.f_locals.get("self") for frame in frames}
        trainers = [owner for owner in owners.values() if callable(getattr(type(owner), _EVALUATION_MAKER, None))]
        made: list[tuple[str, Loader]] = []
        for trainer in trainers:
            datasets = getattr(trainer, "eval_dataset", None)
            for name in () if datasets is None else datasets if isinstance(datasets, dict) else (None,):
                try:
                    product = getattr(trainer, _EVALUATION_MAKER)(*([] if name is None else [name]))
                except Exception as error:  # noqa: BLE001 - the user's datasets and collate functions may raise anything
                    self.notes.append(f"{_EVALUATION_MAKER}() raised {_summary(error)}: no evaluation is scanned")
                    continue
                role = f"val_{name}" if name else "val"
                made += ((role, loader) for _, loader in parts_of(product) if is_loader(loader))
        return made

    def _held(self, frames: Iterable[FrameType]) -> dict[str, Loader]:
        return _named(_spaces(frames), self._asked, self._made)

    def _steps(self) -> None:
        """Stop before the first step of the training: no loader was asked for what the model got."""
        frames = [frame for frame in _frames() if _is_own(frame)]
        self._found = self._held(frames)
        if not self._found and frames:
            self._trains_at = _unfed(self.path, frames[0])
        self._stop()

    def _stop(self) -> None:
        if os.getpid() != self._process:  # a process that the script has forked
            os._exit(0)
        self._watching.close()  # observations need what was replaced
        outside = getcurrent().parent
        assert outside is not None
        outside.switch()


def script(spelling: str) -> Script:
    """The script of a spelling; always the same one."""
    if spelling not in _scripts:
        path, *arguments = script_of(spelling)
        _scripts[spelling] = Script(path, arguments)
    return _scripts[spelling]


_scripts: dict[str, Script] = {}
_stopped: list[Script] = []
"""Scripts that run once more: what they hold stays, as a script that is freed would be unwound."""


def run_again(spelling: str, here: RankHere, variables: Mapping[str, str]) -> None:
    """Let the script of a spelling run from its start, in this process, which is such a rank.

    It finds the surroundings that it had, and these environment variables, of the rank.
    """
    before = script(spelling)
    _stopped.append(before)
    _scripts[spelling] = before.again(here, variables)


@dataclass(frozen=True, slots=True)
class Start:
    """What a script finds when it starts, and may change: the environment, the folder, and where modules are found."""

    environment: Mapping[str, str]
    folder: str
    path: tuple[str, ...]

    @staticmethod
    def now() -> Start:
        """That of this process."""
        return Start(dict(os.environ), str(Path.cwd()), tuple(sys.path))

    def restore(self, variables: Mapping[str, str]) -> None:
        """Make it that of this process, with some more environment variables."""
        os.environ.clear()
        os.environ.update({**self.environment, **variables})
        os.chdir(self.folder)
        sys.path[:] = self.path


Begin = Callable[[Loader], Iterator[Any]]
"""Begins to iterate a loader: `__iter__` of the class that torch or torchdata defines."""


@contextmanager
def _replaced_iter(passes: Callable[[Loader, Begin | None], Iterator[Any]], made: list[Loader]) -> Iterator[None]:
    """Ask `passes` whenever a loader begins to iterate, and iterate what it returns.

    Those that a library makes are added to `made`.

    So does what makes a loader and is iterated in its place: of accelerate's dispatchers, only one asks the loader.
    """

    def begun(loader: Loader) -> Iterator[Any]:
        return passes(loader, None)

    def beginning(original: Begin) -> Begin:
        return lambda loader: passes(loader, original)

    makers: dict[type, Any] = {}

    def making(original: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(original)
        def init(self: Loader, *args: Any, **kwargs: Any) -> None:
            maker, by_library = _maker(self)
            made.extend([self] * by_library)
            if maker is not None:
                own = makers.setdefault(maker, vars(maker).get("__iter__"))
                changed = begun if own is None else beginning(own)
                setattr(maker, "__iter__", changed)  # noqa: B010 - mypy forbids the plain form
            original(self, *args, **kwargs)

        return init

    with replaced("__iter__", beginning), replaced("__init__", making):
        try:
            yield
        finally:
            for maker, own in makers.items():
                if own is None:
                    delattr(maker, "__iter__")
                else:
                    setattr(maker, "__iter__", own)  # noqa: B010 - as above


def _maker(loader: Loader) -> tuple[type | None, bool]:
    """The type of what makes a loader in its constructor, if that can be iterated; whether a library makes it."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_locals.get("self") is loader:
        frame = frame.f_back
    if frame is None:
        return None, False
    kind = type(frame.f_locals.get("self")) if frame.f_code.co_name == "__init__" else object
    makes = hasattr(kind, "__iter__") and not issubclass(kind, DataLoader | Dataset)
    return kind if makes else None, not _is_own(frame)


@contextmanager
def _before_steps(stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` before a step of any optimizer, and before gradients are computed."""
    backward = torch.autograd.backward

    def before(*_: Any, **__: Any) -> None:
        stop()

    hook = register_optimizer_step_pre_hook(before)
    setattr(torch.autograd, "backward", before)  # noqa: B010 - mypy forbids the plain form
    try:
        yield
    finally:
        hook.remove()
        setattr(torch.autograd, "backward", backward)  # noqa: B010 - as above


@contextmanager
def _epochs_told(told: WeakSet[DistributedSampler[Any]]) -> Iterator[None]:
    """Add the samplers of torch whose `set_epoch` is called."""
    original = DistributedSampler.set_epoch

    @functools.wraps(original)
    def set_epoch(self: DistributedSampler[Any], epoch: int) -> None:
        told.add(self)
        original(self, epoch)

    setattr(DistributedSampler, "set_epoch", set_epoch)  # noqa: B010 - mypy forbids the plain form
    try:
        yield
    finally:
        setattr(DistributedSampler, "set_epoch", original)  # noqa: B010 - as above


def _unfed(path: str, frame: FrameType) -> str:
    """Why there is nothing to scan, and what to name instead: a function beside the step that seems to make batches."""
    variables = {**frame.f_globals, **frame.f_locals}
    makers = [name for name in frame.f_code.co_names if "batch" in name.lower() and callable(variables.get(name))]
    module = Path(frame.f_code.co_filename).stem
    made = f"{module}:{makers[0]}" if makers else "pkg.mod:function"
    return (
        f"{path} trains at {frame.f_code.co_filename}:{frame.f_lineno} without a DataLoader: scan what makes its "
        f"batches, `dataguard scan {made}`: an iterable, or a function without arguments that returns one batch"
    )


def _spaces(frames: Iterable[FrameType]) -> list[Mapping[str, Any]]:
    """The variables of the user's code on the stack, outermost frame first."""
    return [frame.f_locals for frame in reversed(list(frames)) if _is_own(frame)]


def _is_own(frame: FrameType) -> bool:
    return not is_library(frame.f_code.co_filename)


def _lacks_package(error: Exception) -> bool:
    return isinstance(error, ImportError) and "relative import with no known parent" in str(error)


def _summary(error: Exception) -> str:
    """The exception on one line."""
    return f"{type(error).__name__}: {error}".partition("\n")[0]


def _frames() -> Iterator[FrameType]:
    """The stack of the script, innermost frame first."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        yield frame
        frame = frame.f_back


def _evaluates(functions: Iterable[str]) -> bool:
    """Whether the innermost of these functions whose name says what it does evaluates."""
    for name in map(str.lower, functions):
        if any(word in name for word in _EVALUATING):
            return True
        if any(word in name for word in _TRAINING):
            return False
    return False


def _named(
    namespaces: Iterable[Mapping[str, Any]], asked: Iterable[tuple[str, Loader]], made: Sequence[Loader] = ()
) -> dict[str, Loader]:
    """Each loader in these variables once, by the first name it has; those that were asked for a batch, in any case.

    What a library has `made` of a loader that nobody has asked is there in its place, by its name unless it has one.
    """
    held = [pair for space in namespaces for pair in _loaders_in(space)]
    asked = list(asked)
    derived = [loader for _, loader in (*held, *asked) if is_wrapper(loader) or _is_in(made, loader)]
    variables = [loader for _, loader in held]
    loaders: dict[str, Loader] = {}
    for name, variable in (*held, *asked):
        loader = variable
        if not _is_in(derived, loader) and not _is_in([loader for _, loader in asked], loader):
            loader = next((other for other in derived if _reads_the_same(variable, other)), variable)
        is_named_elsewhere = loader is not variable and _is_in(variables, loader)
        if not is_named_elsewhere and not _is_in(loaders.values(), loader):
            number = sum(key.rstrip("0123456789") == name for key in loaders)
            loaders[f"{name}{number + 1}" if name in loaders else name] = loader
    return loaders


def _is_in(loaders: Iterable[Loader], loader: Loader) -> bool:
    return any(loader is other for other in loaders)


def _reads_the_same(loader: Loader, other: Loader) -> bool:
    """Whether two loaders read one dataset in the same way, but for the order."""
    return all(getattr(loader, name) is getattr(other, name, None) for name in ("dataset", "collate_fn", "num_workers"))


def _loaders_in(space: Mapping[str, Any]) -> Iterator[tuple[str, Loader]]:
    """Loaders among variables, in their dicts and lists, and in the attributes of their objects."""
    for name, value in list(space.items()):
        if _is_read(value):
            yield name, value
        elif isinstance(value, dict) and len(value) < _MOST_ENTRIES:
            yield from ((str(key), item) for key, item in list(value.items()) if _is_read(item))
        elif isinstance(value, list | tuple) and len(value) < _MOST_ENTRIES:
            yield from ((name, item) for item in value if _is_read(item))
        elif not isinstance(value, type | ModuleType):
            yield from ((key, item) for key, item in list(getattr(value, "__dict__", {}).items()) if _is_read(item))


def _is_read(value: Any) -> bool:
    """Whether training may read it: a loader, or what holds one and is iterated in its place."""
    return is_loader(value) or is_wrapper(value)
