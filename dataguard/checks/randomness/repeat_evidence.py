"""How a report describes random numbers that repeat: message, evidence, place, code to write instead, and figures.

`message_of`, `evidence_of`, `advised` and `place_of` word a `Repeat`, between workers or between epochs; the `fix_of`
functions suggest code for the generator that repeats; `across_workers` and `across_epochs` draw one item as each worker
makes it in each epoch. Standard library only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING

from dataguard.core.figures import Pictures
from dataguard.core.model import Location, without_empty

if TYPE_CHECKING:
    from dataguard.core.model import Finding
    from dataguard.lab.core.loader_facts import LoaderFacts
    from dataguard.lab.core.records import GeneratorState, Seeding
    from dataguard.lab.lab import Lab
    from dataguard.lab.pictures.sample_pictures import Cells
    from dataguard.lab.randomness.shared_draws import SharedDraws
    from dataguard.lab.randomness.worker_draws import Repeat


def message_of(who: str, repeat: Repeat, when: str) -> str:
    """What a finding says; `who` ends with "draw" or "draws", and `when` says for which items or in which epochs."""
    if repeat.groups:
        return f"{who} the same {repeat.count} random values of {repeat.leaves[0]}{when}"
    masked = f", masked by other randomness in {repeat.leaves[0]}" if repeat.masked else ""
    return f"{who} the same random numbers from {repeat.suspects[0].path}{when}{masked}"


def items_of(shared: SharedDraws) -> str:
    """For which items two workers draw equal values."""
    if shared.repeat is None or not shared.repeat.groups:
        return ""
    return f" for items {', '.join(shared.shown[:4])}{', ...' * (len(shared.shown) > 4)}"


def evidence_of(repeat: Repeat) -> dict[str, object]:
    """The leaves, the odds, every suspect with its type, and how it was confirmed."""
    generators = (suspect.generator for suspect in repeat.suspects[:6])
    return without_empty(
        {
            "leaves": list(repeat.leaves),
            "drawn by": _drawn_by(repeat.leaves[0]) if repeat.leaves else None,
            "values drawn": repeat.distinct or None,
            "odds of coincidence": f"10^{repeat.log_odds:.0f}" if repeat.groups else None,
            "generators": {
                generator.path: "cannot be read" if generator.library else generator.kind for generator in generators
            },
            "drawn at": "{}:{}".format(*repeat.drawn_at) if repeat.drawn_at else None,
            "confirmed by": _confirmation(repeat),
        }
    )


def _drawn_by(leaf: str) -> str:
    return "the dataset" if leaf.startswith("sample") else "collate_fn"


def _confirmation(repeat: Repeat) -> str:
    """What was seen to change when a suspect alone did."""
    first = repeat.suspects[0]
    if repeat.masked or repeat.changed is not None:
        changes = first.changes[0] if repeat.masked else f"{repeat.changed:.0%} of the samples"
        return f"with all other RNGs frozen, another seed for {first.path} changes {changes}"
    libraries = [suspect.generator.library for suspect in repeat.suspects if suspect.generator.library]
    if libraries and first.changes:
        return f"seeding {' and '.join(libraries)} differently in each worker and epoch changes {first.changes[0]}"
    where = f"epoch {repeat.two.epoch}" if repeat.across_epochs else f"worker {repeat.two.worker}"
    return "; ".join(
        f"advancing {suspect.path} in {where} changes {suspect.changes[0]}"
        for suspect in repeat.suspects
        if suspect.changes
    )


def place_of(repeat: Repeat) -> Location:
    """Where the first suspect gets a repeated seed, or is made; else where it is drawn from, or held."""
    suspect, seeding = repeat.suspects[0].generator, repeat.seeding
    if seeding:
        return Location(seeding.file, seeding.line, seeding.function)
    if repeat.made_at:
        return Location(*repeat.made_at[:2], suspect.path)
    file, line = repeat.drawn_at or suspect.at or (None, None)
    return Location(file, line, suspect.path)


def advised(repeat: Repeat, facts: LoaderFacts) -> dict[str, object]:
    """What to write instead, the evidence, and what happens in later epochs until then."""
    replayer = repeat.one.worker if repeat.across_epochs else None
    return {
        "fix here": fix_of(repeat, replayer),
        **evidence_of(repeat),
        "later epochs": later_epochs(persistent=facts.persistent),
    }


def fix_of(repeat: Repeat, replayer: int | None) -> str:
    """What to write in place of the line that repeats a seed, if there is one, else for the generator."""
    if repeat.seeding:
        return fix_of_seeding(repeat.seeding, replayer)
    return fix_of_generator(repeat.suspects[0].generator, repeat.made_by)


def fix_of_seeding(seeding: Seeding, replayer: int | None) -> str:
    """What to write in place of a line that gives the same seed to two workers, or to the `replayer` in two epochs.

    The generators that python, numpy and torch share need no such line: torch seeds them in each worker.
    """
    between, where = ("worker", "") if replayer is None else ("epoch", f" in worker {replayer}")
    line = f"{PurePath(seeding.file).name}:{seeding.line} {seeding.kind}({seeding.seed}){where}"
    if seeding.kind.startswith("cv2."):
        return f"{line}: seed from torch.initial_seed() % 2**31, which differs in each {between}"
    is_shared = (seeding.path or "").startswith("global ")
    seed = SHORT_SEED if is_shared or seeding.kind.startswith("numpy.random.RandomState") else SEED
    return f"{line}: {'remove it, or ' * is_shared}seed from {seed}, which differs in each {between}"


SEED, SHORT_SEED = "torch.initial_seed()", "torch.initial_seed() % 2**32"
"""The seed that torch gives to each worker in each epoch, and what fits into the 32 bits that older interfaces take."""


def fix_of_generator(suspect: GeneratorState, made_by: str | None = None) -> str:
    """What to write for a generator that is copied into each worker; `made_by` the user's code, as it spells that."""
    if suspect.kind in _LIBRARIES:
        return _LIBRARIES[suspect.kind]
    if suspect.path.startswith("global "):
        name = suspect.path.removeprefix("global ")
        return f"something gives {name} a repeated seed: remove that call, or seed from {SHORT_SEED}"
    if suspect.reseed:
        return f"in worker_init_fn: {_in_worker(suspect.reseed)}({SHORT_SEED})"
    maker, arguments = _MADE.get(suspect.kind, (suspect.kind, f"({SEED})"))
    made = f"{made_by or maker}{arguments}"
    if suspect.part:
        return f"create {_name(suspect.part)} on first use in the worker, with {made}"
    function, default, _ = suspect.path.partition(".<default ")
    if default:
        return f"do not make the generator a default argument of {_name(function)}; create it in the worker: {made}"
    if _WRAPPED.search(suspect.path):
        return f"create {_name(suspect.path)} on first use in the worker, from {made}"
    return f"create {_name(suspect.path)} on first use in the worker: {made}"


_MADE = {
    "numpy.random.Generator": ("numpy.random.default_rng", f"({SEED})"),
    "numpy.random.RandomState": ("numpy.random.RandomState", f"({SHORT_SEED})"),
    "torch.Generator": ("torch.Generator", f"().manual_seed({SEED})"),
}
_LIBRARIES = {"cv2": "in worker_init_fn: cv2.setRNGSeed(torch.initial_seed() % 2**31)"}
_WRAPPED = re.compile(r"(\.__self__|\.__func__|\.__wrapped__|\.func|\.<held>|\.<delegate>|\.<weak>|\.<context>)+$")
_STEP = re.compile(r"(<[^<>]*>|\w+)((?:\[[^\]]*\])*)")


def _in_worker(method: str) -> str:
    """The path of a method as code that runs in a worker, where `get_worker_info` gives the dataset."""
    holder, _, name = method.rpartition(".")
    if "<" in holder:
        return f"{_name(holder)}.{name}"
    return f"get_worker_info().{method}" if holder.startswith("dataset.") else method


def _name(path: str) -> str:
    """What the user calls a thing: the last name on the way to it, with the positions that follow."""
    steps = _STEP.findall(_WRAPPED.sub("", path))
    plain = [re.sub(r"<.*?([^\s.<]+)>", r"\1", name) + positions for name, positions in steps]
    return ".".join(plain[-2:] if steps[-1][0] in ("args", "keywords") else plain[-1:])


def later_epochs(*, persistent: bool) -> str:
    """What happens to such a generator when the next epoch begins."""
    return "persistent workers continue from its state" if persistent else f"restarted workers get a new {SEED}"


def across_workers(lab: Lab, findings: Sequence[Finding]) -> Iterator[Pictures]:
    """A sheet in which two workers make equal pictures."""
    yield from _sheet(lab, findings, lambda cells: any(_repeats(row) for row in cells), "Workers make equal pictures.")


def across_epochs(lab: Lab, findings: Sequence[Finding]) -> Iterator[Pictures]:
    """A sheet in which a worker makes equal pictures in two epochs."""
    words = "A worker makes the same picture in two epochs."
    yield from _sheet(lab, findings, lambda cells: any(map(_repeats, zip(*cells, strict=True))), words)


def everywhere(lab: Lab, findings: Sequence[Finding]) -> Iterator[Pictures]:
    """A sheet in which all pictures are equal."""
    words = "The picture is the same in every worker and epoch."
    yield from _sheet(lab, findings, lambda cells: len({picture for row in cells for picture in row}) == 1, words)


def _repeats(pictures: Sequence[object]) -> bool:
    return len(set(pictures)) < len(pictures)


def _sheet(lab: Lab, findings: Sequence[Finding], shows: Callable[[Cells], bool], words: str) -> Iterator[Pictures]:
    """A sheet of the first leaf of the findings that is an image; none if it does not show what they say."""
    leaves = [leaf for finding in findings for key in ("leaves", "unchanged") for leaf in finding.evidence.get(key, ())]
    images = [leaf for leaf in dict.fromkeys(leaves) if leaf in _image_leaves(lab)]
    if not images:
        return
    sheet = lab.pictures.sheet(images[0])
    if shows(sheet.cells):
        yield Pictures(
            f"{images[0]} of index {sheet.item}, by worker and epoch",
            f"{words} Each picture is made by one worker (column) in one epoch (row) from the same item.",
            tuple(f"epoch {number}" for number in range(len(sheet.cells))),
            tuple(f"worker {number}" for number in range(len(sheet.cells[0]))),
            sheet.cells,
        )


def _image_leaves(lab: Lab) -> set[str]:
    """The paths of leaves with rows and columns."""
    samples = {
        f"sample{leaf.path}"
        for sample in lab.epoch.samples
        for leaf in sample.leaves
        if _is_image(leaf.kind, leaf.shape, 2)
    }
    return samples | {
        f"batch{leaf.path}"
        for batch in lab.epoch.batches
        for leaf in batch.leaves
        if _is_image(leaf.kind, leaf.shape, 3)
    }


def _is_image(kind: str, shape: tuple[int, ...] | None, axes: int) -> bool:
    return kind == "PIL.Image" or len(shape or ()) >= axes
