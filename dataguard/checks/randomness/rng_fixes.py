"""Code to suggest for a generator that repeats its random numbers. Standard library only."""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import TYPE_CHECKING

from dataguard.model import Location

if TYPE_CHECKING:
    from dataguard.lab.core.records import GeneratorState, Seeding

SEED, SHORT_SEED = "torch.initial_seed()", "torch.initial_seed() % 2**32"
"""The seed that torch gives to each worker in each epoch, and what fits into the 32 bits that older interfaces take."""

_MADE = {
    "numpy.random.Generator": f"numpy.random.default_rng({SEED})",
    "numpy.random.RandomState": f"numpy.random.RandomState({SHORT_SEED})",
    "torch.Generator": f"torch.Generator().manual_seed({SEED})",
}
_LIBRARIES = {"cv2": "in worker_init_fn: cv2.setRNGSeed(torch.initial_seed() % 2**31)"}
_WRAPPED = re.compile(r"(\.__self__|\.__func__|\.__wrapped__|\.func|\.<held>|\.<delegate>|\.<weak>|\.<context>)+$")
_STEP = re.compile(r"(<[^<>]*>|\w+)((?:\[[^\]]*\])*)")


def place_of(suspect: GeneratorState, seeding: Seeding | None) -> Location:
    """Where a generator is given a repeated seed, if it is, else where it is held."""
    if seeding:
        return Location(seeding.file, seeding.line, seeding.function)
    file, line = suspect.at or (None, None)
    return Location(file, line, suspect.path)


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


def fix_of(suspect: GeneratorState, seeding: Seeding | None, replayer: int | None) -> str:
    """What to write in place of the line that repeats a seed, if there is one, else for the generator."""
    return fix_of_seeding(seeding, replayer) if seeding else fix_of_generator(suspect)


def fix_of_generator(suspect: GeneratorState) -> str:
    """What to write for a generator that is copied into each worker."""
    if suspect.kind in _LIBRARIES:
        return _LIBRARIES[suspect.kind]
    if suspect.path.startswith("global "):
        name = suspect.path.removeprefix("global ")
        return f"something gives {name} a repeated seed: remove that call, or seed from {SHORT_SEED}"
    if suspect.reseed:
        return f"in worker_init_fn: {_in_worker(suspect.reseed)}({SHORT_SEED})"
    made = _MADE.get(suspect.kind, f"{suspect.kind}({SEED})")
    if suspect.part:
        return f"create {_name(suspect.part)} on first use in the worker, with {made}"
    function, default, _ = suspect.path.partition(".<default ")
    if default:
        return f"do not make the generator a default argument of {_name(function)}; create it in the worker: {made}"
    if _WRAPPED.search(suspect.path):
        return f"create {_name(suspect.path)} on first use in the worker, from {made}"
    return f"create {_name(suspect.path)} on first use in the worker: {made}"


def later_epochs(*, persistent: bool) -> str:
    """What happens to such a generator when the next epoch begins."""
    return "persistent workers continue from its state" if persistent else f"restarted workers get a new {SEED}"


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
