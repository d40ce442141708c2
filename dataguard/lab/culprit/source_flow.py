"""Where the user's source says what a sampler or a stream yields, how long it is, and what its state is.

What is observed is that samples are lost, doubled or miscounted. The line that does so is not seen when it runs: it
lacks something. So it is looked for in the source of the classes that ran.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any

from dataguard.lab.core.source_location import Place, is_own, source_tree, targets_of

SELECTING = {"islice", "compress", "takewhile", "dropwhile", "filter"}
"""Functions that leave out some of what they iterate over."""
LIMITING = {"min", "clip", "clamp"}
"""Functions that keep an index inside its range."""
BATCH_SIZE = re.compile(r"_*(\w*batch\w*|bs|bsz)")
"""Names of what may be the size of a batch, if it has its value."""
_DEEPEST = 8
"""How many functions are followed into."""


@dataclass(frozen=True, slots=True)
class Method:
    """A method of the user's, its source, and the classes that come after its own."""

    function: FunctionType
    tree: ast.FunctionDef
    owner: type
    later: tuple[type, ...]

    def at(self, node: ast.AST) -> Place:
        """The place of a part of it."""
        code = self.function.__code__
        line = code.co_firstlineno + getattr(node, "lineno", 1) - 1
        return code.co_filename, line, f"{self.owner.__name__}.{self.function.__name__}"

    def nodes(self, *kinds: type[ast.AST]) -> list[Any]:
        """Its parts of these kinds by line, those of functions inside it left out."""
        found = [node for node in _inside(self.tree) if isinstance(node, kinds)]
        return sorted(found, key=lambda node: getattr(node, "lineno", 0))


def _inside(tree: ast.AST) -> Iterator[ast.AST]:
    for node in ast.iter_child_nodes(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            yield node
            yield from _inside(node)


def method_of(classes: tuple[type, ...], name: str) -> Method | None:
    """The first definition of a method in these classes, if it is the user's and has a source."""
    for number, cls in enumerate(classes):
        if name not in vars(cls):
            continue
        function = inspect.unwrap(vars(cls)[name]) if callable(vars(cls)[name]) else None
        if not isinstance(function, FunctionType) or not is_own(function):
            return None
        source = source_tree(function)
        tree = source[0].body[0] if source else None
        return Method(function, tree, cls, classes[number + 1 :]) if isinstance(tree, ast.FunctionDef) else None
    return None


def selection(thing: Any, *, first: bool = False) -> Place | None:
    """Where an object's `__iter__` selects what it yields: a slice, a filter, a function of the user's.

    It is the last selection before values are yielded, or the `first` one of all. Without any, it is the loop that
    yields them, in the innermost object of the user's that this one iterates over.
    """
    return _Flow(thing, first=first).through("__iter__", type(thing).__mro__)


def left_over(thing: Any) -> Place | None:
    """Where an object's `__iter__` may leave samples in a buffer: a list that is filled in its loop.

    It is the condition on which the rest is yielded, or else the line that fills the buffer.
    """
    method = method_of(type(thing).__mro__, "__iter__")
    loops = method.nodes(ast.For, ast.While) if method else []
    if method is None or not loops or loops[0] not in method.tree.body:
        return None
    filled = {
        node.func.value.id: node
        for node in ast.walk(loops[0])
        if isinstance(node, ast.Call) and _name(node.func) == "append"
        if isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name)
    }
    after = method.tree.body[method.tree.body.index(loops[0]) + 1 :]
    for name, node in filled.items():
        using = [statement for statement in after if name in _names(statement)]
        if not using or isinstance(using[0], ast.If):
            return method.at(using[0] if using else node)
    return None


def dropped_rest(thing: Any) -> Place | None:
    """Where a batch sampler counts or compares with the size of a batch so that a rest which is smaller is left out."""
    classes, names = type(thing).__mro__, ["__iter__"]
    for number in range(_DEEPEST):
        name = names[number] if number < len(names) else "__init__"
        method = method_of(classes, name)
        for node in method.nodes(ast.BinOp, ast.Call, ast.Compare) if method else ():
            if method and _leaves_rest(node):
                return method.at(node)
            called = node.func if isinstance(node, ast.Call) else None
            if isinstance(called, ast.Attribute) and _name(called.value) == "self":
                names.append(called.attr)
    return None


def _leaves_rest(node: ast.AST) -> bool:
    """Whether it is `n // size`, `range(0, n - size + 1, size)` or `len(batch) == size`."""
    named = (_name(one) for one in ast.walk(node) if isinstance(one, ast.Name | ast.Attribute))
    if not any(map(BATCH_SIZE.fullmatch, named)):
        return False
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.FloorDiv) and not isinstance(node.left, ast.UnaryOp)
    if isinstance(node, ast.Call):
        ends = (one for one in node.args if isinstance(one, ast.BinOp))
        return _name(node.func) == "range" and any(isinstance(one.op, ast.Sub) for end in ends for one in _sums(end))
    return any(isinstance(one, ast.Call) and _name(one.func) == "len" for one in ast.iter_child_nodes(node))


def _sums(node: ast.BinOp) -> Iterator[ast.BinOp]:
    yield node
    if isinstance(node.left, ast.BinOp):
        yield from _sums(node.left)


def endless_loop(thing: Any) -> Place | None:
    """The `while True` of an object's own `__iter__` that nothing leaves, after which no code is reached."""
    method = method_of(type(thing).__mro__, "__iter__")
    loops = (node for node in method.tree.body if isinstance(node, ast.While)) if method else ()
    for loop in loops:
        constant = isinstance(loop.test, ast.Constant) and bool(loop.test.value)
        if constant and method and not any(map(_leaves, loop.body)):
            return method.at(loop)
    return None


def _leaves(statement: ast.AST, *, inside: bool = False) -> bool:
    """Whether a statement of a loop may end it: `break`, unless it is `inside` another loop, or `return`."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
        return False
    if isinstance(statement, ast.Return) or (isinstance(statement, ast.Break) and not inside):
        return True
    inside = inside or isinstance(statement, ast.For | ast.While)
    return any(_leaves(node, inside=inside) for node in ast.iter_child_nodes(statement))


def iteration(thing: Any) -> Place | None:
    """The loop of an object's own `__iter__`, or else where it yields or returns."""
    method = method_of(type(thing).__mro__, "__iter__")
    return None if method is None else method.at(_yielding(method)[0])


def yielded_name(thing: Any) -> Place | None:
    """Where an object's `__iter__` first yields a variable or an attribute as it is."""
    method = method_of(type(thing).__mro__, "__iter__")
    if method is None:
        return None
    named = (node for node in method.nodes(ast.Yield) if isinstance(node.value, ast.Name | ast.Attribute))
    return next(map(method.at, named), None)


def returned(thing: Any, names: tuple[str, ...]) -> Place | None:
    """Where the first of these methods returns, of those that the class which has any of them last defines."""
    classes = type(thing).__mro__
    for number, cls in enumerate(classes):
        for name in names:
            if name in vars(cls):
                method = method_of(classes[number:], name)
                return None if method is None else method.at((method.nodes(ast.Return) or method.tree.body)[-1])
    return None


def defined(thing: Any, name: str) -> Place | None:
    """Where the user defines a method of an object."""
    method = method_of(type(thing).__mro__, name)
    return None if method is None else method.at(method.tree)


def limited_index(thing: Any) -> Place | None:
    """Where `__getitem__` takes its index modulo something, or keeps it inside a range."""
    for number in range(len(type(thing).__mro__)):
        method = method_of(type(thing).__mro__[number:], "__getitem__")
        if method is None or len(method.tree.args.args) < 2:
            return None
        index = method.tree.args.args[1].arg
        for node in method.nodes(ast.BinOp, ast.Call):
            limits = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod)
            if (limits or (isinstance(node, ast.Call) and _name(node.func) in LIMITING)) and index in _names(node):
                return method.at(node)
    return None


def _yielding(method: Method) -> tuple[ast.AST, ast.AST | None]:
    """The part of a method that yields or returns what it gives, and the expression that this comes from."""
    loops = method.nodes(ast.For, ast.While)
    if loops:
        return loops[0], getattr(loops[0], "iter", None)
    ends = method.nodes(ast.Yield, ast.YieldFrom) or method.nodes(ast.Return)
    return (ends[-1], ends[-1].value) if ends else (method.tree.body[-1], None)


def _names(node: ast.AST) -> list[str]:
    return [one.id for one in ast.walk(node) if isinstance(one, ast.Name)]


def _name(function: ast.AST) -> str:
    return function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")


@dataclass(slots=True)
class _Flow:
    """Goes back from what is yielded to what that is made of."""

    thing: Any
    first: bool
    entered: list[tuple[type, str]] = field(default_factory=list)
    selects: bool = False

    def through(self, name: str, classes: tuple[type, ...]) -> Place | None:
        """The selection in a method, or in what it uses; else where the last of these yields."""
        method = method_of(classes, name)
        if method is None or (method.owner, name) in self.entered or len(self.entered) > _DEEPEST:
            return None
        self.entered.append((method.owner, name))
        node, source = _yielding(method)
        found = self._in(source, node, method) if source is not None else None
        return found or method.at(node)

    def _in(self, source: ast.AST, statement: ast.AST, method: Method) -> Place | None:
        """The selection in an expression of a statement, or in the values of its variables."""
        here = method.at(statement) if _selects(source, method) else None
        if here and not self.first:
            return here
        self.selects = self.selects or here is not None
        for node in _data(source):
            if isinstance(node, ast.Name):
                found = self._assigned(node.id, statement, method)
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                found = self._called(node.func, method)
            elif isinstance(node, ast.Attribute) and _name(node.value) == "self":
                found = self._attribute(node.attr)
            else:
                found = None
            if found:
                return found
        return method.at(statement) if here is None and not self.selects and _is_rounded(source) else here

    def _assigned(self, name: str, statement: ast.AST, method: Method) -> Place | None:
        before = [
            node
            for node in method.nodes(ast.Assign, ast.AnnAssign, ast.AugAssign)
            if node.lineno < getattr(statement, "lineno", 0) and node.value is not None
            if name in (one for target in targets_of(node) for one in _names(target))
        ]
        for node in reversed(before):
            found = self._in(node.value, node, method)
            if found or not isinstance(node, ast.AugAssign):  # which adds to what was assigned before
                return found
        return None

    def _called(self, function: ast.Attribute, method: Method) -> Place | None:
        """Into a method of the object, or of the class above."""
        if isinstance(function.value, ast.Name) and function.value.id == "self":
            return self.through(function.attr, type(self.thing).__mro__)
        if isinstance(function.value, ast.Call) and _name(function.value.func) == "super":
            return self.through(function.attr, method.later)
        return None

    def _attribute(self, name: str) -> Place | None:
        """Into `__init__`, where an attribute is the result of a selection; else into the object that it holds."""
        method = method_of(type(self.thing).__mro__, "__init__")
        for node in method.nodes(ast.Assign, ast.AnnAssign) if method else ():
            written = (one for target in targets_of(node) for one in ast.walk(target) if isinstance(one, ast.Attribute))
            if method and node.value is not None and any(one.attr == name for one in written):
                found = self._in(node.value, node, method)
                if found:
                    return found
        held = getattr(self.thing, "__dict__", {}).get(name)
        return None if held is None else _Flow(held, self.first, self.entered).through("__iter__", type(held).__mro__)


def _data(source: ast.AST) -> Iterator[ast.AST]:
    """The parts of an expression that its values come from, outermost first: no options of functions."""
    yield source
    if isinstance(source, ast.GeneratorExp | ast.ListComp | ast.SetComp):
        yield from _data(source.generators[0].iter)
    elif isinstance(source, ast.Call):
        if isinstance(source.func, ast.Attribute):
            yield from _data(source.func.value)
        for argument in source.args:
            yield from _data(argument)
    elif not isinstance(source, ast.Lambda):
        for node in ast.iter_child_nodes(source):
            if isinstance(node, ast.expr):
                yield from _data(node)


def _is_rounded(source: ast.AST) -> bool:
    """Whether a number is rounded down, such as that of the samples of each worker: a remainder is left out."""
    return any(isinstance(node, ast.BinOp) and isinstance(node.op, ast.FloorDiv) for node in _data(source))


def _selects(source: ast.AST, method: Method) -> bool:
    """Whether an expression leaves some of its values out, or may do so in a function of the user's."""
    for node in _data(source):
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
            return True
        if isinstance(node, ast.IfExp) or (
            isinstance(node, ast.GeneratorExp | ast.ListComp) and node.generators[0].ifs
        ):
            return True
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
            function = method.function.__globals__.get(_name(node.func)) if isinstance(node.func, ast.Name) else None
            if _name(node.func) in SELECTING or (isinstance(function, FunctionType) and is_own(function)):
                return True
    return False
