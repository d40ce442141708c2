"""Generated loaders: what dataguard says of their random numbers is what their descriptions make true.

A few of them by default; `python -m tests.bench.oracle` examines hundreds.
"""

from __future__ import annotations

import pytest

from tests.loaders.generated import Description
from tests.loaders.sources import Source
from tests.support.descriptions import drawn, grid, shown
from tests.support.oracle import examined, measured, nature, shrunk, truth

FORKED = drawn(4, number=1)


@pytest.mark.scan
@pytest.mark.parametrize("loaders", [FORKED], ids=["forked"])
def test_the_verdict_follows_from_the_description(loaders: list[Description]) -> None:
    wrong = [case for case in examined(loaders) if not case.right]
    assert not wrong, shrunk(wrong[0])


MADE_LATE = Description(
    (Source("held", "numpy"), Source("lazy numpy", "state")), mix="gate", workers=1, init="held", batch_size=1
)


@pytest.mark.scan
def test_a_generator_created_late_from_a_seeded_one_is_no_replay() -> None:
    assert all(case.right for case in examined([MADE_LATE] * 2, ["DG102"]))


def test_descriptions_are_repeatable_and_differ() -> None:
    loaders = drawn(12)
    assert loaders == drawn(12)
    assert len(set(loaders)) == 12
    assert drawn(12, number=1) != loaders


def test_a_description_is_shown_as_the_code_that_makes_it() -> None:
    for loader in drawn(12):
        assert eval(shown(loader)) == loader


GRID = grid()


@pytest.mark.scan
@pytest.mark.parametrize("loader", GRID[:: len(GRID) // 10], ids=lambda loader: shown(loader.sources[0]))
def test_the_rules_say_what_torch_does(loader: Description) -> None:
    assert measured(loader) == nature(loader.sources[0], loader)


HELD = Source("held", "numpy")

KNOWN = {
    "clones that replay": (Description((HELD,)), "repeat", "repeat"),
    "clones that draw on": (Description((HELD,), persistent=True), "repeat", "healthy"),
    "one worker": (Description((HELD,), workers=1), "one worker", "repeat"),
    "shared": (Description((Source(),)), "healthy", "healthy"),
    "shared, seeded by id": (Description((Source(),), init="id"), "healthy", "repeat"),
    "cv2": (Description((Source(generator="cv2"),)), "repeat", "repeat"),
    "lazy, after a constant": (Description((Source("lazy"),), init="constant"), "repeat", "repeat"),
    "imported by each worker": (
        Description((Source("module", "numpy", seeded=False),), method="spawn"),
        "healthy",
        "healthy",
    ),
    "under entropy": (Description((HELD, Source("entropy")), mix="added"), "masked", "masked"),
    "beside entropy": (Description((HELD, Source("entropy"))), "repeat", "repeat"),
    "by index": (Description((Source("index"),)), "healthy", "healthy"),
}
"""Descriptions with what the rules make of them in the eyes of DG101 and DG102, as measured by hand."""


@pytest.mark.parametrize("name", KNOWN)
def test_the_rules_say_what_was_measured(name: str) -> None:
    loader, *kinds = KNOWN[name]
    assert [truth(loader, code).kind for code in ("DG101", "DG102")] == kinds
