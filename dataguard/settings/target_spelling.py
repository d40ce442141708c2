"""The spelling of a target, `[name=]pkg.mod:attr` or `pkg.mod:attr(split="train")`. Standard library only.

The arguments of a factory are part of the spelling, as JSON values by name. So whatever knows a target knows its
arguments: the observing process, a command that reproduces a finding, the key of a cache.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from dataguard.in_memory_targets import module_of, script_of
from dataguard.model import UsageError
from dataguard.settings.role_names import spelled_role
from dataguard.settings.suggestions import shown, suggest

_SPELLING = re.compile(
    r"(?:(?P<name>[\w.-]+)=)?(?P<module>[\w-]+(?:\.[\w-]+)*):(?P<attribute>[^\W\d]\w*(?:\.[^\W\d]\w*)*)"
    r"(?:\((?P<args>.+)\))?"
)
_ARGUMENT = re.compile(r"\s*([^\W\d]\w*)\s*=\s*")
_SEPARATOR = re.compile(r"\s*(,|$)")
_PYTHON = {"True": "true", "False": "false", "None": "null"}
_KEYS = ("factory", "args", "name")


class Spelled(NamedTuple):
    """The parts of a target's spelling.

    `name` is, unless it is given, the argument that names a role (`split="val"`), else the last part of the attribute.
    """

    name: str
    module: str
    attribute: str
    args: Mapping[str, Any]


def parsed(spelling: str) -> Spelled:
    """The parts of a spelling; a script has a name only. Raises UsageError, with a suggestion, for a malformed one."""
    if script := script_of(spelling):
        module = module_of(script[0])
        return Spelled(module.rpartition(".")[2] if module else Path(script[0]).stem, "", "", {})
    match = _SPELLING.fullmatch(spelling)
    args = _arguments(match["args"] or "") if match else None
    if match is None or args is None or match["module"].endswith(".py"):
        form = 'pkg.mod:factory(split="train"), with JSON values' if "=" in spelling.partition("(")[2] else ""
        raise UsageError(f"{shown(spelling)} is not a target{_repaired(spelling)}; write {form or 'pkg.mod:factory'}")
    roles = [value for value in args.values() if isinstance(value, str) and spelled_role(value) and value.isalpha()]
    name = match["name"] or (roles[0] if len(roles) == 1 else match["attribute"].rpartition(".")[2])
    return Spelled(name, match["module"], match["attribute"], args)


def _arguments(text: str) -> dict[str, Any] | None:
    """The arguments in the parentheses of a spelling, None if they are malformed."""
    args: dict[str, Any] = {}
    at = 0
    while at < len(text):
        name = _ARGUMENT.match(text, at)
        if name is None or name[1] in args:
            return None
        try:
            args[name[1]], at = json.JSONDecoder().raw_decode(text, name.end())
        except ValueError:
            return None
        separator = _SEPARATOR.match(text, at)
        if separator is None:
            return None
        at = separator.end()
    return args


def with_args(spelling: str, args: Mapping[str, Any]) -> str:
    """The spelling of a target with these arguments, which replace its own of the same names."""
    if args and script_of(spelling):
        raise UsageError("--arg: the arguments of a script follow it")
    given = {**parsed(spelling).args, **args}
    plain = spelling if script_of(spelling) else spelling.partition("(")[0]
    written = ", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in given.items())
    return f"{plain}({written})" if given else plain


def as_targets(value: Any, where: str) -> tuple[str, ...]:
    """The parser of the setting `targets`: strings, or tables with a factory and its arguments."""
    entries = [value] if isinstance(value, str | Mapping) else value
    if not isinstance(entries, list | tuple):
        raise UsageError(f"{where}: expected a list of targets, got {shown(value)}")
    return tuple(spelling for entry in entries for spelling in _entry(entry, where))


def _entry(entry: Any, where: str) -> Iterable[str]:
    if isinstance(entry, str):
        whole = "(" in entry or script_of(entry)  # the values of arguments may hold commas
        words = [entry] if whole else entry.split(",")
        return [word.strip() for word in words if word.strip()]
    if not isinstance(entry, Mapping):
        raise UsageError(f"{where}: expected strings or tables {{factory = ..., args = ...}}, got {shown(entry)}")
    for key in entry:
        if key not in _KEYS:
            raise UsageError(f"{where}: unknown key {key!r}{suggest(key, _KEYS)}")
    factory = entry.get("factory")
    if not isinstance(factory, str):
        raise UsageError(
            f'{where}: a table needs a factory, such as factory = "pkg.mod:factory", got {shown(dict(entry))}'
        )
    name = f"{entry['name']}=" if "name" in entry else ""
    return [with_args(f"{name}{factory}", as_args(entry.get("args", {}), f"{where}: args of {factory}"))]


def as_args(value: Any, where: str = "args") -> dict[str, Any]:
    """The arguments of a factory: a table of JSON values, or words `name=value` as on a command line."""
    if isinstance(value, list | tuple):
        return _typed(value)
    if not isinstance(value, Mapping):
        raise UsageError(f'{where}: expected a table of arguments, such as {{split = "train"}}, got {shown(value)}')
    for name, given in value.items():
        if not isinstance(name, str) or not name.isidentifier():
            raise UsageError(f"{where}: {name!r} is not the name of a parameter")
        try:
            json.dumps(given)
        except (TypeError, ValueError):
            raise UsageError(
                f"{where}: {name} is of type {type(given).__name__}, not text, a number, a boolean, a list or a table; "
                "write a function without arguments that makes it and calls the factory"
            ) from None
    return dict(value)


def _typed(words: Iterable[Any]) -> dict[str, Any]:
    args: dict[str, Any] = {}
    for word in words:
        name, equals, text = (part.strip() for part in str(word).partition("="))
        if not equals or not name.isidentifier():
            raise UsageError(f"--arg {word}: expected NAME=VALUE, such as split=train")
        if name in args:
            raise UsageError(f"--arg {word}: {name} is given twice")
        args[name] = _value(text, f"--arg {word}")
    return args


def _value(text: str, where: str) -> Any:
    """A JSON literal, else the text itself."""
    if text in _PYTHON:
        raise UsageError(f"{where}: write {_PYTHON[text]}, as in JSON; the text would be '\"{text}\"'")
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        if text.startswith(("[", "{", '"')):
            raise UsageError(f"{where}: the value is not valid JSON") from None
        return text


def _repaired(spelling: str) -> str:
    """A suggestion for a malformed target: a file path, pytest's `::`, a dot instead of the colon, a call."""
    head, parenthesis, args = spelling.partition("(")
    name, equals, rest = head.rpartition("=")
    text = rest.replace("::", ":")
    path, colon, attribute = text.rpartition(":") if re.search(r":\w*$", text) else (text, "", "")
    if path.endswith(".py") or "/" in path or "\\" in path:
        path = ".".join(_module_parts(path))
    elif not colon:
        path, _, attribute = path.rpartition(".")
    guess = f"{name}{equals}{path}:{attribute or 'factory'}"
    whole = f"{guess}{parenthesis}{args}"
    if args.endswith(")") and args != ")" and _arguments(args[:-1]) is not None:
        guess = whole
    return f" (did you mean {guess}?)" if _SPELLING.fullmatch(guess) and guess != spelling else ""


def _module_parts(path: str) -> list[str]:
    """The parts of the module name for a file path, relative to the current directory."""
    file = Path(path.replace("\\", "/"))
    if file.is_absolute() and file.is_relative_to(Path.cwd()):
        file = file.relative_to(Path.cwd())
    if file.parts[:1] == ("src",) and not Path("src", "__init__.py").exists():  # a folder of packages, and none itself
        file = file.relative_to("src")
    return [part for part in file.with_name(file.stem).parts if part != "__init__"] if file.name else []
