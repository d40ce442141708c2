"""Positions of a sample that come from files, members or arrays with numbers: frames of a clip, slices of a volume.

Standard library only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from dataguard.lab.core.records import Index
from dataguard.lab.provenance.file_names import FileName, is_number, listed, words_of
from dataguard.lab.rows.origins import Read, SampleReads

FEWEST_POSITIONS = 3
"""Two files are in one of two orders anyway."""
FOLDERS = 3
"""Folders around a file whose names may say what it is."""
_NUMBER = re.compile(r"(?:(?<![^\W_])-)?\d+(?:\.\d+)?")
"""A number in a name; a minus is one if nothing stands before it, as in `z_-10`."""


@dataclass(frozen=True, slots=True)
class FrameRun:
    """Files that differ in one number and fill successive positions of a leaf, or are read one after the other.

    `files` are named below `folder`. `leaf` is None for the order of reading. `text`: the place of each file among all
    of that kind, which are so many `beside` each other, sorted as text. `word` stands before the number, and `above`
    are the last words of the folders around it. `single`: no other number varies in the sample, as those of cameras or
    of rows and columns do. `jumps`: how much neighbours by number differ, relative to neighbours in the sample that are
    none by number; less than 1 in a video, of which the frames are in another order. None if that is not known.
    """

    index: Index
    leaf: str | None
    folder: str
    files: tuple[str, ...]
    numbers: tuple[float, ...]
    text: tuple[int, ...]
    beside: int
    word: str
    above: tuple[str, ...]
    single: bool
    jumps: float | None = None


def find_frame_runs(samples: Sequence[SampleReads]) -> tuple[FrameRun, ...]:
    """The runs of all samples, by the positions of traced leaves; in order of reading where these agree with it.

    Samples that read in another order in another random state are left out; those that read other files there, such as
    windows that begin at random, have runs of both.
    """
    steady = [sample for sample in samples if not sample.reordered]
    by_leaf = [run for sample in steady for run in _by_leaf(sample)]
    orders = {sample.index: _files_of(sample.reads) for sample in steady}
    if by_leaf and not all(_is_order_of(orders[run.index], run) for run in by_leaf):
        return tuple(by_leaf)
    jumps = {(run.index, run.files): run.jumps for run in by_leaf}
    again = {sample.index: _files_of(sample.again) for sample in steady}
    by_order = [run for part in (orders, again) for index, files in part.items() for run in _runs(index, None, files)]
    return tuple(replace(run, jumps=jumps.get((run.index, run.files))) for run in by_order)


def _is_order_of(sources: Sequence[str], run: FrameRun) -> bool:
    """Whether the files of a run were read in its order."""
    files = [run.folder + file for file in run.files]
    return [source for source in sources if source in files] == files


def _files_of(reads: Sequence[Read]) -> list[str]:
    return list(dict.fromkeys(read.source for read in reads if read.file))


def _by_leaf(sample: SampleReads) -> Iterator[FrameRun]:
    for leaf in sample.leaves:
        sources = [read.source for read in leaf.reads if read is not None and read.file]
        if leaf.axis is not None and len(sources) == len(leaf.reads):
            for run in _runs(sample.index, leaf.path, list(dict.fromkeys(sources))):
                yield replace(run, jumps=_jumps(run, sources, leaf.distances))


def _jumps(run: FrameRun, sources: Sequence[str], distances: Sequence[Sequence[float]]) -> float | None:
    places = [sources.index(run.folder + file) for file in run.files]
    by_number = [place for _, place in sorted(zip(run.numbers, places, strict=True))]
    one, other = ({frozenset(pair) for pair in pairwise(order)} for order in (by_number, places))
    if not distances or not one - other:
        return None
    number, here = (sum(distances[min(pair)][max(pair)] for pair in pairs) for pairs in (one - other, other - one))
    return number / here if here else None


@dataclass(frozen=True, slots=True)
class _Numbered:
    """A name with its numbers: what stands between them, and each as it is written."""

    source: str
    between: tuple[str, ...]
    numbers: tuple[str, ...]

    def others(self, place: int) -> tuple[object, ...]:
        """All but one number."""
        return self.between, self.numbers[:place], self.numbers[place + 1 :]


def _numbered(source: str) -> _Numbered:
    return _Numbered(source, tuple(_NUMBER.split(source)), tuple(_NUMBER.findall(source)))


def _runs(index: Index, leaf: str | None, sources: Sequence[str]) -> Iterator[FrameRun]:
    """The files that differ in one number only, for each of what else differs, such as several cameras."""
    kinds: dict[tuple[str, ...], list[_Numbered]] = {}
    for name in map(_numbered, sources):
        kinds.setdefault(name.between, []).append(name)
    for names in kinds.values():
        for place in reversed(range(len(names[0].numbers))):
            runs: dict[tuple[object, ...], list[_Numbered]] = {}
            for name in names:
                runs.setdefault(name.others(place), []).append(name)
            if all(len(run) >= FEWEST_POSITIONS for run in runs.values()):
                single = len(runs) == 1
                yield from (_run(index, leaf, run, place, single=single) for run in runs.values())
                break


def _run(index: Index, leaf: str | None, run: Sequence[_Numbered], place: int, *, single: bool) -> FrameRun:
    others = run[0].others(place)
    beside = {one.source for one in run}
    for name in listed([FileName(one.source) for one in run]):
        numbered = _numbered(name.source)
        if len(numbered.numbers) == len(run[0].numbers) and numbered.others(place) == others:
            beside.add(name.source)
    order = {source: number for number, source in enumerate(sorted(beside))}
    steps = [re.split(r"(?<=/)|(?<=::)", one.source) for one in run]
    same = next(number for number, each in enumerate(zip(*steps, strict=True)) if len(set(each)) > 1)
    return FrameRun(
        index,
        leaf,
        "".join(steps[0][:same]),
        tuple("".join(each[same:]) for each in steps),
        tuple(float(one.numbers[place]) for one in run),
        tuple(order[one.source] for one in run),
        len(beside),
        *_words_before(run[0], place),
        single,
    )


def _words_before(name: _Numbered, place: int) -> tuple[str, tuple[str, ...]]:
    """The last word before a number in its file or folder, and those of the folders around that."""
    numbers = ["", *name.numbers]
    before = "".join(number + between for number, between in zip(numbers, name.between[: place + 1], strict=False))
    *folders, own = before.replace("::", "/").split("/")
    found = [[word for word in words_of(step) if not is_number(word)] for step in (own, *folders[: -FOLDERS - 1 : -1])]
    last = [words[-1] if words else "" for words in found]
    return last[0], tuple(last[1:])
