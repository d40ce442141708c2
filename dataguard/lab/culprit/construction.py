"""Where the user's factory makes the parts of a loader, seen in one more call of it.

A helper may only hand on what it is given: `def loader(paths): return DataLoader(Files(paths))`. The place is then the
line that decides it, further out: where the blamed argument is made, or passed in.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any

from torch.utils.data import DataLoader, Dataset, Sampler

from dataguard.core.incident import is_library
from dataguard.lab.core.loader_facts import by_type, wrapped_by
from dataguard.lab.core.object_graph import reachable
from dataguard.lab.core.source_location import Place, file_tree, source_tree, targets_of
from dataguard.targets.discovery import BatchStream
from dataguard.targets.variants import Loader, unwrapped

Blamed = Callable[[str, Any], bool]
"""Whether an argument, by its name and value, is to blame."""


def selects(name: str, value: Any) -> bool:
    """Whether an argument lists samples: files, indices, rows."""
    del name
    return not isinstance(value, str | bytes | dict | Dataset | Sampler | type) and hasattr(value, "__len__")


def transforms(name: str, value: Any) -> bool:
    """Whether an argument is a function or an object that is called with samples."""
    del name
    return callable(value) and not isinstance(value, type | Dataset | Sampler)


@dataclass(frozen=True, slots=True, eq=False)
class _Call:
    """One call on the stack: where it is now, its code, and what it was called with."""

    place: Place
    code: CodeType
    instruction: int
    arguments: Mapping[str, Any]
    variables: Mapping[str, Any]


class Constructions:
    """Notes who constructs objects of the classes of some parts while the factory runs in this disposable process."""

    def __init__(self, parts: Iterable[Any]) -> None:
        self._kinds = {_kind(part) for part in parts}
        self._made: dict[int, tuple[Any, list[_Call], Mapping[str, Any]]] = {}

    @contextlib.contextmanager
    def noted(self) -> Iterator[None]:
        """Note what is constructed in this thread meanwhile."""
        before = sys.getprofile()
        sys.setprofile(self._called)
        try:
            yield
        finally:
            sys.setprofile(before)

    def line(self, part: Any) -> Place | None:
        """The line that constructs an object."""
        _, calls, _ = self._made.get(id(part), _UNSEEN)
        return calls[0].place if calls else None

    def place(self, part: Any, blamed: Blamed) -> Place | None:
        """The line that constructs an object, or that decides the blamed arguments of its constructor."""
        _, calls, given = self._made.get(id(part), _UNSEEN)
        values = [value for name, value in given.items() if blamed(name, value)]
        return _deciding(calls, lambda name, value: blamed(name, value) and any(value is one for one in values), given)

    def deciding_place(self, part: Any, inner: Iterable[Any], *, follow: bool) -> Place | None:
        """The line that constructs an object, or gives what is to hold one of the `inner` ones, alone or in a list.

        `follow`: to the line that assigns the variable which holds it.
        """
        _, calls, _ = self._made.get(id(part), _UNSEEN)
        known = {id(one) for one in inner}

        def is_handed_on(name: str, value: Any) -> bool:
            del name
            return any(id(one) in known for one in (value, *(value if isinstance(value, list | tuple) else ())))

        if follow:
            return _deciding(calls, is_handed_on)
        return _decided(calls, is_handed_on).place if calls else None

    def has(self, part: Any) -> bool:
        """Whether it was seen to be constructed."""
        return id(part) in self._made

    def _called(self, frame: FrameType, event: str, argument: Any) -> None:
        del argument
        code = frame.f_code
        if event != "call" or code.co_name != "__init__" or not code.co_argcount:
            return
        made = frame.f_locals[code.co_varnames[0]]
        if _kind(made) in self._kinds and id(made) not in self._made:  # the outermost `__init__` comes first
            if isinstance(made, Sampler) and _is_made_by_loader(frame.f_back):
                return
            given = dict(arguments_of(frame))
            given.pop(code.co_varnames[0], None)
            self._made[id(made)] = (made, list(_calls(frame.f_back)), given)


def _is_made_by_loader(frame: FrameType | None) -> bool:
    """Whether the constructor of torch's loader made this: then the line to change is that of the loader."""
    while frame is not None and is_library(frame.f_code.co_filename):
        if frame.f_code.co_name == "__init__" and isinstance(frame.f_locals.get("self"), DataLoader):
            return True
        frame = frame.f_back
    return False


_UNSEEN: tuple[Any, list[_Call], Mapping[str, Any]] = (None, [], {})


def parts_of(loader: Loader) -> dict[str, Any]:
    """The loader, its sampler, its dataset and the datasets in that, by their paths."""
    samplers = {name: unwrapped(getattr(loader, name, None)) for name in ("batch_sampler", "sampler")}
    inner = getattr(samplers["batch_sampler"], "sampler", None)
    samplers |= {"batch_sampler.sampler": unwrapped(inner)}
    named = {name: part for name, part in samplers.items() if part is not None}
    source = loader.dataset.source if isinstance(loader.dataset, BatchStream) else None
    yielding = {} if source is None else {"dataset.source": source}
    return {"loader": loader, **named, **dict(wrapped_by(loader.dataset, by_type)), **yielding}


def _kind(part: Any) -> tuple[str, str]:
    """The name of a class, or of that of an object: its object differs after its module was imported again."""
    kind = part if isinstance(part, type) else DataLoader if isinstance(part, DataLoader) else type(part)
    return kind.__module__, kind.__qualname__


def places_of_construction(
    build: Callable[[], Loader] | None, kinds: Mapping[str, type]
) -> Mapping[str, tuple[str, int]]:
    """The lines of the user's code that make the objects at these paths, from one more call of the factory.

    Without a factory that can be called again, the only line of the user's files that calls each class.
    """
    if build is None:
        written = {path: place_in_source(kind) for path, kind in kinds.items()}
        return {path: place for path, place in written.items() if place is not None}
    notes = Constructions(kinds.values())
    with notes.noted():
        loader = build()
    nodes = reachable({"dataset": loader.dataset, "collate_fn": loader.collate_fn}, notes.has, enter=True)
    return {node.path: place[:2] for node in nodes if (place := notes.line(node.value)) is not None}


def place_in_source(kind: type) -> tuple[str, int] | None:
    """The only line of the user's files that calls a class; None if several do, one of which made the object, or none.

    Of a class that none of them has by a name of its own, calls in functions count, which may import it.
    """
    found = set()
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if type(file) is str and not is_library(file):
            names = vars(module)
            ran = [part for part in file_tree(file).body if not _is_of_script(part) or names["__name__"] == "__main__"]
            calls = (node for part in ran for node in ast.walk(part) if isinstance(node, ast.Call))
            found |= {(file, node.lineno) for node in calls if _is_call_of(node, kind, names)}
    return found.pop() if len(found) == 1 else None


def _is_of_script(part: ast.stmt) -> bool:
    """Whether a statement runs only if its file is the script: `if __name__ == "__main__"`."""
    return isinstance(part, ast.If) and any(
        isinstance(node, ast.Name) and node.id == "__name__" for node in ast.walk(part.test)
    )


def _is_call_of(node: ast.Call, kind: type, names: Mapping[str, Any]) -> bool:
    """Whether an expression calls this class, by what its first name is in a module."""
    first, *rest = ast.unparse(node.func).split(".")
    if first not in names:
        return [first, *rest][-1] == kind.__name__
    value = names[first]
    for name in rest:
        value = inspect.getattr_static(value, name, None)
    return isinstance(value, type) and _kind(value) == _kind(kind)


def _calls(frame: FrameType | None) -> Iterator[_Call]:
    """The calls of the user's functions on the stack, innermost first."""
    while frame is not None:
        code = frame.f_code
        if not is_library(code.co_filename):
            place = (code.co_filename, frame.f_lineno, code.co_name)
            yield _Call(place, code, frame.f_lasti, dict(arguments_of(frame)), dict(frame.f_locals))
        frame = frame.f_back


def arguments_of(frame: FrameType) -> Iterator[tuple[str, Any]]:
    """What a function was called with, by name; what `*args` and `**kwargs` collect one by one."""
    code, variables = frame.f_code, frame.f_locals
    count = code.co_argcount + code.co_kwonlyargcount
    for name in code.co_varnames[:count]:
        if name in variables:
            yield name, variables[name]
    for flag in (inspect.CO_VARARGS, inspect.CO_VARKEYWORDS):
        if code.co_flags & flag:
            collected = variables.get(code.co_varnames[count], ())
            count += 1
            yield from (
                collected.items() if isinstance(collected, dict) else ((f"*{n}", v) for n, v in enumerate(collected))
            )


def decided_outside(frame: FrameType | None, blamed: Blamed) -> Place | None:
    """Where a function is called that was given what is to blame, and only hands it on; None if this one was not.

    A constructor hands nothing on: it keeps what it makes.
    """
    calls = list(_calls(frame))
    if not calls or calls[0].code.co_name == "__init__":
        return None
    call = _decided(calls, blamed)
    return call.place if call is not calls[0] else None


def _decided(calls: list[_Call], blamed: Blamed) -> _Call:
    return next((call for call in calls if not any(blamed(*one) for one in call.arguments.items())), calls[-1])


def _deciding(calls: list[_Call], is_handed_on: Blamed, given: Mapping[str, Any] | None = None) -> Place | None:
    """The line further out that decides what is handed on: that which assigns its variable, if there is one.

    `given` is what the constructor itself was called with.
    """
    if not calls:
        return None
    call = _decided(calls, is_handed_on)
    inner = given if call is calls[0] else calls[calls.index(call) - 1].arguments
    names = [name for name, value in call.variables.items() if is_handed_on(name, value)]
    names = names or list(_converted(call, is_handed_on, inner or {}))
    file, line, function = call.place
    return file, _line_of_variable(call.code, names, line) or line, function


def _converted(call: _Call, is_handed_on: Blamed, given: Mapping[str, Any]) -> Iterator[str]:
    """The variables that a call converts for the blamed argument: `rows` of `Subset(data, rows.tolist())`.

    What is as long has all of its entries; an index or a function of the user's may have chosen others.
    """
    node = _node_of(call)
    names = [name for name in given if name != "self"]
    for position, name in enumerate(names):
        if node is None or not is_handed_on(name, given[name]):
            continue
        expressions = [*node.args[position : position + 1], *(one.value for one in node.keywords if one.arg == name)]
        for expression in expressions:
            parts = list(ast.walk(expression))
            used = [one.id for one in parts if isinstance(one, ast.Name) and one.id in call.variables]
            if all(isinstance(one, _CONVERSION) for one in parts) and not any(
                callable(call.variables[one]) for one in used
            ):
                yield from (one for one in used if _length(call.variables[one]) == _length(given[name]))


_CONVERSION = (ast.Call, ast.Attribute, ast.Name, ast.expr_context)
"""The parts of an expression that calls functions, and selects nothing itself."""


def _length(value: Any) -> int | None:
    try:
        return len(value)
    except Exception:  # noqa: BLE001 - a value of the user's that has no length
        return None


def _node_of(call: _Call) -> ast.Call | None:
    """The expression that is called there; None before Python 3.11, or if its source is not there."""
    positions = list(getattr(call.code, "co_positions", list)())
    number = call.instruction // 2
    if number >= len(positions):
        return None
    wanted = positions[number]
    return next(
        (
            node
            for node in ast.walk(file_tree(call.place[0]))
            if isinstance(node, ast.Call)
            and (node.lineno, node.end_lineno, node.col_offset, node.end_col_offset) == wanted
        ),
        None,
    )


def _line_of_variable(code: CodeType, names: list[str], before: int) -> int | None:
    """The last line of a function, before another one, that assigns any of these variables; None if it is unknown."""
    source = source_tree(code)
    if source is None:
        return None
    tree, first = source
    offset = first - 1 if code.co_name != "<module>" else 0
    found = [
        node.lineno + offset
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign | ast.AnnAssign) and names and _assigns(node, names)
    ]
    return max((line for line in found if line < before), default=None)


def _assigns(node: ast.Assign | ast.AnnAssign, names: list[str]) -> bool:
    written = (one.id for target in targets_of(node) for one in ast.walk(target) if isinstance(one, ast.Name))
    return any(name in names for name in written)


def place_of_part(
    build: Callable[[], Loader],
    again: Callable[[], Loader] | None,
    chosen: Callable[[Mapping[str, Any]], Iterable[str]],
    blamed: Blamed,
) -> tuple[str, Place] | None:
    """The first of the chosen parts of a loader whose construction is seen when it is built again, and the place.

    If it cannot be built again, the only line of the user's files that calls the class of that part.
    """
    made = parts_of(build())
    if again is None:
        kinds = {path: type(made[path]) for path in chosen(made) if path in made}
        return next(((path, (*at, path)) for path, at in places_of_construction(None, kinds).items()), None)
    notes = Constructions(made.values())
    with notes.noted():
        parts = parts_of(again())
    for path in chosen(parts):
        place = notes.place(parts.get(path), blamed)
        if place is None and isinstance(parts.get(path), list | tuple):  # made by no call
            place = notes.deciding_place(parts["loader"], [parts[path]], follow=True)
        if place is not None:
            return path, place
    return None


def line_that_shares(again: Callable[[], tuple[Loader, Loader]]) -> Place | None:
    """Where the first of two loaders is given its dataset, if the other one reads that, too; None if it does not."""
    notes = Constructions([DataLoader])
    with notes.noted():
        own, other = again()
    held = reachable({"dataset": other.dataset}, lambda value: value is own.dataset, enter=True)
    return notes.deciding_place(own, [own.dataset], follow=False) if any(True for _ in held) else None
