"""How targets are spelled: `[name=]pkg.mod:attr(split="train")`, scripts, objects in hand. Standard library only.

The arguments of a factory are part of the spelling, as JSON values by name. So whatever knows a target knows its
arguments: the observing process, a command that reproduces a finding, the key of a cache. `run script.py ARGS` spells a
script. An object that `dataguard.scan` was given is an attribute of this module while it is scanned (`held`): forks of
this process find it by a spelling like any other. `parsed` takes a spelling apart; what errors say of wrong values
(`shown_value`, `suggest`) and how names spell the roles of loaders (`spelled_role`) are here as well.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from dataguard.core.model import UsageError


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
        raise UsageError(
            f"{shown_value(spelling)} is not a target{_repaired(spelling)}; write {form or 'pkg.mod:factory'}"
        )
    roles = [value for value in args.values() if isinstance(value, str) and spelled_role(value) and value.isalpha()]
    name = match["name"] or (roles[0] if len(roles) == 1 else match["attribute"].rpartition(".")[2])
    return Spelled(name, match["module"], match["attribute"], args)


_SPELLING = re.compile(
    r"(?:(?P<name>[\w.-]+)=)?(?P<module>[\w-]+(?:\.[\w-]+)*):(?P<attribute>[^\W\d]\w*(?:\.[^\W\d]\w*)*)"
    r"(?:\((?P<args>.+)\))?"
)


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


_ARGUMENT = re.compile(r"\s*([^\W\d]\w*)\s*=\s*")
_SEPARATOR = re.compile(r"\s*(,|$)")


def _repaired(spelling: str) -> str:
    """A suggestion for a malformed target: a file path, pytest's `::`, a dot instead of the colon, a call."""
    name, path, attribute, args = _taken_apart(spelling)
    if _is_module_file(path) and not (file := Path(path).resolve()).is_relative_to(Path.cwd()):
        return f" (its file is outside of the current directory: run dataguard in {file.parent})"
    if path.endswith(".py") or "/" in path or "\\" in path:
        path = ".".join(_module_parts(path))
    elif attribute is None:
        path, _, attribute = path.rpartition(".")
    guess = f"{name}{path}:{attribute or 'factory'}"
    if args.endswith(")") and args != "()" and _arguments(args[1:-1]) is not None:
        guess += args
    return f" (did you mean {guess}?)" if _SPELLING.fullmatch(guess) and guess != spelling else ""


def _of_file(spelling: str) -> str:
    """The target of a file below the current directory, by its module: `pkg/data.py:make` is `pkg.data:make`."""
    name, path, attribute, args = _taken_apart(spelling)
    if not _is_module_file(path) or not (file := Path(path).resolve()).is_relative_to(Path.cwd()):
        return spelling
    named = f"{name}{'.'.join(_module_parts(str(file)))}:{attribute or ''}{args}"
    return named if _SPELLING.fullmatch(named) else spelling


def _is_module_file(path: str) -> bool:
    """Whether this names a file of Python code; it may hold what no path can, or be too long for one."""
    with suppress(OSError):
        return path.endswith(".py") and Path(path).is_file()
    return False


def _taken_apart(spelling: str) -> tuple[str, str, str | None, str]:
    """The `name=`, module or path, attribute and `(arguments)` of a target, which may be malformed or have no colon."""
    head, parenthesis, args = spelling.partition("(")
    name, equals, rest = head.rpartition("=")
    text = rest.replace("::", ":")
    path, attribute = text.rsplit(":", 1) if re.search(r":[\w.]*$", text) else (text, None)
    return f"{name}{equals}", path, attribute, f"{parenthesis}{args}"


def _module_parts(path: str) -> list[str]:
    """The parts of the module name for a file path, relative to the current directory."""
    file = Path(path.replace("\\", "/"))
    if file.is_absolute() and file.is_relative_to(Path.cwd()):
        file = file.relative_to(Path.cwd())
    if file.parts[:1] == ("src",) and not Path("src", "__init__.py").exists():  # a folder of packages, and none itself
        file = file.relative_to("src")
    return [part for part in file.with_name(file.stem).parts if part != "__init__"] if file.name else []


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
        raise UsageError(f"{where}: expected a list of targets, got {shown_value(value)}")
    return tuple(spelling for entry in entries for spelling in _entry(entry, where))


def _entry(entry: Any, where: str) -> Iterable[str]:
    if isinstance(entry, str):
        whole = "(" in entry or script_of(entry)  # the values of arguments may hold commas
        words = [entry] if whole else entry.split(",")
        return [_of_file(word.strip()) for word in words if word.strip()]
    if not isinstance(entry, Mapping):
        raise UsageError(f"{where}: expected strings or tables {{factory = ..., args = ...}}, got {shown_value(entry)}")
    for key in entry:
        if key not in _KEYS:
            raise UsageError(f"{where}: unknown key {key!r}{suggest(key, _KEYS)}")
    factory = entry.get("factory")
    if not isinstance(factory, str):
        raise UsageError(
            f'{where}: a table needs a factory, such as factory = "pkg.mod:factory", got {shown_value(dict(entry))}'
        )
    name = f"{entry['name']}=" if "name" in entry else ""
    return [with_args(f"{name}{factory}", as_args(entry.get("args", {}), f"{where}: args of {factory}"))]


_KEYS = ("factory", "args", "name")


def as_args(value: Any, where: str = "args") -> dict[str, Any]:
    """The arguments of a factory: a table of JSON values, or words `name=value` as on a command line."""
    if isinstance(value, list | tuple):
        return _typed(value)
    if not isinstance(value, Mapping):
        raise UsageError(
            f'{where}: expected a table of arguments, such as {{split = "train"}}, got {shown_value(value)}'
        )
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


_PYTHON = {"True": "true", "False": "false", "None": "null"}


def script_spelling(path: str, arguments: Iterable[str]) -> str:
    """The spelling of a script, or of `-m module`, that is called with these arguments."""
    return f"{_SCRIPT}{program(path)} {shlex.join(arguments)}".rstrip()


def program(path: str) -> str:
    """A script, or `-m module`, as a command line has it."""
    return path if path.startswith(_MODULE) else shlex.quote(path)


_SCRIPT, _MODULE = "run ", "-m "


def script_of(spelling: str) -> list[str]:
    """The path of a script, or `-m module`, and its arguments; [] for any other target."""
    words = shlex.split(spelling.removeprefix(_SCRIPT)) if spelling.startswith(_SCRIPT) else []
    return [_MODULE + words[1], *words[2:]] if words[:1] == [_MODULE.strip()] else words


def module_of(path: str) -> str | None:
    """The module of `-m module`; None of a script."""
    return path.removeprefix(_MODULE) if path.startswith(_MODULE) else None


def hold(value: Any, name: str = "loader") -> str:
    """Keep an object, and return its spelling. Raises UsageError where processes cannot be forked."""
    if not hasattr(os, "fork"):
        kind = type(value).__name__
        raise UsageError(f"a {kind} in hand needs os.fork, which this system lacks: name a target, 'pkg.mod:factory'")
    attribute = f"object_{next(_numbers)}"
    globals()[attribute] = value
    return f"{name}={__name__}:{attribute}"


_numbers = count(1)


@contextmanager
def held(values: Sequence[Any], names: Sequence[str] = ()) -> Iterator[tuple[str, ...]]:
    """The spellings of these targets: strings are spellings, other objects are held as long as the context lasts."""
    if not names:
        names = ("loader",) if len(values) == 1 else tuple(f"loader{number}" for number in range(1, len(values) + 1))
    spellings = [
        value if isinstance(value, str) else hold(value, name) for value, name in zip(values, names, strict=True)
    ]
    try:
        yield tuple(spellings)
    finally:
        for spelling in filter(is_held, spellings):
            del globals()[spelling.rpartition(":")[2]]


def is_held(spelling: str) -> bool:
    """Whether a spelling is that of a held object, which only a fork of this process can find."""
    return f"={__name__}:" in spelling


def shown_target(spelling: str) -> str:
    """A target for the reader: the name of a held object, else its spelling."""
    return spelling.partition("=")[0] if is_held(spelling) else spelling


def stem_of(name: str) -> str | None:
    """A name without the word for its role, which splits of the same data share; None without such a word."""
    if spelled_role(name) is None:
        return None
    return re.sub(r"[A-Z]?[a-z]+", lambda word: "" if spelled_role(word[0]) else word[0].lower(), name)


def spelled_role(name: str) -> str | None:
    """The role in a name: `make_train_loader`, `val`, `testDataloader`."""
    words = re.findall(r"[A-Z]?[a-z]+", name)
    roles = [role for word in words for role, pattern in _WORDS if pattern.fullmatch(word.lower())]
    return roles[0] if len(set(roles)) == 1 else None


_WORDS = (
    ("train", re.compile(r"train(ing)?|fit")),
    ("val", re.compile(r"val(id(ation)?)?|eval(uation)?|dev")),
    ("test", re.compile(r"test(ing)?")),
    ("predict", re.compile(r"predict(ion)?|infer(ence)?")),
)
ROLE_UNKNOWN = "the role is unknown"
"""How the reason begins for which a check is skipped that needs one."""


def shown_value(value: Any) -> str:
    """A value for the reader of an error: its repr, cut, as it may be long, or an integer of too many digits."""
    try:
        words = repr(value)
    except ValueError:
        return "an integer of thousands of digits"
    return words if len(words) <= _LONGEST_VALUE else f"{words[:_LONGEST_VALUE]}... ({len(words)} characters)"


_LONGEST_VALUE = 200
"""Characters of a value in an error, some two lines of a terminal."""


def suggest(word: str, words: Iterable[str], otherwise: str | None = None) -> str:
    """The end of an error message: the known word closest to a misspelled one, ignoring case.

    If none is close, `otherwise`, or the list of all known words.
    """
    options = list(words)
    spelled = {option.lower(): option for option in reversed(options)}
    mistyped = word.lower().translate(_LETTERS_AS_DIGITS)
    close = [mistyped] if mistyped in spelled else difflib.get_close_matches(word.lower(), spelled, n=1)
    if close:
        return f"; did you mean {spelled[close[0]]!r}?"
    return f"; known: {', '.join(options)}" if otherwise is None else otherwise


_LETTERS_AS_DIGITS = str.maketrans("oil", "011")
"""Letters that are typed in place of the digits of a code."""
