"""Groups of samples that the names of their files tell: `patient_012/slice_3.png`, `S01_trial5.npy`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath

from xxhash import xxh3_64

from dataguard.lab.core.records import Index
from dataguard.lab.splits.index_contents import WORDS, Groups

SHORT = frozenset({"subj", "sub", "spk", "pat", "sess", "ses", "id", "s", "p"})
"""What stands before the number of a group where no word does; not before a number alone, which counts files."""
DEEPEST = 4
"""How many parts of a path are looked at, the name of the file among them."""
MOST_FILES = 4
"""How many files of a sample are looked at: an image and its mask are named alike."""
_NUMBERED = re.compile(r"([A-Za-z]+)[-_ ]?(\d+)(?=[-_. ]|$)")


def file_groups(files: Mapping[Index, Sequence[str]]) -> tuple[Groups, ...]:
    """The groups that paths name at one place in each of them: a folder, or the beginning of the file's name."""
    fewest = min(map(len, files.values()), default=0)
    for slot in range(min(fewest, MOST_FILES)):
        parts = {index: PurePath(own[slot].replace("::", "/")).parts[::-1] for index, own in files.items()}
        found = tuple(_groups(parts))
        if found:
            return found
    return ()


def _groups(parts: Mapping[Index, Sequence[str]]) -> Iterator[Groups]:
    for depth in range(DEEPEST):
        named = {index: _NUMBERED.match(own[depth]) for index, own in parts.items() if len(own) > depth}
        known = {index: match for index, match in named.items() if match is not None and _is_group(match, depth)}
        words = {match[1] for match in known.values()}
        if len(known) == len(parts) and len(words) == 1:
            roots = {own[depth + 1 :] for own in parts.values()}
            table = (
                xxh3_64("/".join(roots.pop()).encode("utf-8", "surrogatepass")).digest() if len(roots) == 1 else None
            )
            place = "file names" if not depth else "folder names"
            yield Groups(f"{words.pop()} in {place}", {index: match[0] for index, match in known.items()}, table)


def _is_group(match: re.Match[str], depth: int) -> bool:
    """Whether part of a path names a group: with a word for it, or a short form; a file's own name, if more follows."""
    rest = match.string[match.end() :].partition(".")[0]
    word = match[1].lower()
    return (word.removesuffix("s") in WORDS or word in SHORT) and (depth > 0 or bool(rest.strip("-_ ")))
