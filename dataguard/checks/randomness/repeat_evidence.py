"""How a report words random numbers that repeat: what repeats, how that is known, and where. Standard library only."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from dataguard.checks.randomness import rng_fixes
from dataguard.model import Location, without_empty

if TYPE_CHECKING:
    from dataguard.lab.core.loader_facts import LoaderFacts
    from dataguard.lab.randomness.repeated_draws import Repeat
    from dataguard.lab.randomness.shared_draws import SharedDraws


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
            "generators": {one.path: "cannot be read" if one.library else one.kind for one in generators},
            "confirmed by": _confirmation(repeat),
        }
    )


def advised(repeat: Repeat, facts: LoaderFacts) -> dict[str, object]:
    """What to write instead, the evidence, and what happens in later epochs until then."""
    replayer = repeat.one.worker if repeat.across_epochs else None
    return {
        "fix here": rng_fixes.fix_of(repeat.suspects[0].generator, repeat.seeding, replayer),
        **evidence_of(repeat),
        "later epochs": rng_fixes.later_epochs(persistent=facts.persistent),
    }


def place_of(repeat: Repeat) -> Location:
    """Where the first suspect gets a repeated seed, if it is seen to, else where it is drawn from, or held."""
    suspect = repeat.suspects[0].generator
    return rng_fixes.place_of(replace(suspect, at=repeat.drawn_at or suspect.at), repeat.seeding)


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
