"""The modules of a project as syntax trees: what names in them refer to, and where loaders are made.

`Project` reads the modules. `LoaderCalls` finds calls of `DataLoader`, and of functions that return what such a call
makes.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

Function = ast.FunctionDef | ast.AsyncFunctionDef
Definition = Function | ast.ClassDef

_SKIPPED = {"tests", "test", "docs", "doc", "build", "dist", "node_modules", "site-packages", "third_party"}
_SKIPPED_FILES = re.compile(r"test_|conftest|setup\.py$|dataguard_loaders")
_MOST_FILES = 2000
"""Files that are read at most: a project with more holds copies of others, and parsing each takes milliseconds."""
_BIGGEST = 500_000
"""Bytes of a file that is read: larger ones are generated."""


@dataclass(frozen=True, eq=False)
class Source:
    """A module: its file, the folder it is imported from (`.` or, for instance, `src`) and its dotted name."""

    path: Path
    root: str
    name: str
    tree: ast.Module
    is_notebook: bool = False
    """Whether it is a notebook that was exported as a script: its cells are marked."""
    imports: dict[str, str] = field(default_factory=dict)
    """What each imported name refers to: `np` to `numpy`, `build` to `imgcls.data.build`."""

    @property
    def definitions(self) -> dict[str, Definition]:
        """The functions and classes at the top level."""
        return {node.name: node for node in self.tree.body if isinstance(node, Definition)}

    @property
    def guarded(self) -> list[ast.stmt]:
        """The statements under `if __name__ == "__main__":`."""
        return [
            inner for node in self.tree.body if isinstance(node, ast.If) and is_main_guard(node) for inner in node.body
        ]

    @property
    def runs_on_import(self) -> bool:
        """Whether importing it does work: it has loops, or calls what it defines."""
        for node in statements(self.tree.body):
            if isinstance(node, ast.For | ast.While | ast.With):
                return True
            called = node.value.func if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) else None
            if isinstance(called, ast.Name) and called.id in self.definitions:
                return True
        return False

    def refers_to(self, expression: ast.expr) -> str | None:
        """The dotted name that an expression such as `data.build` means; None for anything else."""
        if isinstance(expression, ast.Attribute):
            owner = self.refers_to(expression.value)
            return f"{owner}.{expression.attr}" if owner else None
        if not isinstance(expression, ast.Name):
            return None
        if expression.id in self.imports:
            return self.imports[expression.id]
        return f"{self.name}.{expression.id}" if expression.id in self.definitions else expression.id


def is_main_guard(node: ast.stmt) -> bool:
    """Whether it is `if __name__ == "__main__":`."""
    return isinstance(node, ast.If) and "__name__" in ast.unparse(node.test) and "__main__" in ast.unparse(node.test)


def statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a body and of its blocks, in order; not those of functions defined in it."""
    for statement in body:
        yield statement
        if not isinstance(statement, Definition):
            for block in ("body", "orelse", "finalbody"):
                yield from statements(getattr(statement, block, ()))
            for handler in getattr(statement, "handlers", ()):
                yield from statements(handler.body)


class Project:
    """The modules of a project, by file."""

    def __init__(self, folder: Path) -> None:
        self.unparsed: list[str] = []
        """Where files are no Python of this version: `train.py:3`."""
        trees = list(_trees(folder, self.unparsed))
        imported = {module for _, tree, _ in trees for module in _absolute_imports(tree)}
        found = [_source(*each, folder, imported) for each in trees]
        named = Counter(source.name for source in found)
        self.sources = tuple(
            source if named[source.name] == 1 else _source(*each, folder, imported, from_top=True)
            for source, each in zip(found, trees, strict=True)
        )
        self._by_name = {source.name: source for source in self.sources}

    def reached_from(self, source: Source) -> set[Source]:
        """The modules that a module imports, directly or not, and itself.

        One that changes `sys.path` may import the modules of any folder by their file's name.
        """
        by_name = {
            **({module.path.stem: module for module in self.sources} if "sys.path" in ast.unparse(source.tree) else {}),
            **self._by_name,
        }
        reached, ahead = {source}, [source]
        while ahead:
            for name in set(ahead.pop().imports.values()):
                parts = name.split(".")
                for module in (by_name.get(".".join(parts[:count])) for count in range(1, len(parts) + 1)):
                    if module is not None and module not in reached:
                        reached.add(module)
                        ahead.append(module)
        return reached

    def definition(self, name: str | None, depth: int = 5) -> tuple[Source, Definition] | None:
        """The function or class of a dotted name, also where a package passes it on."""
        module, _, attribute = (name or "").rpartition(".")
        source = self._by_name.get(module)
        if source is None or not depth:
            return None
        if attribute in source.definitions:
            return source, source.definitions[attribute]
        return self.definition(source.imports.get(attribute), depth - 1)


def _trees(folder: Path, unparsed: list[str]) -> Iterator[tuple[Path, ast.Module, bool]]:
    """The files that can be parsed, and whether each is an exported notebook."""
    for path in sorted(_files(folder))[:_MOST_FILES]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the user's escape sequences
            try:
                text = path.read_text(encoding="utf-8")
                yield path, ast.parse(text, str(path)), _CELL.search(text) is not None
            except SyntaxError as error:
                unparsed.append(f"{path.relative_to(folder).as_posix()}:{error.lineno}")
            except (OSError, ValueError, RecursionError):
                continue


_CELL = re.compile(r"^# (In ?\[[\d ]*\]|%%|\+$)", re.MULTILINE)
"""What begins a cell in the scripts of nbconvert, and of jupytext."""


def _files(folder: Path) -> Iterator[Path]:
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            skipped = path.name.startswith(".") or path.name in _SKIPPED or (path / "pyvenv.cfg").exists()
            yield from () if skipped else _files(path)
        elif _is_source(path):
            yield path


def _is_source(path: Path) -> bool:
    """Whether it is a Python file of a usual size; a broken link and a pipe are none."""
    named = path.suffix == ".py" and not _SKIPPED_FILES.match(path.name)
    return named and path.is_file() and path.stat().st_size < _BIGGEST


def _source(
    path: Path, tree: ast.Module, is_notebook: bool, folder: Path, imported: set[str], *, from_top: bool = False
) -> Source:
    """Its import name is one that the project uses, else the one that `__init__.py` files give it.

    A folder `src` is no package, but what packages are in, even those without `__init__.py`. Where several files would
    have one name, so that only the first could be imported, they are imported `from_top`, by all of their folders.
    """
    parts = path.relative_to(folder).with_suffix("").parts
    folders = parts[:-1]
    parts = folders if path.name == "__init__.py" else parts
    deepest = len(folders)
    while deepest and folder.joinpath(*folders[:deepest], "__init__.py").exists():
        deepest -= 1
    usual = min(deepest, 1) if folders[:1] == ("src",) else deepest
    used = [depth for depth in range(deepest + 1) if ".".join(parts[depth:]) in imported]
    depth = 0 if from_top else usual if not used or usual in used else used[-1]
    name, root = ".".join(parts[depth:]), "/".join(parts[:depth]) or "."
    is_package = path.name == "__init__.py"
    return Source(path.relative_to(folder), root, name, tree, is_notebook, dict(_imports(tree, name, is_package)))


def _imports(tree: ast.Module, module: str, is_package: bool) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.partition(".")[0]
                yield (alias.asname, alias.name) if alias.asname else (top, top)
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(node, module, is_package)
            for alias in node.names:
                yield alias.asname or alias.name, f"{base}.{alias.name}" if base else alias.name


def _absolute(node: ast.ImportFrom, module: str, is_package: bool) -> str:
    """The module that a `from` import names, written absolutely."""
    if not node.level:
        return node.module or ""
    parts: Sequence[str] = module.split(".") if is_package else module.split(".")[:-1]
    parts = parts[: len(parts) - node.level + 1]
    return ".".join([*parts, *([node.module] if node.module else [])])


def _absolute_imports(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


_LOADER = re.compile(r"(\w*DataLoader|WebLoader|create_loader)$")
_HOOK = "train_dataloader"


class LoaderCalls:
    """The functions and data modules of a project that make loaders, and the calls of them."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.makers: dict[str, tuple[Source, Definition]] = {}
        for source in project.sources:
            for node in source.definitions.values():
                if isinstance(node, ast.ClassDef) and any(
                    isinstance(item, Function) and item.name == _HOOK for item in node.body
                ):
                    self.makers[f"{source.name}.{node.name}"] = source, node
        while self._more_makers():
            pass

    def _more_makers(self) -> bool:
        before = len(self.makers)
        for source in self.project.sources:
            for node in source.definitions.values():
                # What an asynchronous function returns is no loader, but has to be awaited.
                if isinstance(node, ast.FunctionDef) and self._returns_loaders(source, node):
                    self.makers[f"{source.name}.{node.name}"] = source, node
        return len(self.makers) > before

    def made(self, source: Source, call: ast.expr) -> str | None:
        """The dotted name of what a call of a loader's class, or of a maker of loaders, calls; None for any other."""
        name = source.refers_to(call.func) if isinstance(call, ast.Call) else None
        definition = self.project.definition(name)
        if definition is not None:
            name = f"{definition[0].name}.{definition[1].name}"
            return name if name in self.makers or _derives_from_loader(definition[1]) else None
        return name if name and _LOADER.search(name) else None

    def in_expression(self, source: Source, expression: ast.AST) -> list[str]:
        """What the calls inside an expression make that are loaders."""
        calls = (self.made(source, node) for node in ast.walk(expression) if isinstance(node, ast.Call))
        return [call for call in calls if call]

    def named_in(self, source: Source) -> bool:
        """Whether a module calls a maker of loaders, or names a class of them, as in `kind = DataLoader`."""
        names = (node for node in ast.walk(source.tree) if isinstance(node, ast.Name | ast.Attribute))
        named = any(_LOADER.match((source.refers_to(node) or "").rpartition(".")[2]) for node in names)
        return named or bool(self.in_expression(source, source.tree))

    def bindings(self, source: Source, body: Sequence[ast.stmt]) -> dict[ast.stmt, list[str]]:
        """The statements that give names to loaders, with these names, in order."""
        names: dict[ast.stmt, list[str]] = {}
        for statement in statements(body):
            value = getattr(statement, "value", None)
            targets = assigned(statement)
            if targets and value is not None and self._is_made_of_loaders(source, value):
                names[statement] = [name for target in targets for name in bound(target)]
        return names

    def _is_made_of_loaders(self, source: Source, value: ast.expr) -> bool:
        """Whether an expression is a loader, or a collection or conditional of them; not what is computed from one."""
        if isinstance(value, ast.Call):
            return self.made(source, value) is not None
        parts: Sequence[ast.expr | None] = ()
        if isinstance(value, ast.Tuple | ast.List):
            parts = value.elts
        elif isinstance(value, ast.Dict):
            parts = value.values
        elif isinstance(value, ast.IfExp):
            parts = value.body, value.orelse
        elif isinstance(value, ast.ListComp | ast.GeneratorExp):
            parts = (value.elt,)
        elif isinstance(value, ast.DictComp):
            parts = (value.value,)
        return any(part is not None and self._is_made_of_loaders(source, part) for part in parts)

    def _returns_loaders(self, source: Source, function: ast.FunctionDef) -> bool:
        names = {name for names in self.bindings(source, function.body).values() for name in names}
        for statement in statements(function.body):
            value = statement.value if isinstance(statement, ast.Return) else None
            if value is None:
                continue
            parts = value.elts if isinstance(value, ast.Tuple | ast.List) else [value]
            parts = [part for part in value.values if part] if isinstance(value, ast.Dict) else parts
            held = {part.id for part in parts if isinstance(part, ast.Name)}
            if held & names or self._is_made_of_loaders(source, value):
                return True
        return False


def assigned(statement: ast.stmt) -> list[ast.expr]:
    """The targets of an assignment."""
    if isinstance(statement, ast.Assign):
        return statement.targets
    return [statement.target] if isinstance(statement, ast.AnnAssign | ast.AugAssign) else []


def bound(target: ast.AST) -> list[str]:
    """The variables that an assignment to this target sets, or sets an entry of."""
    if isinstance(target, ast.Name):
        return [target.id]
    if isinstance(target, ast.Tuple | ast.List):
        return [name for element in target.elts for name in bound(element)]
    if isinstance(target, ast.Subscript | ast.Starred):
        return bound(target.value)
    return []


def required(definition: Definition) -> list[str]:
    """The parameters without a default of a function, or of the constructor of a class."""
    function: ast.stmt | None = definition
    if isinstance(definition, ast.ClassDef):
        function = next((node for node in definition.body if getattr(node, "name", "") == "__init__"), None)
    if not isinstance(function, Function):
        return []
    args = function.args
    positional = [*args.posonlyargs, *args.args]
    positional = positional[: len(positional) - len(args.defaults)]
    keyword = [word for word, default in zip(args.kwonlyargs, args.kw_defaults, strict=True) if default is None]
    return [argument.arg for argument in (*positional, *keyword) if argument.arg != "self"]


def _derives_from_loader(definition: Definition) -> bool:
    bases = definition.bases if isinstance(definition, ast.ClassDef) else []
    return any(_LOADER.search(ast.unparse(base)) for base in bases)
