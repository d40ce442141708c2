"""The code of a loader with a defect and of its healthy twin, from the samples of a check."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path

BAD, GOOD = "bad", "good"


def twins(sample: Path) -> tuple[str, str, str]:
    """The source of `bad()` and of `good()` with what only that one uses, and what both use, of a module of samples."""
    source = sample.read_text(encoding="utf-8")
    parts = _definitions(source)
    bad, good = _used(BAD, parts), _used(GOOD, parts)
    lines = source.splitlines()
    return _text(bad - good, parts, lines), _text(good - bad, parts, lines), _text(bad & good, parts, lines)


def _definitions(source: str) -> Mapping[str, ast.stmt]:
    """The functions, classes and constants of a module by name."""
    found: dict[str, ast.stmt] = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found[node.name] = node
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = (name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name))
            found |= dict.fromkeys(names, node)
    return found


def _used(name: str, parts: Mapping[str, ast.stmt]) -> set[str]:
    """A definition and those that it refers to, at any distance."""
    used: set[str] = set()
    waiting = [name]
    while waiting:
        one = waiting.pop()
        if one in parts and one not in used:
            used.add(one)
            waiting += [node.id for node in ast.walk(parts[one]) if isinstance(node, ast.Name)]
    return used


def _text(names: set[str], parts: Mapping[str, ast.stmt], lines: list[str]) -> str:
    nodes = {id(parts[name]): parts[name] for name in names}.values()
    texts = []
    for node in sorted(nodes, key=lambda node: node.lineno):
        first = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", []))])
        texts.append("\n".join(lines[first - 1 : node.end_lineno]))
    return "\n\n\n".join(texts)
