"""The statements of a function that some variables need, without the others: a backward program slice."""

from __future__ import annotations

import ast
import copy
from collections.abc import Collection, Sequence

from dataguard.project.loader_calls import assigned, bound
from dataguard.project.sources import Definition


class Unclear(Exception):
    """The statements cannot be taken out of their function."""


class Slice:
    """Collects what variables need, from the end of a body to its beginning; `needed` is what is left to find.

    `keep` are the statements that set loaders: any other that sets one again, such as one that moves it to a device, is
    left out. A call of a method of an imported module, such as one that starts a process group, is no change of it.
    """

    def __init__(
        self, needed: set[str], keep: Collection[ast.stmt], loaders: set[str], modules: Collection[str]
    ) -> None:
        self.needed = needed
        self._keep = keep
        self._loaders = loaders
        self._modules = modules

    def of(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        """The statements of a body that are needed, with blocks reduced to what is needed of them."""
        kept: list[ast.stmt] = []
        for statement in reversed(body):
            reduced = self._reduced(statement)
            if reduced is not None:
                kept.insert(0, reduced)
        return kept

    def _reduced(self, statement: ast.stmt) -> ast.stmt | None:
        if isinstance(statement, ast.If):
            return self._block(statement, statement.test, "body", "orelse")
        if isinstance(statement, ast.For):
            again = self._block(statement, statement.iter, "body")
            if again is not None:
                self.needed -= set(bound(statement.target))
            return again
        if isinstance(statement, ast.With):
            return self._with(statement)
        if isinstance(statement, ast.Try):
            return self._try(statement)
        if isinstance(statement, ast.While | ast.Match | ast.AsyncFor | ast.AsyncWith):
            if any(set(_sets(inner)) & self.needed for inner in ast.walk(statement) if isinstance(inner, ast.stmt)):
                raise Unclear
            return None
        return self._simple(statement)

    def _block(self, statement: ast.stmt, test: ast.expr, *blocks: str) -> ast.stmt | None:
        before, found = set(self.needed), {}
        after: set[str] = set()
        for block in blocks:
            self.needed = set(before)
            found[block] = self.of(getattr(statement, block))
            after |= self.needed
        if not any(found.values()):
            self.needed = before
            return None
        self.needed = after  # a loop is taken to run, and what one branch does not set is set before
        self.needed |= names_in(test)
        reduced = copy.copy(statement)
        for block, kept in found.items():
            setattr(reduced, block, kept or ([ast.Pass()] if block == "body" else []))
        if isinstance(reduced, ast.For):
            reduced.orelse = []
        return reduced

    def _with(self, statement: ast.With) -> ast.stmt | None:
        body = self.of(statement.body)
        if not body:
            return None
        reduced = copy.copy(statement)
        reduced.body = body
        for item in statement.items:
            self.needed -= set(bound(item.optional_vars)) if item.optional_vars else set()
            self.needed |= names_in(item.context_expr)
        return reduced

    def _try(self, statement: ast.Try) -> ast.stmt | None:
        before = set(self.needed)
        body = self.of([*statement.body, *statement.orelse])
        if not body:
            return None
        reduced = copy.copy(statement)
        reduced.body, reduced.orelse, reduced.finalbody = body, [], []
        reduced.handlers = [copy.copy(handler) for handler in statement.handlers]
        for handler in reduced.handlers:
            inside = Slice(set(before), self._keep, self._loaders, self._modules)
            body = inside.of(handler.body)
            self.needed |= (inside.needed if body else set()) | (names_in(handler.type) if handler.type else set())
            handler.body = body or [ast.Raise()]
        return reduced if reduced.handlers else ast.If(ast.Constant(True), body, [])

    def _simple(self, statement: ast.stmt) -> ast.stmt | None:
        sets = set(_sets(statement))
        changed = (sets | set(self._changes(statement))) & self.needed
        if not changed or (changed <= self._loaders and statement not in self._keep):
            return None
        if not isinstance(statement, ast.AugAssign):
            self.needed -= sets
        self.needed |= names_in(statement)
        return statement

    def _changes(self, statement: ast.stmt) -> list[str]:
        """The variables whose object a statement changes: an attribute or entry is set, or a method is called."""
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            owner: ast.expr = statement.value.func
            changed: list[ast.expr] = [owner] if isinstance(owner, ast.Attribute) else []
        else:
            changed = [one for one in assigned(statement) if isinstance(one, ast.Attribute | ast.Subscript)]
        return [name for one in changed if (name := _owner(one)) and name not in self._modules]


def _sets(statement: ast.stmt) -> list[str]:
    """The variables that a statement sets."""
    if isinstance(statement, Definition):
        return [statement.name]
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return [alias.asname or alias.name.partition(".")[0] for alias in statement.names]
    plain = [target for target in assigned(statement) if not isinstance(target, ast.Subscript)]
    return [name for target in plain for name in bound(target)]


def _owner(expression: ast.expr) -> str | None:
    while isinstance(expression, ast.Attribute | ast.Subscript | ast.Call):
        expression = expression.func if isinstance(expression, ast.Call) else expression.value
    return expression.id if isinstance(expression, ast.Name) else None


def names_in(node: ast.AST) -> set[str]:
    """The variables that an expression or a statement reads, without those that it sets itself."""
    names = [inner for inner in ast.walk(node) if isinstance(inner, ast.Name)]
    own = {inner.arg for inner in ast.walk(node) if isinstance(inner, ast.arg)}
    if isinstance(node, ast.expr | Definition):  # variables of comprehensions, lambdas and functions
        own |= {name.id for name in names if isinstance(name.ctx, ast.Store)}
    else:
        inside = (inner for inner in ast.walk(node) if isinstance(inner, ast.comprehension))
        own |= {name for one in inside for name in bound(one.target)}
    return {name.id for name in names if isinstance(name.ctx, ast.Load)} - own
