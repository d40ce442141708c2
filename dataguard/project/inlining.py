"""A function of its own that makes the loaders that a function or script of a project makes, and nothing else."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from dataguard.project.loader_calls import LoaderCalls, bound
from dataguard.project.slicing import Slice, Unclear, names_in
from dataguard.project.sources import Function, Source
from dataguard.settings.role_names import spelled_role
from dataguard.target.loaders_file import FUNCTION, OPEN

_DEEPEST = 4
"""Calls that are followed back to where arguments come from."""
_SUPPLIED = re.compile(r"hydra|command|option|argument|app\.|main\(")
"""Decorators that call a function with arguments of their own."""
_SUFFIX = re.compile(r"_?(data_?)?(loader|iter|dl)s?$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Inlined:
    """The text of the function with its imports, and the folders to import from.

    `factory` is `pkg.mod:function` if all that the function does is to call it.
    """

    text: str
    roots: tuple[str, ...]
    factory: str = ""


def inlined(calls: LoaderCalls, source: Source, scope: Function | None, arguments: Sequence[str] = ()) -> Inlined:
    """Take out what makes the loaders of a function, or of a script that is called with these arguments.

    Raises Unclear if that cannot be done.
    """
    body = source.guarded if scope is None else scope.body
    bindings = calls.bindings(source, body)
    names = list(dict.fromkeys(name for names in bindings.values() for name in names))
    cut = Slice(set(names), set(bindings), set(names), source.imports)
    kept = cut.of(body)
    writer = _Writer(calls)
    kept = _with_arguments([*writer.origins(source, scope, cut.needed - {*names}, _DEEPEST), *kept], arguments)
    only = kept[0] if len(kept) == 1 else None
    if isinstance(only, ast.Assign) and isinstance(only.value, ast.Call) and not only.value.args:
        made = calls.made(source, only.value)
        if made in calls.makers and not only.value.keywords:
            module, _, attribute = made.rpartition(".")
            return Inlined("", tuple(sorted(writer.roots)), f"{module}:{attribute}")
    at_top = {name for node in kept if node in bindings for name in bindings[node]}
    unset = "".join(f"    {name} = None\n" for name in names if name not in at_top)
    code = "\n".join(ast.unparse(ast.fix_missing_locations(node)) for node in kept)
    lines = "".join(f"    {line}\n" if line else "\n" for line in code.splitlines())
    text = f"{writer.imports()}\n\n\ndef {FUNCTION}():\n{unset}{lines}    return {_returned(names)}\n"
    ast.parse(text)
    return Inlined(text, tuple(sorted(writer.roots)))


def _returned(names: list[str]) -> str:
    """The only variable, which may be a collection of loaders; or all by their roles."""
    if len(names) == 1 and spelled_role(_short(names[0])) is None:
        return names[0]
    short = {name: _short(name) for name in names}
    unique = len(set(short.values())) == len(names)
    return "{" + ", ".join(f'"{short[name] if unique else name}": {name}' for name in names) + "}"


def _short(name: str) -> str:
    return _SUFFIX.sub("", name) or name


class _Writer:
    """Finds what the free variables of statements refer to, and collects imports."""

    def __init__(self, calls: LoaderCalls) -> None:
        self._calls = calls
        self._imports: dict[str, str] = {}
        self.roots: set[str] = set()

    def imports(self) -> str:
        """The import statements, in order, one for each module."""
        lines = sorted({line for block in self._imports.values() for line in block.splitlines()})
        grouped: dict[str, list[str]] = {}
        for line in lines:
            module, imports, names = line.partition(" import ")
            grouped.setdefault(module, []).extend([names] if imports else [])
        whole = [f"{module} import {', '.join(names)}" if names else module for module, names in grouped.items()]
        return "\n".join(sorted(whole, key=lambda line: line.startswith("from")))

    def origins(self, source: Source, scope: Function | None, names: set[str], depth: int) -> list[ast.stmt]:
        """Statements that set the variables which a scope does not set itself; what is imported is noted."""
        parameters = [] if scope is None else _parameters(scope)
        wanted = [name for name in parameters if name in names]
        before = self._arguments(source, scope, wanted, depth) if scope is not None and wanted else []
        guarded = {name for name in names if name not in parameters and self._is_guarded(source, scope, name)}
        if guarded:
            cut = Slice(set(guarded), (), set(), source.imports)
            before = [*self.origins(source, None, cut.needed, depth - 1), *cut.of(source.guarded), *before]
            self._globals(source, cut.needed - guarded)
        self._globals(source, names - {*parameters} - guarded)
        return before

    def _is_guarded(self, source: Source, scope: Function | None, name: str) -> bool:
        walked = (node for one in source.guarded for node in ast.walk(one))
        inside = {node.id for node in walked if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        return scope is not None and name in inside and name not in {*source.assigned, *source.definitions}

    def _globals(self, source: Source, names: set[str]) -> None:
        for name in sorted(names):
            if name in source.definitions or name in source.assigned:
                if source.runs_on_import:
                    raise Unclear
                self._note(name, f"from {source.name} import {name}", source.root)
            elif name in source.imports:
                self._note_import(source, name)
            elif not hasattr(builtins, name):
                raise Unclear

    def _note_import(self, source: Source, name: str) -> None:
        full = source.imports[name]
        project = self._calls.project
        owner = next((one for one in project.sources if full == one.name or full.rpartition(".")[0] == one.name), None)
        plain = [
            alias.name
            for node in ast.walk(source.tree)
            if isinstance(node, ast.Import)
            for alias in node.names
            if not alias.asname and alias.name.partition(".")[0] == name
        ]
        module, _, attribute = full.rpartition(".")
        if plain:
            text = "\n".join(f"import {one}" for one in plain)
        elif module:
            text = f"from {module} import {attribute}" + (f" as {name}" if attribute != name else "")
        else:
            text = f"import {full}" + (f" as {name}" if full != name else "")
        self._note(name, text, owner.root if owner else ".")

    def _note(self, name: str, text: str, root: str) -> None:
        if self._imports.setdefault(name, text) != text:
            raise Unclear
        if root != ".":
            self.roots.add(root)

    def _arguments(self, source: Source, scope: Function, wanted: list[str], depth: int) -> list[ast.stmt]:
        """Statements that set the parameters of a function as one of its callers does, or to their defaults."""
        if any(_SUPPLIED.search(ast.unparse(one)) for one in scope.decorator_list) or not depth:
            raise Unclear
        defaults = _defaults(scope)
        for caller, outer, body, call in self._sites(source, scope):
            given = {**defaults, **_given(scope, call)}
            if not all(name in given for name in wanted):
                continue
            values = {name: given[name] for name in wanted}
            from_caller = set().union(*(names_in(values[name]) for name in wanted if name in _given(scope, call)))
            cut = Slice(set(from_caller), (), set(), caller.imports)
            kept = cut.of(_up_to(body, call))
            self._globals(source, set().union(*(names_in(defaults[n]) for n in wanted if values[n] is defaults.get(n))))
            return [*self.origins(caller, outer, cut.needed, depth - 1), *kept, *_assigned(values)]
        if not all(name in defaults for name in wanted):
            raise Unclear
        self._globals(source, set().union(*(names_in(defaults[name]) for name in wanted)))
        return _assigned({name: defaults[name] for name in wanted})

    def _sites(
        self, source: Source, scope: Function
    ) -> Iterator[tuple[Source, Function | None, list[ast.stmt], ast.Call]]:
        """The calls of a function, in its own module first: who calls, in which body."""
        for caller in sorted(self._calls.project.sources, key=lambda one: one is not source):
            scopes = [node for node in caller.definitions.values() if isinstance(node, Function) and node is not scope]
            for outer, body in ((None, caller.guarded), *((node, node.body) for node in scopes)):
                for node in (inner for one in body for inner in ast.walk(one)):
                    found = caller.refers_to(node.func) if isinstance(node, ast.Call) else None
                    defined = self._calls.project.definition(found)
                    if isinstance(node, ast.Call) and defined is not None and defined[1] is scope:
                        yield caller, outer, body, node


def _parameters(scope: Function) -> list[str]:
    args = scope.args
    various = [one for one in (args.vararg, args.kwarg) if one]
    return [one.arg for one in (*args.posonlyargs, *args.args, *args.kwonlyargs, *various)]


def _defaults(scope: Function) -> dict[str, ast.expr]:
    args = scope.args
    positional = [*args.posonlyargs, *args.args]
    late = zip(positional[len(positional) - len(args.defaults) :], args.defaults, strict=True)
    named = zip(args.kwonlyargs, args.kw_defaults, strict=True)
    return {one.arg: default for one, default in (*late, *named) if default is not None}


def _given(scope: Function, call: ast.Call) -> dict[str, ast.expr]:
    """What a call passes, by parameter; Unclear with `*` or `**`."""
    if any(isinstance(one, ast.Starred) for one in call.args) or any(one.arg is None for one in call.keywords):
        raise Unclear
    positional = [one.arg for one in (*scope.args.posonlyargs, *scope.args.args)]
    by_place = dict(zip(positional, call.args, strict=False))
    return {**by_place, **{one.arg: one.value for one in call.keywords if one.arg}}


def _up_to(body: list[ast.stmt], call: ast.Call) -> list[ast.stmt]:
    """The statements of a body up to the one with the call."""
    last = next(place for place, one in enumerate(body) if any(node is call for node in ast.walk(one)))
    inside = isinstance(body[last], ast.If | ast.With | ast.Try | ast.For)
    return body[: last + inside]


def _assigned(values: Mapping[str, ast.expr]) -> list[ast.stmt]:
    """One assignment of all parameters, without those whose argument is a variable of the same name."""
    new = {name: value for name, value in values.items() if ast.unparse(value) != name}
    if not new:
        return []
    left, right = ", ".join(new), ", ".join(ast.unparse(value) for value in new.values())
    return ast.parse(f"{left} = {right}").body


def _with_arguments(kept: list[ast.stmt], arguments: Sequence[str]) -> list[ast.stmt]:
    """Let a parser of the command line see these arguments; without any, what it requires is left open.

    Options that nothing reads are left out, unless the whole result of the parser is passed on.
    """
    nodes = [node for one in kept for node in ast.walk(one)]
    parses = [node for node in nodes if _is_call_of(node, "parse_args", "parse_known_args")]
    results = {
        name for one in kept if isinstance(one, ast.Assign) and one.value in parses for name in bound(one.targets[0])
    }
    read = {node.attr for node in nodes if isinstance(node, ast.Attribute) and _is_one_of(node.value, results)}
    uses = sum(isinstance(node, ast.Attribute) and _is_one_of(node.value, results) for node in nodes)
    whole = sum(_is_one_of(node, results) and isinstance(node.ctx, ast.Load) for node in nodes) > uses  # type: ignore[attr-defined] # a Name
    left: list[ast.stmt] = []
    words = list(arguments)
    for one in kept:
        call = one.value if isinstance(one, ast.Expr) else None
        if isinstance(call, ast.Call) and _is_call_of(call, "add_argument") and call.args and results:
            if not (arguments or whole or read & _destinations(call)):
                continue
            words += [] if arguments else _required_argument(call)
        left.append(one)
    for parse in parses:
        if isinstance(parse, ast.Call) and not parse.args and not parse.keywords:
            parse.args = [ast.List([ast.Constant(word) for word in words], ast.Load())]
    return left


def _is_call_of(node: ast.AST, *methods: str) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in methods


def _is_one_of(node: ast.AST, names: set[str]) -> bool:
    return isinstance(node, ast.Name) and node.id in names


def _destinations(call: ast.Call) -> set[str]:
    """The attributes that an option may set."""
    named = [one.value for one in call.keywords if one.arg == "dest"]
    words = [one.value for one in (*named, *call.args) if isinstance(one, ast.Constant)]
    return {str(word).lstrip("-").replace("-", "_") for word in words}


def _required_argument(call: ast.Call) -> list[str]:
    options = {one.arg: one.value for one in call.keywords}
    name = call.args[-1].value if isinstance(call.args[-1], ast.Constant) else ""
    if str(name).startswith("-"):
        needed = options.get("required")
        return [str(name), OPEN] if isinstance(needed, ast.Constant) and needed.value else []
    optional = "default" in options or ast.unparse(options.get("nargs", ast.Constant(""))) in ("'?'", "'*'")
    return [] if optional else [OPEN]
