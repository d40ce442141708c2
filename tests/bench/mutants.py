"""Mutants: small changes of a module's source that a test should notice, and how one takes effect in this process."""

from __future__ import annotations

import ast
import importlib
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

from dataguard.core.model import Check

COMPARED: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
CALCULATED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}
SWAPPED = {"min": "max", "max": "min", "any": "all", "all": "any"}
UNSEEN = ("annotation", "returns", "decorator_list")
"""What no verdict depends on."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change of a module, in a line of a function."""

    module: str
    line: int
    function: str
    number: int
    """Its place among the mutants of its module."""
    key: str
    """What stood there, what stands there now, and the line: the same while other lines of the module change."""

    def __str__(self) -> str:
        return f"{self.line}: {self.key}"


Edit = tuple[ast.AST, Callable[[], None], Callable[[], None], str]
"""A node, how to change it, how to change it back, and the name of the function around it."""


def mutants_of(module: str) -> list[Mutant]:
    """All mutants of a module."""
    tree = _parsed(module)
    lines = _source(module).splitlines()
    keys: Counter[str] = Counter()
    found = []
    for number, (node, change, back, function) in enumerate(_edits(tree)):
        before = ast.unparse(node)
        change()
        after = ast.unparse(node)
        back()
        line = (node.target if isinstance(node, ast.comprehension) else node).lineno  # type: ignore[attr-defined]
        key = f"{module}:{function}: {_short(before)} -> {_short(after)} | {lines[line - 1].strip()}"
        keys[key] += 1
        key += f" | {keys[key]}" if keys[key] > 1 else ""
        found.append(Mutant(module, line, function, number, key))
    return found


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 200 else f"{line[:197]}..."


def _source(module: str) -> str:
    return Path(str(importlib.import_module(module).__file__)).read_text(encoding="utf-8")


def _parsed(module: str) -> ast.Module:
    return ast.parse(_source(module))


def _edits(tree: ast.AST, function: str = "") -> Iterator[Edit]:
    """The changes, one after the other; each is undone before the next."""
    for field, value in ast.iter_fields(tree):
        if field in UNSEEN:
            continue
        for place, node in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if not isinstance(node, ast.AST) or _is_left_alone(node):
                continue
            inner = node.name if isinstance(node, ast.FunctionDef | ast.ClassDef) else ""
            name = ".".join(filter(None, [function, inner]))
            for change, back in _changes(node):
                yield node, change, back, name
            if place is not None:
                yield from ((*edit, name) for edit in _removals(value, place, node))
            yield from _edits(node, name)


def _is_left_alone(node: ast.AST) -> bool:
    """Imports, what only a type checker reads, checks of our own, and text."""
    if isinstance(node, ast.If):
        return isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
    if isinstance(node, ast.keyword):
        return node.arg == "strict"
    if isinstance(node, ast.FormattedValue):
        return isinstance(node.value, ast.Name | ast.Attribute)
    return isinstance(node, ast.Import | ast.ImportFrom | ast.Assert)


def _setting(node: Any, field: str, value: Any) -> tuple[Callable[[], None], Callable[[], None]]:
    before = getattr(node, field)
    return lambda: setattr(node, field, value), lambda: setattr(node, field, before)


def _changes(node: ast.AST) -> Iterator[tuple[Callable[[], None], Callable[[], None]]]:
    """How to change a node in place."""
    match node:
        case ast.Compare():
            for place, one in enumerate(node.ops):
                for compare in COMPARED[type(one)]:
                    yield _setting(node, "ops", [*node.ops[:place], compare(), *node.ops[place + 1 :]])
        case ast.BoolOp():
            yield _setting(node, "op", ast.And() if isinstance(node.op, ast.Or) else ast.Or())
        case ast.UnaryOp(op=ast.Not() | ast.USub()):
            if isinstance(node.op, ast.USub):
                yield _setting(node, "op", ast.UAdd())
            else:
                yield _setting(node, "operand", ast.UnaryOp(ast.Not(), node.operand))
        case ast.BinOp() | ast.AugAssign() if type(node.op) in CALCULATED:
            yield _setting(node, "op", CALCULATED[type(node.op)]())
        case ast.Constant(value=bool(value)):
            yield _setting(node, "value", not value)
        case ast.Constant(value=int(value) | float(value)):
            yield _setting(node, "value", value + 1)
        case ast.Name(id=name) if name in SWAPPED and isinstance(node.ctx, ast.Load):
            yield _setting(node, "id", SWAPPED[name])
        case ast.If() | ast.IfExp() | ast.While() if isinstance(node.test, _PLAIN):
            yield _setting(node, "test", ast.UnaryOp(ast.Not(), node.test))
        case ast.comprehension():
            for place, test in enumerate(node.ifs):
                if isinstance(test, _PLAIN):
                    turned = ast.UnaryOp(ast.Not(), test)
                    yield _setting(node, "ifs", [*node.ifs[:place], turned, *node.ifs[place + 1 :]])
        case ast.Return(value=ast.expr() as value) if ast.unparse(value) not in _NOTHING:
            yield _setting(node, "value", ast.Constant(None))
        case ast.Break() | ast.Continue():
            yield _setting(node, "__class__", ast.Continue if isinstance(node, ast.Break) else ast.Break)


_NOTHING = ("None", "False", "''", "()", "[]", "{}")
"""What is returned for want of anything; None in its place would say the same."""
_PLAIN = (ast.Name, ast.Attribute, ast.Call, ast.Subscript)
"""Conditions that no other change turns round."""


def _removals(
    body: list[Any], place: int, node: ast.AST
) -> Iterator[tuple[ast.AST, Callable[[], None], Callable[[], None]]]:
    """Statements that do something, left out: findings, exceptions and calls."""
    if isinstance(node, ast.Raise) or (isinstance(node, ast.Expr) and not isinstance(node.value, ast.Constant)):
        holder = ast.Module([node], [])
        gone = ast.copy_location(ast.Expr(ast.Constant(None)), node)

        def change() -> None:
            body[place] = gone
            holder.body = [gone]

        def back() -> None:
            body[place] = node
            holder.body = [node]

        holder.lineno = node.lineno  # type: ignore[attr-defined]
        yield holder, change, back


def install(mutant: Mutant) -> None:
    """Let the mutant take effect in this process: in functions that others hold already, and in constants."""
    tree = _parsed(mutant.module)
    for number, (_, change, _, _) in enumerate(_edits(tree)):
        if number == mutant.number:
            change()
            break
    module = sys.modules[mutant.module]
    changed = ast.fix_missing_locations(tree)
    fresh = ModuleType(mutant.module)
    fresh.__dict__.update({"__file__": module.__file__, "__package__": module.__package__})
    sys.modules[mutant.module] = fresh  # dataclasses look up their module
    try:
        exec(compile(changed, str(module.__file__), "exec"), fresh.__dict__)
    finally:
        sys.modules[mutant.module] = module
    for name, new in list(vars(fresh).items()):
        if not name.startswith("__") and name in vars(module):
            _replace(module, name, new)


def _replace(module: ModuleType, name: str, new: Any) -> None:
    old = vars(module)[name]
    if isinstance(new, FunctionType | type) and new.__module__ != module.__name__:
        return  # imported from elsewhere
    if isinstance(old, Check):
        _replace_code(old.judge, new.judge)
    elif isinstance(old, FunctionType):
        _replace_code(old, new)
    elif isinstance(old, type):
        _replace_methods(old, new)
    elif hasattr(old, "__wrapped__") and isinstance(old.__wrapped__, FunctionType):
        _replace_code(old.__wrapped__, new.__wrapped__)
        getattr(old, "cache_clear", lambda: None)()
    elif not isinstance(old, ModuleType) and repr(old) != repr(new):
        for other in [module, *_importers(module.__name__)]:
            if vars(other).get(name) is old:
                setattr(other, name, new)


def _importers(name: str) -> Iterator[ModuleType]:
    """The modules that import names from this one."""
    for other in list(sys.modules.values()):
        path: str = getattr(other, "__file__", None) or ""
        ours = path and getattr(other, "__name__", "").startswith(("dataguard.", "tests.", "test_"))
        if ours and f"from {name} import" in Path(path).read_text(encoding="utf-8"):
            yield other


def _replace_methods(old: type, new: type) -> None:
    for name, value in vars(new).items():
        before = vars(old).get(name)
        for one, other in zip(_functions(before), _functions(value), strict=False):
            _replace_code(one, other)


def _functions(member: Any) -> list[FunctionType]:
    inner = [member, *(getattr(member, name, None) for name in ("fget", "func", "__func__"))]
    return [one for one in inner if isinstance(one, FunctionType)]


def _replace_code(old: Any, new: Any) -> None:
    code: CodeType = new.__code__
    if len(code.co_freevars) == len(old.__code__.co_freevars):
        old.__code__ = code
        old.__defaults__ = new.__defaults__
        old.__kwdefaults__ = new.__kwdefaults__
