"""A statement of the user's file as text, and the edits that change one part of it. Standard library only.

What a name stands for is read from the imports of its file, so that a change can be written with the names that the
user's code has: `cv2.INTER_NEAREST` where it imports `cv2`.
"""

from __future__ import annotations

import ast
import difflib
import io
import tokenize
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate
from pathlib import Path

from dataguard.core.incident import is_library

_MOST_BYTES = 2_000_000
"""The largest file that is parsed."""
Edit = tuple[ast.AST, str]
"""A part of a statement, and the text in place of it."""


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement in one line, without what is nested in it: of a loop, its header."""

    text: str
    imports: Mapping[str, str] = field(default_factory=dict)
    """What each imported name of the file stands for: `{"F": "torch.nn.functional"}`."""
    parameters: Sequence[str] = ()
    """The parameters of the function that the statement is in."""
    lines: tuple[int, int] = (1, 1)
    """Its first and last line in the file."""

    @property
    def tree(self) -> ast.stmt:
        """The statement, parsed; nodes have the places that they have in the text."""
        return _tree(self.text)

    def calls(self, tree: ast.AST) -> Iterator[tuple[str, ast.Call]]:
        """Each call with what it calls: `cv2.resize`, or `.resize` for a method of anything else."""
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                yield self.named(node.func), node

    def named(self, function: ast.expr) -> str:
        """What an expression stands for: an imported name in full, `.name` for an attribute of something else."""
        parts: list[str] = []
        node = function
        while isinstance(node, ast.Attribute):
            parts.insert(0, node.attr)
            node = node.value
        if isinstance(node, ast.Name) and node.id in self.imports:
            return ".".join([self.imports[node.id], *parts])
        return f".{parts[-1]}" if parts else getattr(node, "id", "")

    def spelled(self, name: str) -> str:
        """How the user's file spells an imported name: `A.Compose` for `albumentations.Compose`, if it imports A."""
        known = [
            f"{local}{name[len(whole) :]}"
            for local, whole in self.imports.items()
            if name == whole or name.startswith(f"{whole}.")
        ]
        return min(known, key=len, default=name)

    def source(self, node: ast.AST) -> str:
        """The text of a part."""
        first, last = _span(node)
        return self.text.encode()[first:last].decode()

    def edited(self, *edits: Edit) -> str | None:
        """The statement with other parts; None if nothing changes, if one is part of another, or if it is no Python."""
        encoded, end = self.text.encode(), len(self.text.encode())
        for node, text in sorted(edits, key=lambda edit: _span(edit[0]), reverse=True):
            first, last = _span(node)
            if last > end:
                return None
            encoded, end = encoded[:first] + text.encode() + encoded[last:], first
        changed = encoded.decode()
        try:
            ast.parse(f"{changed} pass" if changed.endswith(":") else changed)
        except SyntaxError:
            return None
        return changed if changed != self.text else None

    def with_keyword(self, call: ast.Call, name: str, value: str) -> str:
        """A call with a keyword argument, in place of one of this name."""
        for keyword in call.keywords:
            if keyword.arg == name:
                return self._replaced(call, keyword.value, value)
        given = self.source(call)
        inside = given[: given.rindex(")")].rstrip().rstrip(",")
        return f"{inside}{', ' if call.args or call.keywords else ''}{name}={value})"

    def without_keywords(self, call: ast.Call, *names: str) -> str:
        """A call without the keyword arguments of these names."""
        kept = [self.source(one) for one in (*call.args, *(each for each in call.keywords if each.arg not in names))]
        return f"{self.source(call.func)}({', '.join(kept)})"

    def _replaced(self, whole: ast.AST, part: ast.AST, text: str) -> str:
        start = _span(whole)[0]
        first, last = (place - start for place in _span(part))
        given = self.source(whole).encode()
        return (given[:first] + text.encode() + given[last:]).decode()


def with_arguments(file: str, line: int, function: str, values: Mapping[str, str | None]) -> list[str] | None:
    """The lines that change if a call of `function` at a line gets these keyword arguments, as a diff has them.

    An argument of None is left out. Without such a call at the line, one that has any of these arguments counts.
    None if there is no such call or several, or if it takes some from elsewhere (`**settings`).
    """
    parsed = None if is_library(file) else _parsed(file)
    if parsed is None:
        return None
    lines, tree = parsed
    calls = [
        node for node in ast.walk(tree) if isinstance(node, ast.Call) and node.lineno <= line <= (node.end_lineno or 0)
    ]
    of_function = [call for call in calls if ast.unparse(call.func).rpartition(".")[2] == function]
    others = [call for call in calls if {one.arg for one in call.keywords} & set(values)]
    first = [call for call in of_function or others if call.lineno == line] or of_function or others
    if len(first) != 1 or any(one.arg is None for one in first[0].keywords):
        return None
    changed = _with_keywords("\n".join(lines), first[0], values).split("\n")
    shown = [one for one in difflib.unified_diff(lines, changed, n=0, lineterm="") if one[:3] not in ("---", "+++")]
    return [one for one in shown if one[0] in "-+"] if _parses("\n".join(changed)) else None


def _with_keywords(text: str, call: ast.Call, values: Mapping[str, str | None]) -> str:
    """A file with other keyword arguments of a call, which is where the tree of the file has it."""
    encoded = text.encode()
    starts = [0, *accumulate(len(line) + 1 for line in encoded.split(b"\n"))]

    def span(node: ast.AST) -> tuple[int, int]:
        first, last = (getattr(node, name, 1) - 1 for name in ("lineno", "end_lineno"))
        return starts[first] + _span(node)[0], starts[last] + _span(node)[1]

    given = {one.arg: one for one in call.keywords}
    parts = sorted(map(span, (*call.args, *call.keywords)))
    last = parts[-1][1] if parts else span(call)[1] - 1
    edits, added = [], ""
    for name, value in values.items():
        if name not in given:
            added += f", {name}={value}" if value is not None else ""
        elif value is not None:
            edits.append((*span(given[name].value), value))
        else:
            first, end = span(given[name])
            before = [other_end for _, other_end in parts if other_end <= first]
            after = [other for other, _ in parts if other >= end]
            edits.append((before[-1], end, "") if before else (first, min(after, default=end), ""))
    for first, end, new in sorted([*edits, (last, last, added if parts else added[2:])], reverse=True):
        encoded = encoded[:first] + new.encode() + encoded[end:]
    return encoded.decode()


@lru_cache(maxsize=32)
def _tree(text: str) -> ast.stmt:
    return ast.parse(f"{text} pass" if text.endswith(":") else text).body[0]


def statement_at(file: str, line: int) -> Statement | None:
    """The innermost statement of a line; None where the file cannot be parsed, or belongs to a library."""
    parsed = None if is_library(file) else _parsed(file)
    if parsed is None:
        return None
    lines, tree = parsed
    found: ast.stmt | None = None
    function: ast.FunctionDef | ast.AsyncFunctionDef | None = None
    for node in ast.walk(tree):  # outer ones come first
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or node.lineno):
            found = node
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                function = node
    if found is None:
        return None
    text, span = _text(lines[line - 1], found, line)
    if not text:
        return None
    given = function.args if function else None
    parameters = [one.arg for one in (*given.posonlyargs, *given.args, *given.kwonlyargs)] if given else []
    return Statement(text, dict(_imports(tree)), parameters, span)


def _text(whole: str, node: ast.stmt, line: int) -> tuple[str, tuple[int, int]]:
    """A statement in one line, or the line alone if it parses so; "" for a header that does not."""
    last = node.end_lineno or node.lineno
    alone = _without_comment(whole)
    body = getattr(node, "body", None)
    if body:
        is_header = node.lineno == line < body[0].lineno and alone.endswith(":")
        return (alone if is_header and _parses(f"{alone} pass") else ""), (line, line)
    if node.lineno == last:
        return whole.encode()[node.col_offset : node.end_col_offset].decode(), (line, line)
    return (alone, (line, line)) if _parses(alone) else (ast.unparse(node), (node.lineno, last))


def _without_comment(line: str) -> str:
    text = line.strip()
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                return text[: token.start[1]].rstrip()
    except (tokenize.TokenError, SyntaxError):  # brackets that other lines close: what was read before is known
        pass
    return text


def _parses(text: str) -> bool:
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True


@lru_cache(maxsize=32)
def _parsed(file: str) -> tuple[list[str], ast.Module] | None:
    try:
        if Path(file).stat().st_size > _MOST_BYTES:
            return None
        text = Path(file).read_text(encoding="utf-8-sig")
        return text.split("\n"), ast.parse(text)
    except (OSError, ValueError, SyntaxError, RecursionError):
        return None


def _imports(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for one in node.names:
                yield (one.asname, one.name) if one.asname else (one.name.split(".")[0], one.name.split(".")[0])
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for one in node.names:
                yield one.asname or one.name, f"{node.module}.{one.name}"


def _span(node: ast.AST) -> tuple[int, int]:
    """The bytes of a node in its first line, and in its last one."""
    first, last = getattr(node, "col_offset", 0), getattr(node, "end_col_offset", 0)
    return first, last
