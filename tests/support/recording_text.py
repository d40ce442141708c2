"""Recordings as text that git can compare: JSON with a record on each line.

What does not fit on a line and occurs again is written once, under `shared`, and named by a digest of its content, so
that names do not change with what stands before. Classes are named without their modules, which `classes` lists.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from typing import Any

from tests.support.plain_json import KIND

LINE = 120
"""Characters of a value that is not broken into lines, without its indentation."""
SHORT = 40
"""Characters of a value that shares a line with its neighbours: a number, a name, a shape."""


def written(recordings: Mapping[str, Any]) -> str:
    """The text of the file that holds these recordings, by face."""
    return _Text({face: one | {"reads": dict(sorted(one["reads"].items()))} for face, one in recordings.items()}).whole


def read(text: str) -> dict[str, Any]:
    """The recordings by face that were written."""
    classes: dict[str, str] = {}
    shared: dict[str, Any] = {}

    def full(found: dict[str, Any]) -> Any:
        """An object as it was; `json` reads definitions before what names them."""
        if found.keys() == {"same"}:
            return shared[found["same"]]
        if found.keys() == {"hex"}:
            return {KIND: "bytes", **found}
        if found.keys() == {"class", "module"}:
            classes[found["class"]] = f"{found['module']}:{found['class']}"
        elif found.keys() == {"shared", "is"}:
            shared[found["shared"]] = found["is"]
        elif found.get(KIND) in classes:
            found[KIND] = classes[found[KIND]]
        return found

    recordings: dict[str, Any] = json.loads(text, object_hook=full)["faces"]
    return recordings


class _Text:
    """The text of recordings, and what of them was shared on the way."""

    def __init__(self, recordings: Mapping[str, Any]) -> None:
        self._classes: dict[str, str] = {}
        faces = self._short(recordings)
        counts: Counter[str] = Counter()
        _count(faces, counts)
        self._repeated = {text for text, count in counts.items() if count > 1}
        self._shared: dict[str, str] = {}
        body = self._text(faces, 1)
        modules = [_compact({"class": name, "module": self._classes[name]}) for name in sorted(self._classes)]
        lists = {"classes": modules, "shared": list(self._shared.values())}
        parts = [f'"{name}":[\n  {_joined(lines, 2)}\n ]' for name, lines in lists.items() if lines]
        self.whole = "{\n " + _joined([*parts, f'"faces":{body}'], 1) + "\n}\n"

    def _short(self, value: Any) -> Any:
        """The value with short names of classes; two classes of one name keep their modules, but for the first."""
        if isinstance(value, list):
            return [self._short(one) for one in value]
        if not isinstance(value, dict):
            return value
        if value.get(KIND) == "bytes":
            return {"hex": value["hex"]}
        short = {name: self._short(one) for name, one in value.items()}
        module, _, name = str(value.get(KIND, "")).partition(":")
        if name and self._classes.setdefault(name, module) == module:
            short[KIND] = name
        return short

    def _text(self, value: Any, indent: int) -> str:
        compact = _compact(value)
        if len(compact) <= LINE or not isinstance(value, (list, dict)):
            return compact
        if compact not in self._repeated:
            return self._broken(value, indent)
        name = sha256(compact.encode()).hexdigest()[:8]
        if compact not in self._shared:
            # Its own parts come first: whoever reads the file has seen what is named.
            text = self._broken(value, 2)
            self._shared[compact] = f'{{"shared":"{name}","is":{text}}}'
        return f'{{"same":"{name}"}}'

    def _broken(self, value: list[Any] | dict[str, Any], indent: int) -> str:
        """A container over several lines: what it holds, a line each, but as many short values as fit."""
        below = indent + 1
        if isinstance(value, dict):
            parts = [f"{_compact(name)}:{self._text(one, below)}" for name, one in value.items()]
        else:
            parts = [self._text(one, below) for one in value]
        opening, closing = "{}" if isinstance(value, dict) else "[]"
        return f"{opening}\n{' ' * below}{_joined(_filled(parts), below)}\n{' ' * indent}{closing}"


def _filled(parts: Iterable[str]) -> Iterator[str]:
    """Lines of parts, of which short ones share a line."""
    line = ""
    for part in parts:
        if line and (len(part) > SHORT or len(line) + len(part) > LINE):
            yield line
            line = ""
        if len(part) > SHORT:
            yield part
        else:
            line = f"{line},{part}" if line else part
    if line:
        yield line


def _count(value: Any, counts: Counter[str]) -> None:
    """Count what does not fit on a line; the parts of what occurs again are not counted again."""
    if isinstance(value, (list, dict)):
        text = _compact(value)
        if len(text) > LINE:
            counts[text] += 1
            if counts[text] == 1:
                for one in value.values() if isinstance(value, dict) else value:
                    _count(one, counts)


def _joined(lines: Iterable[str], indent: int) -> str:
    return f",\n{' ' * indent}".join(lines)


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
