"""The same question as in `repeats`, for streams: workers get other samples there, so that draws cannot be compared.

Instead, generators that run alike at two seats are looked for, and each is tried: seeded otherwise in a single process,
with all others held still, does it change the content of the samples, or only their order? Standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dataguard.checks.randomness import rng_fixes
from dataguard.checks.randomness.culprit_generator import MOST_SUSPECTS, find_seeding
from dataguard.checks.randomness.masked_repeats import running_alike
from dataguard.checks.randomness.repeated_draws import Seat
from dataguard.model import Location, Undecided, known

if TYPE_CHECKING:
    from dataguard.lab.core.records import GeneratorState, Seeding
    from dataguard.lab.lab import Lab
    from dataguard.lab.randomness.rng_dependence import StreamHanging
    from dataguard.lab.streams.stream_trace import StreamTrace

CHANGED, CHANGED_BEGINNING = 0.2, 0.98
"""The share of new samples above which content has changed: of a whole stream, and of the beginning of one.

Moving on the generator of a shuffle buffer brings some new samples into the beginning of a stream, but not nearly all.
"""


@dataclass(frozen=True, slots=True)
class StreamRepeat:
    """A generator that runs alike at two seats (a worker in an epoch each) and decides what samples look like.

    `seeding` is the line that seeds it alike at both, if it is seeded there, and `fix` what to write instead.
    """

    suspect: GeneratorState
    changed: float
    seeding: Seeding | None
    fix: str
    persistent: bool

    @property
    def at(self) -> Location:
        """Where the generator is seeded alike, else where it is held."""
        return rng_fixes.place_of(self.suspect, self.seeding)

    @property
    def evidence(self) -> dict[str, object]:
        """The generator, what it does to the samples, and the fix."""
        return known(
            {
                "generators": {self.suspect.path: self.suspect.kind},
                "samples that change with it": f"{self.changed:.0%}",
                "fix here": self.fix,
                "later epochs": rng_fixes.later_epochs(persistent=self.persistent),
            }
        )


def find_stream_repeat(lab: Lab, one: Seat, two: Seat) -> StreamRepeat | None:
    """The first generator that runs alike at two seats and changes the content of samples.

    Raises Undecided when no generator could be watched long enough, or when what hangs on one cannot be seen.
    """
    trace = lab.streams.stream(lab.facts.num_workers, pin=False)
    if len({census.fetches for census in trace.censuses if census.fetches}) < 2:
        raise Undecided("each worker yields too few batches to watch its generators: lower the batch size")
    unclear = None
    for suspect, early in list(running_alike(trace.censuses, one, two))[:MOST_SUSPECTS]:
        if early and not lab.randomness.dependence.at_start(suspect.path)[0]:
            continue
        hanging = lab.randomness.dependence.of_stream(suspect.path, varied=True)
        changed = _content_changed(lab, suspect, hanging)
        if changed:
            seeding = find_seeding(lab, suspect.path, one, two)
            replayer = one[0] if one[0] == two[0] else None
            fix = rng_fixes.fix_of(suspect, seeding, replayer)
            return StreamRepeat(suspect, changed, seeding, fix, lab.facts.persistent)
        if hanging.wild and not hanging.ordered and lab.randomness.dependence.at_start(suspect.path)[1]:
            unclear = unclear or f"{suspect.path} runs alike, and may decide {hanging.wild[0]}, as more numbers do"
    if unclear:
        raise Undecided(unclear)
    return None


def moved_on(lab: Lab, suspect: GeneratorState) -> StreamTrace:
    """What a single process yields once the suspect skips some numbers after the first batch."""
    if suspect.path.startswith("global "):
        return lab.streams.stream(0, pin=False)
    return lab.streams.stream(0, pin=True, perturb=suspect.path)


def _content_changed(lab: Lab, suspect: GeneratorState, hanging: StreamHanging) -> float:
    """The share of new values in a leaf that changes with this generator and is no matter of order, else 0."""
    still = lab.randomness.dependence.of_stream(suspect.path, varied=False) if hanging.ordered else hanging
    new = max(still.changed.values(), default=0.0)
    enough = 0.0 if still.ended else CHANGED_BEGINNING  # what stays in order may be a mere count of samples
    return new if new > (CHANGED if hanging.ordered and still.ended else enough) else 0.0
