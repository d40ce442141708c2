"""What `dataguard init` proposes for a project: its training script, or a function that returns its loaders."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from dataguard.project.sources import Definition, Function, LoaderCalls, Project, Source, required
from dataguard.settings.target_spelling import script_spelling, spelled_role
from dataguard.targets.spelling import FACTORY_PARAMETERS, FUNCTION, TARGET, loaders_file

_ENTRIES = ("train", "main", "run", "fit", "pretrain", "finetune")
_ASIDE = re.compile(
    r"tests?|testing|eval\w*|valid\w*|infer\w*|predict\w*|demos?|export\w*|convert\w*|bench\w*|profil\w*|backups?|old|legacy|"
    r"visuali[sz]\w*"
)
"""Words in the path of a script that is seldom the one that trains."""
_STEPS = frozenset({"backward", "step", "fit"})
"""Methods that a training calls: of the loss, of the optimizer, of a trainer."""
_TRAINERS = re.compile(r"\w*Trainer$")


@dataclass(frozen=True, slots=True)
class Proposal:
    """Targets, what they are called, the folders to import from, and the text of `dataguard_loaders.py` if needed."""

    name: str
    targets: tuple[str, ...]
    pythonpath: tuple[str, ...] = ()
    file: str | None = None

    @property
    def target(self) -> str:
        """The targets as `dataguard scan` takes them."""
        return " ".join(self.targets)

    @property
    def unfinished(self) -> bool:
        """Whether the file has values that only the user knows."""
        return self.file is not None and re.search(r"=\.\.\.|['\"]\.\.\.['\"]", self.file) is not None


def proposals(project: Project, arguments: Sequence[str] = (), script: str | None = None) -> list[Proposal]:
    """What the source of a project offers, the best first; its scripts take these arguments. Or one `script` alone.

    A function that needs no arguments is better than the script that calls it; a script that trains is better than any
    other function, and that is better than a script that does not train, and than a notebook. The loaders of a script
    that trains may be made by what the source does not show, such as a configuration or another library.
    """
    if script is not None:
        source = next((source for source in project.sources if source.path == Path(script)), None)
        plain = Proposal(f"the loaders of {script}", (script_spelling(script, arguments),))
        return [plain if source is None else _of_script(project, source, arguments)]
    calls = LoaderCalls(project)
    scripts = sorted(_scripts(calls), key=lambda script: script.rank)
    training = [script for script in scripts if script.is_training]
    others = [script for script in scripts if not script.is_training]
    ready, missing = _factories(calls)
    first = ready if not training or _called(calls, training[0]) else []
    by_script, by_other = (
        [_of_script(project, entry.source, arguments) for entry in group] for group in (training, others)
    )
    return list(dict.fromkeys([*first, *by_script, *ready, *by_other, *missing]))


@dataclass(frozen=True, slots=True)
class _Script:
    """A script that makes loaders or trains, itself or through what it imports; the lowest `rank` is first."""

    source: Source
    makes: bool
    trains: bool
    rank: tuple[object, ...]

    @property
    def is_training(self) -> bool:
        """Whether it is the training of a project: a notebook tries something out."""
        return self.makes and self.trains and not self.source.is_notebook


def _scripts(calls: LoaderCalls) -> Iterator[_Script]:
    sources = calls.project.sources
    makes = {source for source in sources if calls.named_in(source)}
    steps = {source for source in sources if _trains(calls.project, source)}
    for source in sources:
        reached = calls.project.reached_from(source)
        trains = not reached.isdisjoint(steps)
        made = not reached.isdisjoint(makes)
        if not _runs(calls, source) or not (made or (trains and any(map(_uses_torch, reached)))):
            continue
        stem = source.path.stem.lower()
        aside = any(map(_ASIDE.fullmatch, re.split(r"[^a-z]+", source.path.with_suffix("").as_posix().lower())))
        rank = (
            source.is_notebook,
            not trains,
            not made,
            aside,
            not stem.startswith(_ENTRIES),
            len(source.path.parts),
            source not in steps,
            source not in makes,
            str(source.path),
        )
        yield _Script(source, made, trains, rank)


def _runs(calls: LoaderCalls, source: Source) -> bool:
    """Whether a module is a script: it does work when it runs, and is not only imported."""
    return bool(source.guarded) or source.runs_on_import or any(calls.bindings(source, source.tree.body))


def _uses_torch(source: Source) -> bool:
    return any(name.partition(".")[0] == "torch" for name in source.imports.values())


def _trains(project: Project, source: Source) -> bool:
    """Whether a module calls what a training calls; a trainer of the project trains where it is defined."""
    called = [node.func for node in ast.walk(source.tree) if isinstance(node, ast.Call)]
    names = {
        callee.attr if isinstance(callee, ast.Attribute) else getattr(callee, "id", "")
        for callee in called
        if project.definition(source.refers_to(callee)) is None
    }
    return bool(names & _STEPS) or any(map(_TRAINERS.match, names))


def _of_script(project: Project, source: Source, arguments: Sequence[str]) -> Proposal:
    in_package = any(isinstance(node, ast.ImportFrom) and node.level for node in ast.walk(source.tree))
    program = f"-m {source.name}" if in_package else source.path.as_posix()
    name, target = f"the loaders of {source.path.as_posix()}", script_spelling(program, arguments)
    own = source.path.parent.as_posix()  # where Python looks for what a script imports
    roots = {module.root for module in project.reached_from(source) if module is not source or in_package}
    return Proposal(name, (target,), tuple(sorted(roots - {".", *([] if in_package else [own])})))


def _called(calls: LoaderCalls, script: _Script) -> bool:
    """Whether a script calls a function that makes loaders without arguments."""
    return any(
        isinstance(node, ast.Call)
        and not node.args
        and not node.keywords
        and calls.made(script.source, node) in calls.makers
        for node in ast.walk(script.source.tree)
    )


def _factories(calls: LoaderCalls) -> tuple[list[Proposal], list[Proposal]]:
    """Functions and data modules that make loaders: those that need no arguments, and those that need some."""
    makers = [maker for maker in calls.makers.values() if not maker[1].name.startswith("_")]
    ready = [maker for maker in makers if not _missing(maker[1])]
    needy = [maker for maker in makers if _missing(maker[1])]
    outermost = _outermost(calls, ready)
    named = [
        Proposal(f"{node.name}() in {source.path}", (f"{source.name}:{node.name}",), _root(source))
        for source, node in (*outermost, *(maker for maker in ready if maker not in outermost))
    ]
    if len(outermost) > 1:
        named.insert(0, _together(outermost))
    open_ = [
        Proposal(
            f"{node.name}({', '.join(_missing(node))}) in {source.path}",
            (TARGET,),
            _root(source),
            loaders_file(source.name, node.name, {}, _missing(node)),
        )
        for source, node in needy
    ]
    return named, open_


Maker = tuple[Source, Definition]


def _outermost(calls: LoaderCalls, makers: Sequence[Maker]) -> list[Maker]:
    """The makers that no other of them calls, whose loaders are among its own."""
    called = {
        made
        for source, node in makers
        for call in ast.walk(node)
        if isinstance(call, ast.Call) and (made := calls.made(source, call)) != f"{source.name}.{node.name}"
    }
    return [(source, node) for source, node in makers if f"{source.name}.{node.name}" not in called]


def _together(makers: Sequence[Maker]) -> Proposal:
    """One target of functions that each make a split of the same data; else a target for each.

    Nothing is called here, so that one which fails is one result among those of the others.
    """
    listed = ", ".join(f"{node.name}() in {source.path}" for source, node in makers)
    roots = tuple(sorted({source.root for source, _ in makers} - {"."}))
    roles = {spelled_role(node.name): node.name for _, node in makers}
    if None not in roles and len(roles) == len(makers) and all(isinstance(node, Function) for _, node in makers):
        imports = "\n".join(f"from {source.name} import {node.name}" for source, node in makers)
        entries = "".join(f'    "{role}": {name},\n' for role, name in roles.items())
        return Proposal(listed, (TARGET,), roots, f"{imports}\n\n{FUNCTION} = {{\n{entries}}}\n")
    targets = [f"{source.name}:{node.name}" for source, node in makers]
    return Proposal(
        listed, tuple(f"{name}={target}" for name, target in zip(_names(makers), targets, strict=True)), roots
    )


def _names(makers: Sequence[Maker]) -> list[str]:
    """A name for each maker: its own without `make` and `loaders`, else its package; both, if several have one."""
    own = ["_".join(word for word in _words(node.name) if not _USUAL.fullmatch(word)) for _, node in makers]
    packages = [source.name.partition(".")[0] for source, _ in makers]
    first = [name or package for name, package in zip(own, packages, strict=True)]
    if len(set(first)) < len(first):
        pairs = zip(first, packages, strict=True)
        first = [name if name == package else f"{package}.{name}" for name, package in pairs]
    return first if len(set(first)) == len(first) else [f"{source.name}.{node.name}" for source, node in makers]


def _words(name: str) -> list[str]:
    """The words of a name such as `make_loaders` or `SpeechDataModule`, in small letters."""
    return [word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+", name)]


_USUAL = re.compile(r"(data)?loaders?|data|modules?|make|build|get|create|setup|the|all")
"""Words in the name of whatever makes loaders."""


def _root(source: Source) -> tuple[str, ...]:
    return () if source.root == "." else (source.root,)


def _missing(definition: Definition) -> list[str]:
    return [name for name in required(definition) if name not in FACTORY_PARAMETERS]
