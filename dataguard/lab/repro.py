"""Commands that reproduce a finding."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from shlex import join, quote

from dataguard.in_memory_targets import is_held, program, script_of, shown
from dataguard.incident import Incident
from dataguard.settings.target_spelling import parsed


@dataclass(frozen=True, slots=True)
class Repro:
    """Writes such commands for one loader of a target, by its spelling and the loader's name."""

    target: str
    loader: str
    pythonpath: tuple[str, ...] = ()

    def scan(self, code: str, options: str) -> str:
        """A command that runs one check."""
        if is_held(self.target):
            return f"dataguard.check({self._held}, select=[{code!r}])"
        if script := script_of(self.target):
            return f"dataguard run --select {code}{options} {program(script[0])} {join(script[1:])}".rstrip()
        return f"dataguard scan {quote(self.target)} --select {code}{options}"

    def samples(self, *indices: object, batch: bool = False, times: int = 1) -> str:
        """A command that shows samples, read one after the other, each so many times; as one `batch`, collated too."""
        if is_held(self.target):
            options = [*(["batch=True"] if batch else []), *([f"repeat={times}"] if times > 1 else [])]
            return f"dataguard.show({', '.join([self._held, *map(repr, indices), *options])})"
        return self._command(map(_word, indices), batch=batch, times=times)

    def spelled(self, index: str, times: int = 1) -> str:
        """A command that shows a sample, from its index as Python writes it, so many times."""
        if is_held(self.target):
            return f"dataguard.show({self._held}, {index}{f', repeat={times}' if times > 1 else ''})"
        return self._command([quote(index)], times=times)

    def _command(self, indices: Iterable[str], *, batch: bool = False, times: int = 1) -> str:
        words = [f"--loader {_quoted(self.loader)}"] if self._is_ambiguous else []
        words += ["--batch"] if batch else []
        words += [f"--repeat {times}"] if times > 1 else []
        path = f"PYTHONPATH={quote(':'.join(self.pythonpath))} " if self.pythonpath else ""
        return " ".join([f"{path}dataguard show {quote(self.target)}", *indices, *words])

    def incident(self, incident: Incident, times: int = 1) -> str | None:
        """A command that reads the sample at which the user's code failed, if it has an index, so many times."""
        if incident.stage != "sample" or not incident.index:
            return None
        return self.spelled(incident.index, times)

    def apart(self, index: object) -> str:
        """A command that reads a sample in one process, and then in another."""
        command = self.samples(index)
        return f"{command}; {command}"

    @property
    def _is_ambiguous(self) -> bool:
        """Whether the target may have other loaders."""
        return self.loader != parsed(self.target).name

    @property
    def _held(self) -> str:
        name = shown(self.target)
        return name if self.loader == name else f"{name}[{self.loader!r}]"


def _quoted(word: str) -> str:
    """A word of a shell on one line: control characters as escape sequences, which bash and zsh read."""
    if word.isprintable():
        return quote(word)
    spelled = (char if char.isprintable() else f"\\u{ord(char):04x}" for char in re.sub(r"(['\\])", r"\\\1", word))
    return f"$'{''.join(spelled)}'"


def _word(index: object) -> str:
    """An index as a word of a shell: a key as it is, unless it looks like a number or an option."""
    if isinstance(index, str) and _KEY.fullmatch(index):
        return quote(index)
    words = repr(index)
    plain = "'" in words and not set(words) & set('"$`\\!\n')  # then double quotes are enough, and the easiest to read
    return f'"{words}"' if plain else quote(words)


_KEY = re.compile(r"(?!(?:None|True|False)$)[^\W\d][\w./()-]*")
