"""Watches which files are opened for reading, and makes some of them appear to be missing."""

from __future__ import annotations

import builtins
import contextlib
import errno
import io
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from dataguard.lab.core.stand_ins import replaced
from dataguard.lab.decoding.decoders import DECODERS, Decoder, Missing
from dataguard.lab.decoding.redirection import redirect
from dataguard.process.originals import os


@contextlib.contextmanager
def watched(fails: Callable[[str], bool], garbage: Path | None = None) -> Iterator[None]:
    """Call `fails` with the path of every file that is opened for reading; if it returns True, the file is missing.

    With `garbage`, that file is opened in its place.
    """
    opening = builtins.open

    def watched_open(file: Any, mode: str = "r", *arguments: Any, **options: Any) -> Any:
        reads = isinstance(file, str | bytes | os.PathLike) and not set(mode) & set("wax+")
        if reads and fails(os.path.realpath(os.fsdecode(file))):
            if garbage is None:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), os.fsdecode(file))
            file = garbage
        return opening(file, mode, *arguments, **options)

    def watched_decoder(function: Callable[..., Any], decoder: Decoder, missing: Missing) -> Callable[..., Any]:
        def decode(*arguments: Any, **options: Any) -> Any:
            path = decoder.given(arguments, options)
            if isinstance(path, str | os.PathLike) and fails(os.path.realpath(path)):
                return missing(os.fspath(path))
            return function(*arguments, **options)

        return decode

    with contextlib.ExitStack() as stack:
        for module in (builtins, io):
            stack.enter_context(replaced(module, "open", watched_open))
        for decoder in DECODERS:
            function = decoder.function
            if function is not None and decoder.missing is not None:
                undo = redirect(function, partial(watched_decoder, decoder=decoder, missing=decoder.missing))
                if undo is not None:
                    stack.callback(undo)
        yield
