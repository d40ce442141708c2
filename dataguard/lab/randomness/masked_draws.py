"""Generators that share their state although no draws are equal: masked by other randomness, or by different samples.

Freezing all other RNGs shows which outputs depend on such a generator. The workers of a stream read different samples:
there, the content has to depend on it, and not only the order.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from dataguard.lab.core.records import GeneratorState
from dataguard.lab.randomness.repeated_draws import Repeat, Suspect
from dataguard.lab.randomness.rng_dependence import Dependence, RngDependence, StreamDependence
from dataguard.lab.randomness.same_items import SameItems, find_same_items
from dataguard.lab.rng.shared_states import Pair, overlapping_generators
from dataguard.lab.streams.stream_trace import StreamTrace
from dataguard.lab.subject import Subject
from dataguard.model import Undecided

MOST_SUSPECTS = 4
"""Most generators that are tested for each pair, one observation each."""
CHANGED, CHANGED_BEGINNING = 0.2, 0.98
"""The share of new samples above which content has changed: in a whole stream, and in the beginning of one.

Advancing the generator of a shuffle buffer moves some new samples into the beginning of a stream, but far from all.
"""


def find_masked(subject: Subject, draws: SameItems, pairs: Sequence[Pair]) -> Repeat | None:
    """The first generator that a pair shares and that a leaf depends on.

    Raises Undecided when all leaves that may depend on one are uncontrolled: they vary while all RNGs are frozen.
    """
    unclear: list[str] = []
    for pair in pairs:
        for generator, at_start in islice(overlapping_generators(draws.censuses, pair), MOST_SUSPECTS):
            found = _dependence(subject, generator, at_start=at_start)
            if found is None or not _is_shared_as_is(subject, draws, generator, pair):
                continue
            if found.leaves:
                leaves = tuple(leaf for leaf in found.leaves if leaf.startswith("sample")) or found.leaves
                return Repeat(*pair, (Suspect(generator, leaves),), leaves, masked=True)
            unclear.append(_unclear(generator, found.uncontrolled[0]))
    if unclear:
        raise Undecided(unclear[0])
    return None


def find_in_stream(subject: Subject, trace: StreamTrace, pair: Pair) -> Repeat | None:
    """The first generator that a pair shares and that changes the content of a stream's samples.

    Raises Undecided when the generators were not observed long enough, or when the leaves that may depend on one are
    uncontrolled.
    """
    if len({census.fetches for census in trace.censuses if census.fetches}) < 2:
        raise Undecided("each worker yields too few batches to watch its generators: lower the batch size")
    dependence = RngDependence(subject)
    unclear: list[str] = []
    for generator, at_start in islice(overlapping_generators(trace.censuses, pair), MOST_SUSPECTS):
        if at_start and not dependence.at_start(generator.path)[0]:
            continue
        found = dependence.of_stream(generator.path, varied=True)
        changed = _changed_content(dependence, generator, found)
        if changed:
            return Repeat(*pair, (Suspect(generator),), changed=changed)
        if found.uncontrolled and not found.reordered and dependence.at_start(generator.path)[1]:
            unclear.append(_unclear(generator, found.uncontrolled[0]))
    if unclear:
        raise Undecided(unclear[0])
    return None


def _unclear(generator: GeneratorState, leaf: str) -> str:
    return f"{generator.path} repeats its state; {leaf} may depend on it, but varies even when all RNGs are frozen"


def _dependence(subject: Subject, generator: GeneratorState, *, at_start: bool) -> Dependence | None:
    """What depends on a generator; None if nothing does, or if it is equal `at_start` and the first fetch seeds it."""
    try:
        found = RngDependence(subject).of_items(generator.path)
    except Undecided:
        if generator.library:  # too little time to see whether the library is used at all
            return None
        raise
    if at_start and not found.keeps_state:
        return None
    return found if found.leaves or (found.uncontrolled and found.is_used) else None


def _is_shared_as_is(subject: Subject, draws: SameItems, generator: GeneratorState, pair: Pair) -> bool:
    """Whether a generator is also shared if nothing is seeded before it is created.

    One that is created late may be seeded from a global generator that we seeded, and look cloned.
    """
    starts = [census.states for census in draws.censuses if not census.fetches and census.where in pair]
    if all(generator.path in states for states in starts):
        return True
    as_is = find_same_items(subject, as_is_first=True)
    return any(other.path == generator.path for other, _ in overlapping_generators(as_is.censuses, pair))


def _changed_content(dependence: RngDependence, generator: GeneratorState, found: StreamDependence) -> float:
    """The share of new values in a leaf whose content depends on this generator; 0 if only its order does."""
    frozen = dependence.of_stream(generator.path, varied=False) if found.reordered else found
    new = max(frozen.changed.values(), default=0.0)
    enough = 0.0 if frozen.ended else CHANGED_BEGINNING  # the leaf that kept its order may be a mere counter
    return new if new > (CHANGED if found.reordered and frozen.ended else enough) else 0.0
