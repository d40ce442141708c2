"""What `dataguard init` proposes for a project: a target, and a file that makes it one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from dataguard.project.inlining import Inlined, inlined
from dataguard.project.loader_calls import LoaderCalls, required
from dataguard.project.slicing import Unclear
from dataguard.project.sources import Definition, Function, Project, Source
from dataguard.settings.role_names import spelled_role
from dataguard.target.arguments import FACTORY_PARAMETERS
from dataguard.target.loaders_file import TARGET, function, loaders_file

_ENTRIES = ("train", "main", "run", "fit")


@dataclass(frozen=True, slots=True)
class Proposal:
    """A target, where it was found, the folders to import from, and the text of `dataguard_loaders.py` if it needs one.

    `script` is the file to run instead, if loaders cannot be taken out of it.
    """

    found: str
    target: str = ""
    pythonpath: tuple[str, ...] = ()
    file: str | None = None
    script: Path | None = None

    @property
    def unfinished(self) -> bool:
        """Whether the file has values that only the user knows."""
        return self.file is not None and re.search(r"=\.\.\.|['\"]\.\.\.['\"]", self.file) is not None


def propose(folder: Path, arguments: Sequence[str] = ()) -> Proposal | None:
    """Look for loaders in the source of a project, whose script takes these arguments; None if there are none."""
    project = Project(folder)
    calls = LoaderCalls(project)
    for source, scope in sorted(_users(calls), key=lambda user: _rank(calls, *user)):
        try:
            return _inlined(inlined(calls, source, scope, arguments), source, scope)
        except Unclear:
            continue
    return _factories(calls) or _script(calls)


def _users(calls: LoaderCalls) -> Iterator[tuple[Source, Function | None]]:
    """The functions that make loaders and keep them, and (None) what a module does as a script."""
    for source in calls.project.sources:
        for name, node in source.definitions.items():
            used = isinstance(node, Function) and f"{source.name}.{name}" not in calls.makers
            if used and isinstance(node, Function) and calls.bindings(source, node.body):
                yield source, node
        if calls.bindings(source, source.guarded):
            yield source, None


def _rank(calls: LoaderCalls, source: Source, scope: Function | None) -> tuple[object, ...]:
    """First come those with loaders of most roles, then training scripts, then those high up in the project."""
    body = source.guarded if scope is None else scope.body
    names = {name for names in calls.bindings(source, body).values() for name in names}
    roles = {spelled_role(name) for name in names} - {None}
    words = (source.path.stem.lower(), "" if scope is None else scope.name.lower())
    entry = any(word.startswith(_ENTRIES) for word in words)
    return -len(roles), not entry, -len(names), len(source.path.parts), str(source.path)


def _inlined(made: Inlined, source: Source, scope: Function | None) -> Proposal:
    where = f"{'the script' if scope is None else f'{scope.name}()'} in {source.path}"
    if made.factory:
        return Proposal(f"{made.factory}, as called by {where}", made.factory, made.roots)
    head = f'"""The loaders of {where}, made like there."""'
    return Proposal(f"the loaders of {where}", TARGET, made.roots, f"{head}\n\n{made.text}")


def _factories(calls: LoaderCalls) -> Proposal | None:
    """Functions and data modules that nobody calls in a way that could be taken over."""
    makers = [maker for maker in calls.makers.values() if not maker[1].name.startswith("_")]
    ready = [maker for maker in makers if not _missing(maker[1])]
    roots = tuple(sorted({source.root for source, _ in ready or makers} - {"."}))
    if len(ready) == 1:
        ((source, node),) = ready
        return Proposal(f"{node.name}() in {source.path}", f"{source.name}:{node.name}", roots)
    roles = {spelled_role(node.name) or node.name: (source, node) for source, node in ready}
    if roles and len(roles) == len(ready):
        imports = "\n".join(f"from {source.name} import {node.name}" for source, node in ready)
        text = function({name: f"{node.name}()" for name, (_, node) in roles.items()})
        found = ", ".join(f"{node.name}() in {source.path}" for source, node in ready)
        return Proposal(found, TARGET, roots, f"{imports}\n\n\n{text}")
    for source, node in ready or makers:
        if ready:
            return Proposal(f"{node.name}() in {source.path}", f"{source.name}:{node.name}", roots)
        text = loaders_file(source.name, node.name, {}, _missing(node))
        return Proposal(f"{node.name}({', '.join(_missing(node))}) in {source.path}", TARGET, roots, text)
    return None


def _missing(definition: Definition) -> list[str]:
    return [name for name in required(definition) if name not in FACTORY_PARAMETERS]


def _script(calls: LoaderCalls) -> Proposal | None:
    """The script whose loaders exist only while it runs."""
    making = [source for source in calls.project.sources if calls.in_expression(source, source.tree)]
    scripts = [source for source in calls.project.sources if source.guarded or source.runs_on_import]
    scripts.sort(
        key=lambda one: (not one.path.stem.lower().startswith(_ENTRIES), one not in making, len(one.path.parts))
    )
    if not making or not scripts:
        return None
    return Proposal(f"loaders that {scripts[0].path} makes while it runs", script=scripts[0].path)
