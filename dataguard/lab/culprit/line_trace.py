"""Follows values line by line through the user's code, while one sample is read.

A `measure` says in what state an array is, such as which value stands for white. Each array that the user's functions
hold is measured when it first appears, and again if it was written to: a `Look`. Library code is not followed, but for
transforms: what a transform returns is looked at, too, with the path of the object. So a pipeline that is called in one
line of the user's code is resolved.
"""

from __future__ import annotations

import ast
import dis
import inspect
import math
import sys
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache
from types import CodeType, FrameType
from typing import Any, TypeVar

import numpy as np
import torch
from xxhash import xxh3_64_intdigest

from dataguard.core.incident import is_library
from dataguard.core.model import Location
from dataguard.lab.core.leaves import array_of, is_pillow, numbers_of
from dataguard.lab.core.object_graph import reachable
from dataguard.lab.core.source_location import Place, file_tree
from dataguard.lab.culprit.construction import places_of_construction
from dataguard.process.originals import time

Measure = Callable[[np.ndarray], Hashable]
"""The state of an array; None of one that is not followed."""

MOST_ENTRIES = 16
"""Entries of a list or dictionary that are looked at: fields of a sample, and not a data set."""
COMPARED_VALUES = 1024
"""Values of an array, evenly spaced, by which it is recognized whether it was written to."""
MOST_SECONDS = 2.0
"""CPU time for which a state is looked at line by line: other processes must not decide what is found."""
MOST_LOOKS = 4096
"""Looks that are kept: a sample that takes more is made in a loop."""
MOST_DROPPED = 64
"""Lines that drop their results and are kept: few that do so handle a sample."""
QUICK_FACTORY = 1.0
"""Seconds of a factory that is called once more to see where it makes transforms: a finding takes two at most."""
_CALLS = ("__call__", "forward")
"""The methods of a transform."""


@dataclass(frozen=True, slots=True)
class Traced:
    """A line of the user's code, and the variable of this `name` after it.

    Of a library's transform, `name` is the path of the object, such as `dataset.transform.transforms[2]`. The line is
    then where that is made, if `exact`, or else where it is called; `places_of_construction` says where it is made.
    """

    file: str
    line: int
    function: str
    name: str
    exact: bool

    @property
    def location(self) -> Location:
        """The line, and what it belongs to; the path alone of a transform that only library code makes and calls."""
        if is_library(self.file):
            return Location(what=self.name)
        return Location(
            self.file, self.line, self.function if self.exact else f"{self.function}, which calls {self.name}"
        )

    def made_at(self: AnyTraced, place: tuple[str, int] | None) -> AnyTraced:
        """What a library's transform did, at the line that makes it, if that is known."""
        return self if place is None else replace(self, file=place[0], line=place[1], function=self.name, exact=True)


Call = tuple[int, str, int, str]
"""The number of a call of a user's function, and the file, line and function where it is now."""


@dataclass(frozen=True, slots=True)
class Look(Traced):
    """A value is in this state after a line; `calls` are those that the line runs in, the outermost first."""

    state: Hashable
    calls: tuple[Call, ...] = ()


@dataclass(frozen=True, slots=True)
class Given:
    """A call of a user's function: the number of the call it is made in, and the positions of the looks it is given."""

    by: int
    code: CodeType
    looks: tuple[int, ...]


AnyTraced = TypeVar("AnyTraced", bound=Traced)


def in_call(look: Look, call: int) -> Look:
    """A look, in the line of an outer call that it runs in."""
    at = next(position for position, outer in enumerate(look.calls) if outer[0] == call)
    _, file, line, function = look.calls[at]
    return replace(look, file=file, line=line, function=function, exact=True, calls=look.calls[: at + 1])


def numbered(looks: Sequence[Look]) -> dict[tuple[str, int, str, int], Look]:
    """Looks by their place and name, and how often these occurred before."""
    found: dict[tuple[str, int, str, int], Look] = {}
    times: dict[tuple[str, int, str], int] = {}
    for look in looks:
        key = look.file, look.line, look.name
        times[key] = times.get(key, -1) + 1
        found[(*key, times[key])] = look
    return found


class LineTrace:
    """Follows the arrays of the user's code in this disposable process; `roots` lead to its transforms.

    `plain`: numbers and strings are followed as well. `dropping`: lines that use no result are kept for `dropped`.
    `resumed`: generators that were started before are followed, too; else, the line counts that resumes one.
    """

    def __init__(
        self,
        measure: Measure,
        roots: Mapping[str, Any],
        seconds: float = math.inf,
        *,
        plain: bool = False,
        dropping: bool = False,
        resumed: bool = True,
    ) -> None:
        self.looks: list[Look] = []
        self.is_cut = False
        """Whether it ended after so many seconds, before what it followed."""
        self.kinds: dict[str, type] = {}
        """The classes of the transforms that were called, by their paths."""
        self.given: dict[int, Given] = {}
        """What the user's functions were called with, by the number of the call."""
        self._measure = measure
        self._plain = plain
        self._dropping = dropping
        self._resumed = resumed
        self._started: set[FrameType] = set()
        self._dropped: list[tuple[str, FrameType, Mapping[str, Any], tuple[Call, ...]]] = []
        self._seconds = seconds
        self._end = math.inf
        self._base: FrameType | None = None
        self._lines: dict[FrameType, int] = {}
        self._numbers: dict[FrameType, int] = {}
        self._count = 0
        self._measured: dict[Hashable, int] = {}
        self._last: dict[int, int] = {}
        self._kept: list[Any] = []  # so that no other object gets the same `id`
        self._roots = roots

    @cached_property
    def _transforms(self) -> dict[int, str]:
        """The paths of the transforms, by their identity; a sample may be read without any."""
        return {id(node.value): node.path for node in reachable(self._roots, _is_transform, enter=True)}

    @contextmanager
    def following(self) -> Iterator[None]:
        """Follow what runs in this thread meanwhile."""
        self._base = sys._getframe(2)  # the frame of the `with`, below this one and `contextlib`
        self._end = min(self._end, time.thread_time() + self._seconds)
        try:
            with tracing(self._called):
                yield
        finally:
            self._base = None
            self._lines.clear()
            self._numbers.clear()
            self._started.clear()

    def _called(self, frame: FrameType, event: str, argument: Any) -> Callable[..., Any] | None:
        del event, argument
        code = frame.f_code
        if time.thread_time() > self._end:
            self.is_cut = True
            return None
        if not is_library(code.co_filename):
            if not self._resumed and self._was_started(frame):
                return None
            self._lines[frame] = frame.f_lineno
            self._count += 1
            self._numbers[frame] = self._count
            self._entered(frame)
            return self._in_own
        if (
            code.co_name in _CALLS
            and _is_transform(held := frame.f_locals.get("self"))
            and id(held) in self._transforms
        ):
            frame.f_trace_lines = False
            return self._in_transform
        return None

    def _was_started(self, frame: FrameType) -> bool:
        """Whether this is a generator that ran before it was followed: it is a state that advances."""
        if not frame.f_code.co_flags & inspect.CO_GENERATOR or frame in self._started:
            return False
        if frame.f_lasti > _start_of(frame.f_code):
            return True
        self._started.add(frame)
        return False

    def _entered(self, frame: FrameType) -> None:
        """Look at arguments, which the calling line of the user's code computes; those of a library are given."""
        for _, value in _arrays_of(frame.f_locals.get("self")):  # what an object holds is no result of a line
            self._is_new(value, id(value))
        calling = next(self._own_frames(frame.f_back), None)
        values = list(self._values_of(frame))
        for name, value in values:
            if calling is not None:
                self._look(value, calling, name)
            else:
                self._is_new(value, self._key_of(value, frame, name))
        if calling is not None and calling in self._numbers:
            looks = (self._last.get(id(value)) for _, value in values)
            by, own = self._numbers[calling], self._numbers[frame]
            self.given[own] = Given(by, frame.f_code, tuple(number for number in looks if number is not None))

    def _in_own(self, frame: FrameType, event: str, argument: Any) -> Callable[..., Any] | None:
        if time.thread_time() > self._end:
            self.is_cut = True
            return None
        self._left(frame, event, argument)
        if event == "return":
            self._lines.pop(frame, None)
            self._numbers.pop(frame, None)
        else:
            self._lines[frame] = frame.f_lineno
        return self._in_own

    def _left(self, frame: FrameType, event: str, argument: Any) -> None:
        """Look at what a line has left, and at what its function returns."""
        # Python 3.12 runs comprehensions in the frame around them, which holds the result after the line.
        returns = event == "return" and frame.f_code.co_name not in _COMPREHENSIONS
        returned = self._parts_of("return", argument) if returns else ()
        for name, value in [*self._values_of(frame), *returned]:
            self._look(value, frame, name)
        if self._dropping and event != "exception":
            self._keep_dropped(frame)

    def _keep_dropped(self, frame: FrameType) -> None:
        """Keep the variables of a line that computes something of an array, and neither assigns nor returns it."""
        text, names = _unused_results(frame.f_code.co_filename).get(self._lines[frame], ("", ()))
        used = (held for name in names for _, held in _entries(frame.f_locals.get(name)))
        if len(self._dropped) < MOST_DROPPED and any(map(_is_array, used)):
            calls = tuple(map(self._call_of, self._own_frames(frame)))[::-1]
            self._dropped.append((text, frame, dict(frame.f_locals), calls))

    def dropped(self) -> Iterator[Look]:
        """Looks at results that lines compute and drop, such as `cv2.flip(mask, 1)`.

        They are computed once more, after everything else: what that changes is of no use to anybody.
        """
        for text, frame, variables, calls in self._dropped:
            with suppress(Exception):
                value = eval(text, frame.f_globals, dict(variables))
                for step, held in self._parts_of("", value):
                    state = None if any(held is one for one in variables.values()) else self._state_of(held)
                    if state is not None and calls:
                        _, file, line, function = calls[-1]
                        yield Look(file, line, function, step, True, state, calls)

    def _in_transform(self, frame: FrameType, event: str, argument: Any) -> Callable[..., Any]:
        if event == "return":
            transform = frame.f_locals["self"]
            path = self._transforms[id(transform)].replace("._original", "")  # as without the stand-ins of readers
            self.kinds[path] = type(transform)
            calling = next(self._own_frames(frame.f_back), frame)
            exact = calling is not frame and _is_given_text(frame)
            for _, value in self._parts_of("", argument):
                self._look(value, calling, path, exact=exact)
        return self._in_transform

    def _own_frames(self, frame: FrameType | None) -> Iterator[FrameType]:
        """The frames of the user's code that is followed, from this one outwards."""
        while frame is not None and frame is not self._base:
            if not is_library(frame.f_code.co_filename):
                yield frame
            frame = frame.f_back

    def _look(self, value: Any, frame: FrameType, name: str, *, exact: bool = True) -> None:
        if len(self.looks) >= MOST_LOOKS or not self._is_new(value, self._key_of(value, frame, name)):
            return
        try:
            state = self._state_of(value)
        except Exception:  # noqa: BLE001 - a type of tensor that cannot be converted is not followed
            return
        if state is not None:
            calls = tuple(map(self._call_of, self._own_frames(frame)))[::-1]
            _, file, line, function = calls[-1] if calls else self._call_of(frame)
            self._last[id(value)] = len(self.looks)
            self.looks.append(Look(file, line, function, name, exact, state, calls))

    def _call_of(self, frame: FrameType) -> Call:
        line = self._lines.get(frame, frame.f_lineno)
        return self._numbers.get(frame, 0), frame.f_code.co_filename, line, _function_of(frame)

    def _is_new(self, value: Any, key: Hashable) -> bool:
        """Whether a value was not seen before with this content."""
        content = self._content_of(value)
        if content is None or self._measured.get(key) == content:
            return False
        self._measured[key] = content
        self._kept.append(value)
        return True

    def _values_of(self, frame: FrameType) -> Iterator[tuple[str, Any]]:
        """What locals of a function hold, and attributes of its object."""
        for name, value in list(frame.f_locals.items()):
            if name == "self":
                yield from ((f"self{step}", held) for step, held in _arrays_of(value))
            else:
                yield from self._parts_of(name, value)

    # What is followed is said by these, which `ValueTrace` replaces.

    def _parts_of(self, name: str, value: Any) -> Iterator[tuple[str, Any]]:
        return ((name + step, held) for step, held in _entries(value))

    def _key_of(self, value: Any, frame: FrameType, name: str) -> Hashable:
        return (self._numbers.get(frame), name) if self._is_plain(value) else id(value)

    def _content_of(self, value: Any) -> int | None:
        return hash(repr(value)) if self._is_plain(value) else content_of(value)

    def _state_of(self, value: Any) -> Hashable | None:
        return self._measure(array_of(numbers_of(value)))

    def _is_plain(self, value: Any) -> bool:
        return self._plain and isinstance(value, str | bytes | int | float | np.generic)


def _is_transform(value: Any) -> bool:
    """Whether this is a library's object that is called with samples."""
    kind: Any = type(value)
    return not isinstance(value, type) and callable(value) and _is_of_library(kind)


@cache
def _is_of_library(kind: type) -> bool:
    """Whether a class is one of an installed package, but numpy."""
    if not is_library(getattr(sys.modules.get(kind.__module__), "__file__", None) or "<"):
        return False
    return kind.__module__.partition(".")[0] not in {*sys.stdlib_module_names, "numpy", "dataguard"}


def _is_given_text(frame: FrameType) -> bool:
    """Whether a transform is called with strings: what it makes of them depends on the line that calls it."""
    code = frame.f_code
    first = frame.f_locals.get(code.co_varnames[1]) if code.co_argcount > 1 else None
    return isinstance(first[0] if isinstance(first, list | tuple) and first else first, str)


def _function_of(frame: FrameType) -> str:
    """The name of a function; a comprehension belongs to the function around it."""
    name = frame.f_code.co_name
    while name in _COMPREHENSIONS and frame.f_back is not None:
        frame = frame.f_back
        name = frame.f_code.co_name
    return name


_COMPREHENSIONS = frozenset({"<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>"})


def _entries(value: Any, depth: int = 2) -> Iterator[tuple[str, Any]]:
    """What is in a list or dictionary, and in those that it holds: a batch of samples, or lists of their fields."""
    if isinstance(value, dict):
        items = list(value.items())[:MOST_ENTRIES]
    elif isinstance(value, list | tuple):
        items = list(enumerate(value[:MOST_ENTRIES]))
    else:
        yield "", value
        return
    for key, item in items:
        inner = _entries(item, depth - 1) if depth > 1 else [("", item)]
        yield from ((f"[{key!r}]{step}", held) for step, held in inner)


def _start_of(code: CodeType) -> int:
    """The instruction at which a generator is when it is first resumed."""
    return next((one.offset for one in dis.get_instructions(code) if one.opname == "RESUME"), -1)


@lru_cache(maxsize=256)
def _unused_results(file: str) -> Mapping[int, tuple[str, tuple[str, ...]]]:
    """The expressions of a file that call or select something and whose results are not used, by their lines.

    Each with the names that it uses.
    """
    values = (node.value for node in ast.walk(file_tree(file)) if isinstance(node, ast.Expr))
    return {
        line: (ast.unparse(value), tuple(one.id for one in ast.walk(value) if isinstance(one, ast.Name)))
        for value in values
        if isinstance(value, ast.Call | ast.Subscript)
        for line in range(value.lineno, (value.end_lineno or value.lineno) + 1)
    }


def _arrays_of(value: Any) -> Iterator[tuple[str, Any]]:
    """The arrays that are attributes of an object."""
    with suppress(Exception):  # an object of the user's may refuse to be inspected
        for name, held in list(vars(value).items()):
            if _is_array(held):
                yield f".{name}", held


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray | torch.Tensor) or is_pillow(value)


def content_of(value: Any) -> int | None:
    """A number for some values of an array, an image or a table of numbers; None of anything else."""
    try:
        if is_pillow(value):
            value = np.asarray(value)
        if isinstance(value, torch.Tensor):
            value = value.detach().numpy()
        elif hasattr(type(value), "columns") and hasattr(type(value), "to_numpy"):  # a table of pandas or polars
            value = numbers_of(value).to_numpy()
        if not isinstance(value, np.ndarray) or not value.size or value.dtype == object:
            return None
        flat = value.reshape(-1)[:: max(value.size // COMPARED_VALUES, 1)]
        return xxh3_64_intdigest(f"{value.shape}{value.dtype}".encode() + np.ascontiguousarray(flat).tobytes())
    except Exception:  # noqa: BLE001 - tensors of other devices or layouts
        return None


def _parts(loader: Any) -> dict[str, Any]:
    return {"dataset": loader.dataset, "collate_fn": loader.collate_fn}


def placed(look: Look | None, loader: Any, build: Callable[[], Any] | None) -> Traced | None:
    """A line as plain data; a transform, or else a library's collate_fn, is placed where the factory makes it."""
    if look is not None:
        traced = Traced(look.file, look.line, look.function, look.name, look.exact)
        if traced.exact:
            return traced
        kind = next(
            (type(node.value) for node in reachable(_parts(loader), _is_transform) if node.path == look.name), None
        )
        return traced.made_at(places_of_construction(build, {look.name: kind}).get(look.name)) if kind else traced
    collate = loader.collate_fn
    if not _is_transform(collate):
        return None
    place = places_of_construction(build, {"collate_fn": type(collate)}).get("collate_fn")
    return place and Traced(*place, "collate_fn", type(collate).__name__, exact=True)


def line_of_difference(run: Callable[[], object], roots: Mapping[str, Any]) -> Place | None:
    """The first line of the user's code after which a value differs, of two runs one after the other."""
    traces = [LineTrace(content_of, roots, plain=True, resumed=False) for _ in range(2)]
    for trace in traces:
        with trace.following():
            run()
    look = first_unlike(*(trace.looks for trace in traces))
    return (look.file, look.line, look.function) if look else None


def first_unlike(one: Sequence[Look], other: Sequence[Look]) -> Look | None:
    """The first look whose state differs in the other run, or that has none there: a branch was taken before."""
    others = numbered(other)
    differing = (look for key, look in numbered(one).items() if key not in others or others[key].state != look.state)
    return next(differing, None)


def line_of_change(run: Callable[[], object], state: Callable[[], Hashable]) -> Place | None:
    """The first line of the user's code after which a state differs, while something runs.

    None if there is none within `MOST_SECONDS`.
    """
    trace = _ChangeTrace(state)
    with trace.following():
        run()
    return trace.place


class _ChangeTrace(LineTrace):
    """Follows lines, and no values: it ends with the first line after which a state differs."""

    def __init__(self, state: Callable[[], Hashable]) -> None:
        super().__init__(lambda _: None, {}, MOST_SECONDS)
        self.place: Place | None = None
        self._state = state
        self._before = state()

    def _entered(self, frame: FrameType) -> None:
        """Compare after the line so far that calls this function."""
        calling = next(self._own_frames(frame.f_back), None)
        if calling is not None:
            self._left(calling, "line", None)

    def _left(self, frame: FrameType, event: str, argument: Any) -> None:
        del event, argument
        if self.place is None and self._state() != self._before:
            self.place = self._call_of(frame)[1:]
            sys.settrace(None)


def caller_of(called: Any, run: Callable[[], object]) -> Place | None:
    """The line of the user's code that first calls a function, or the method of an object, while something runs."""
    places: list[Place] = []
    code = getattr(called, "__code__", None)

    def entered(frame: FrameType, event: str, argument: Any) -> None:
        del event, argument
        is_method = frame.f_code.co_name in _CALLS and frame.f_locals.get("self") is called
        if not is_method and frame.f_code is not code:
            return
        outer = frame.f_back
        while outer is not None and is_library(outer.f_code.co_filename):
            outer = outer.f_back
        if outer is not None:
            places.append((outer.f_code.co_filename, outer.f_lineno, _function_of(outer)))
            sys.settrace(None)

    with suppress(Exception), tracing(entered):
        run()
    return next(iter(places), None)


def line_only_in(run: Callable[[], object], usual: Callable[[], object]) -> Place | None:
    """The first line of the user's code that runs in `run` and not in `usual`: where an error is caught, say.

    Without one, as where `contextlib.suppress` stands around a block, it is the line that catches an error only there.
    A function that ends with an `Exception` does not count, since it only passes the error on. What ends the whole run
    is no `Exception`, and may be raised here.
    """
    found, usually = _executed(run), _executed(usual)
    pairs = zip(found, map(set, usually), strict=True)
    return next((place for places, known in pairs for place in places if place not in known), None)


_RETURNS = frozenset(map(dis.opmap.get, ("RETURN_VALUE", "RETURN_CONST", "YIELD_VALUE")))
"""The instructions at which a function returns; at any other one, an exception ends it."""


def _executed(run: Callable[[], object]) -> tuple[list[Place], list[Place]]:
    """The lines of the user's code that run, in order, without those of functions that end with an `Exception`.

    Also those at which a function continues after an `Exception`.
    """
    lines: list[tuple[FrameType, Place]] = []
    catching: list[tuple[FrameType, Place]] = []
    raising: set[FrameType] = set()
    failed: set[FrameType] = set()
    ending = False

    def called(frame: FrameType, event: str, argument: Any) -> Callable[..., Any] | None:
        del event, argument
        return None if is_library(frame.f_code.co_filename) else in_own

    def in_own(frame: FrameType, event: str, argument: Any) -> Callable[..., Any]:
        nonlocal ending
        if event == "line" and len(lines) < MOST_LOOKS:
            code = frame.f_code
            place = (code.co_filename, frame.f_lineno, getattr(code, "co_qualname", code.co_name))
            lines.append((frame, place))
            if frame in raising:
                raising.discard(frame)
                catching.append((frame, place))
        if event == "exception":
            raising.add(frame)
            ending = ending or not issubclass(argument[0], Exception)
        if event == "return" and not ending and frame.f_code.co_code[frame.f_lasti] not in _RETURNS:
            failed.add(frame)
        return in_own

    with suppress(BaseException), tracing(called):  # what ends the run is known
        run()
    lasting = [[place for frame, place in places if frame not in failed] for places in (lines, catching)]
    return lasting[0], lasting[1]


@contextmanager
def tracing(called: Callable[..., Any]) -> Iterator[None]:
    """Trace the functions that are called in this thread."""
    usual = sys.gettrace()
    sys.settrace(called)
    try:
        yield
    finally:
        sys.settrace(usual)
