"""Where a project makes its loaders: calls of `DataLoader`, and of functions that return what such a call makes."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

from dataguard.project.sources import Definition, Function, Project, Source, statements

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
                if isinstance(node, Function) and self._returns_loaders(source, node):
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

    def _returns_loaders(self, source: Source, function: Function) -> bool:
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
