"""Items that differ between spawned and forked workers, from what both drew."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from dataguard.checks.randomness.start_methods import differing_items, spawn_trial
from dataguard.core.model import NotApplicable


def items(seeded: Any) -> Any:
    """What was drawn by leaf, and by worker and epoch."""
    return SimpleNamespace(seeded=seeded, shown=("0", "7", "9"))


A, B, C, X = b"a", b"b", b"c", b"x"
SAME = {(0, 0): (A, B, C, A, B, C), (1, 0): (A, B, C, A, B, C)}


@pytest.mark.parametrize(
    ("spawned", "forked", "differ"),
    [
        ({(0, 0): SAME[0, 0]}, SAME, []),
        ({(0, 0): (A, X, C, A, X, C)}, SAME, ["7"]),
        ({(0, 0): (A, B, X, X, B, C)}, SAME, ["0", "9"]),
        ({(0, 0): (X, X, X, X, X, X)}, {**SAME, (1, 0): (A, B, X, A, B, X)}, []),  # forked workers differ themselves
        ({(0, 0): (X, B, C, X, B, C)}, {**SAME, (1, 1): (X, X, X, X, X, X)}, ["0"]),  # later epochs may differ
        ({}, SAME, ["0", "7", "9"]),
        ({(0, 0): SAME[0, 0]}, {}, ["0", "7", "9"]),
    ],
)
def test_items_that_differ(spawned: Any, forked: Any, differ: list[str]) -> None:
    found = differing_items(items({"[0]": spawned}), items({"[0]": forked}))
    assert found == ({"[0]": differ} if differ else {})


def test_a_loader_that_asks_for_fork_is_not_tried() -> None:
    facts = SimpleNamespace(start_given=True, start_method="fork")
    with pytest.raises(NotApplicable, match="the loader asks for fork"):
        spawn_trial(SimpleNamespace(facts=facts))  # type: ignore[arg-type]
    lab: Any = SimpleNamespace(facts=SimpleNamespace(start_given=False), randomness=SimpleNamespace(spawn_trial="it"))
    trial: object = spawn_trial(lab)
    assert trial == "it"
