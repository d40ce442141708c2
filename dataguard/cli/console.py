"""Where reports and progress go: files, pipes and terminals."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

import click

from dataguard.core.model import Report, Status, UsageError
from dataguard.render.escapes import one_line, printable
from dataguard.render.formats import DRAWING, check_format, format_of, formats_of
from dataguard.settings.files import is_foreign_link, open_pipe, require_path, write_text

if TYPE_CHECKING:
    from rich.console import Console

    from dataguard.cli.live_progress import Terminal

STDOUT = "-"
FILE_WIDTH = 100
"""Columns of text that goes to a file or a pipe."""
_MOST_COLUMNS = 120
"""A line longer than this is hard to read, however wide the terminal."""

FINDINGS, MISUSED, BROKEN, INTERRUPTED = 1, 2, 3, 130
"""Exit codes."""

Command = TypeVar("Command", bound=Callable[..., Any])


def say(words: str, *, err: bool = False) -> None:
    """Print lines on stdout, or on stderr."""
    click.echo(encodable(printable(words), sys.stderr if err else sys.stdout), err=err)


def complain(message: str, code: int, kind: str = "error: ") -> int:
    """Print one message on stderr, and return the exit code; words that it repeats from the input may be long."""
    if code == MISUSED:
        message = "\n".join(map(_cut, message.splitlines()))
    with suppress(OSError):  # the exit code is all that is left to tell it
        say(f"dataguard: {kind}{message}", err=True)
    return code


def _cut(line: str) -> str:
    left_out = len(line) - 2 * _LONGEST_PART
    return f"{line[:_LONGEST_PART]}...{line[-_LONGEST_PART:]}" if left_out > 0 else line


_LONGEST_PART = 400
"""Characters that are shown of the start, and of the end, of a line of an error."""


def format_option(command: str, *, multiple: bool = False) -> Callable[[Command], Command]:
    """The `--format` option of a command; the value is checked before anything runs."""

    def checked(_context: click.Context, _option: click.Parameter, given: Any) -> Any:
        for form in given if multiple else (given,):
            check_format(command, form)
        return given

    return click.option(
        "--format",
        "formats" if multiple else "form",
        metavar="FORMAT",
        multiple=multiple,
        default=None if multiple else "text",
        callback=checked,
        help=f"Output format: {', '.join(formats_of(command))}. [default: text]",
    )


def destinations(command: str, formats: tuple[str, ...], outputs: tuple[str, ...]) -> list[tuple[str, str]]:
    """Pair each format with its output, and check that every file is writable before anything runs.

    The suffix of an output without a format sets it.
    """
    outputs = outputs or (STDOUT,)
    if len(formats) > len(outputs):
        raise UsageError(
            f"{len(formats)} --format but {len(outputs)} --output: give one output per format, in the same order"
        )
    formats += tuple(format_of(command, output) for output in outputs[len(formats) :])
    if len(set(outputs)) < len(outputs):
        raise UsageError("two formats have the same --output")
    for output in outputs:
        if output != STDOUT:
            require_writable("--output", output)
    return list(zip(formats, outputs, strict=True))


def require_writable(option: str, file: str) -> None:
    """Raise UsageError if the file of an option cannot be written."""
    require_path(file, option)
    path = Path(file)
    if not path.parent.is_dir():
        raise UsageError(f"{option} {file}: no such folder: {path.parent}")
    if is_foreign_link(path):
        raise UsageError(f"{option} {file}: is a link of another user; remove it, or name another file")
    if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        raise UsageError(f"{option} {file}: {'is a folder' if path.is_dir() else 'is not writable'}")
    try:
        open_pipe(path)
    except OSError as error:
        raise UsageError(f"{option} {file}: {error.strerror}; start its reader first, or name another file") from error


def drawn(wanted: Sequence[tuple[str, str]], *, asked: bool) -> bool:
    """Whether any of these formats draws pictures. Raises UsageError if none does although they were `asked` for."""
    draws = any(form in DRAWING for form, _ in wanted)
    if asked and not draws:
        raise UsageError("--pictures: only HTML reports show pictures: add --output report.html")
    return draws


def put(render: Callable[..., Any], output: str) -> None:
    """Render for an output and write to it. Where that fails, write to stderr instead, and raise UsageError.

    `render` takes the `width` in columns, and whether the output supports `colour` and `unicode`. It returns text, or
    the bytes of an image, which only files take.
    """
    if output != STDOUT:
        text = render(width=FILE_WIDTH)
        with _or_to_stderr(text, f"--output {output}"):
            write_text(Path(output), text)
        return
    out = console(sys.stdout)
    text = render(
        width=out.width,
        colour=out.is_terminal and not out.no_color and not out.is_dumb_terminal,
        unicode=encodable("━✗→", sys.stdout) == "━✗→",
    )
    with _or_to_stderr(text, "stdout"):
        click.echo(encodable(text, sys.stdout), nl=False, color=True)


@contextmanager
def _or_to_stderr(text: str | bytes, output: str) -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        pass
    except OSError as error:
        if isinstance(text, bytes):
            raise UsageError(f"{output}: {error.strerror or error}") from error
        click.echo(encodable(text, sys.stderr), nl=False, err=True)
        raise UsageError(f"{output}: {error.strerror or error}; the report is above") from error


@contextmanager
def open_streams() -> Iterator[None]:
    """Write to the null device where the shell closed stdout or stderr, and drop what they do not take.

    Otherwise another file would get the number of a closed one; and at its exit, the interpreter would write again what
    was not taken, and fail with a code of its own.
    """
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(number)
    sys.stdout = sys.stdout or os.fdopen(1, "w")
    sys.stderr = sys.stderr or os.fdopen(2, "w")
    yield
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def announce(report: Report, outputs: list[str]) -> None:
    """Print the counts on stderr when the report goes to files."""
    counts = ", ".join(f"{report.count(status)} {status.value}" for status in Status if report.count(status))
    say(f"dataguard: {counts or 'no check ran'}; written to {one_line(', '.join(outputs))}", err=True)


@contextmanager
def progress(*, shown: bool = True) -> Iterator[Terminal | None]:
    """Show progress on stderr if it is a terminal and progress is to be `shown`."""
    if not (shown and sys.stderr.isatty()):
        yield None
        return
    from dataguard.cli.live_progress import Terminal

    with Terminal() as terminal:
        yield terminal


def console(stream: TextIO) -> Console:
    """Return a rich console with a readable width for a stream."""
    from rich.console import Console

    made = Console(file=stream, highlight=False)
    if not made.is_terminal and "COLUMNS" not in os.environ:
        made.width = FILE_WIDTH
    made.width = min(made.width, _MOST_COLUMNS)
    return made


def encodable(text: str, stream: TextIO) -> str:
    """Return the text with the characters escaped that the stream cannot encode."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)
