"""What a factory is called with."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from dataguard.in_memory_targets import is_held
from dataguard.model import UsageError
from dataguard.settings.suggestions import suggest
from dataguard.settings.target_spelling import parsed
from dataguard.targets.loaders_file import MODULE, TARGET, loaders_file

FACTORY_PARAMETERS = ("rank", "world_size", "seed", "epoch", "num_workers", "root")
"""Factory parameters that are passed by name if the signature has them."""


def arguments_of(source: Any, spelling: str, args: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """What a factory is called with: the target's own arguments, and by name what is `given`.

    An observation gives a rank or a number of workers on purpose; the seed of the settings is only a default.
    """
    parameters = list(parameters_of(source))
    _require_known(spelling, args, parameters)
    bound = source.keywords if isinstance(source, functools.partial) else {}
    alone = {"rank": 0, "world_size": 1, "epoch": 0}
    on_purpose = {name: value for name, value in given.items() if name != "seed" or name not in args}
    needed = {**alone, "seed": 0, "num_workers": 2}
    values = {name: value for name, value in alone.items() if name not in bound} | dict(args) | on_purpose
    arguments, missing = dict(args), []
    for parameter in parameters:
        named = parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        required = _is_required(parameter)
        known = {**needed, **values} if required else values
        if named and parameter.name in FACTORY_PARAMETERS and parameter.name in known:
            arguments[parameter.name] = known[parameter.name]
        elif required and parameter.name not in arguments:
            missing.append(parameter.name)
    if missing:
        raise _needs(spelling, args, missing)
    return arguments


def _is_required(parameter: inspect.Parameter) -> bool:
    various = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    return parameter.default is parameter.empty and not various


def _require_known(spelling: str, args: Mapping[str, Any], parameters: Sequence[inspect.Parameter]) -> None:
    """Raise UsageError for an argument of the target that the factory does not take by name."""
    names = [
        parameter.name
        for parameter in parameters
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    ]
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return
    for name in args:
        if name not in names:
            hint = suggest(name, names) if names else "; it takes no arguments by name"
            raise UsageError(f"{spelling}: the factory has no parameter {name!r}{hint}")


def _needs(spelling: str, args: Mapping[str, Any], missing: Sequence[str]) -> UsageError:
    """The error for a factory that needs more arguments: all of them, and a file that passes them."""
    if missing[0] == "self":
        return UsageError(f"{spelling} is a method: name a function that creates the object and calls it")
    named = parsed(spelling)
    names = " and ".join(filter(None, (", ".join(missing[:-1]), missing[-1])))
    if is_held(spelling):
        return UsageError(f"{spelling} needs {names}: pass args={{{', '.join(f'{name!r}: ...' for name in missing)}}}")
    options = " ".join(f"--arg {name}=..." for name in missing)
    file = loaders_file(named.module, named.attribute, args, missing)
    return UsageError(
        f"{spelling} needs {names}: add {options}, or save this as {MODULE}.py, replace each ... and scan "
        f"{TARGET}\n\n{file}"
    )


def parameters_of(factory: Callable[..., Any]) -> Iterable[inspect.Parameter]:
    """The parameters of a factory; none of a built-in one, which has no signature."""
    strings: dict[str, Any] = {}
    if sys.version_info >= (3, 14):  # annotations may use names that are only imported for type checking
        from annotationlib import Format

        strings = {"annotation_format": Format.STRING}
    try:
        return inspect.signature(factory, **strings).parameters.values()
    except (TypeError, ValueError):  # built-in callables have no signature; they are called without arguments
        return ()
