"""DG105 on streams and on loaders that spawn: which leaves differ, and which do in every run."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from dataguard.checks.randomness.dg105_spawn_divergence import dg105_spawn_divergence
from dataguard.core.model import Location, NotApplicable, Undecided
from dataguard.lab.streams.stream_trace import StreamTrace
from tests.support.recordings import Verdict, verdict_of


def trace(*samples: int, **leaves: Sequence[int]) -> StreamTrace:
    """What a single worker yields."""
    return StreamTrace((samples,), True, {path: (tuple(values),) for path, values in leaves.items()})


KEPT: dict[str, Any] = {"lost_views": (), "freed": (), "diverging_line": Location("data.py", 3)}
"""No view of a tensor loses its memory."""


@pytest.mark.parametrize(
    ("lost", "freed", "facts", "said"),
    [
        (("[1]",), (), {}, "batch[1] reaches the main process with other values"),
        (("[1]",), ("sample[0]",), {}, "batch[1] reaches the main process with other values"),
        (("[1]",), (), {"start_given": True}, "batch[1] reaches the main process with other values"),
        ((), ("sample[0]", "batch[0]"), {}, "sample[0] is read from freed memory under spawn (the default on"),
        ((), ("sample[0]",), {"spawns": True}, "sample[0] is read from freed memory under forkserver:"),
    ],
)
def test_views_that_lose_their_memory(lost: Any, freed: Any, facts: dict[str, bool], said: str) -> None:
    facts = {"spawns": False, "start_given": False, **facts}
    lab = SimpleNamespace(
        facts=SimpleNamespace(num_workers=2, kind="map", start_method="forkserver", **facts),
        randomness=SimpleNamespace(lost_views=lost, freed=freed, diverging_line=None),
        dataset=SimpleNamespace(location=None),
    )
    (finding,) = verdict_of(dg105_spawn_divergence.judge, lab).findings
    assert finding.message.startswith(said)
    assert finding.ambiguous == (not lost and not facts["spawns"])


class TestStreams:
    def judged(self, spawned: Any, forked: Any, spawned_again: Any = None, forked_again: Any = None) -> Verdict:
        runs = {
            ("spawn", 0): spawned,
            ("fork", 0): forked,
            ("spawn", 1): spawned if spawned_again is None else spawned_again,
            ("fork", 1): forked if forked_again is None else forked_again,
        }

        def stream(workers: int, *, seeded: bool, frozen: bool, method: str = "spawn", run: int = 0) -> StreamTrace:
            assert (workers, seeded, frozen) == (2, True, True)
            found: StreamTrace = runs[method, run]
            return found

        facts = SimpleNamespace(num_workers=2, spawns=True, kind="stream", start_method="spawn")
        lab = SimpleNamespace(facts=facts, streams=SimpleNamespace(stream=stream), randomness=SimpleNamespace(**KEPT))
        return verdict_of(dg105_spawn_divergence.judge, lab)

    ONE, TWO = trace(1, 2, 3, x=(1, 2, 3), y=(7, 8, 9)), trace(4, 5, 6, x=(4, 5, 6), y=(7, 8, 9))

    def test_leaves_that_differ(self) -> None:
        verdict = self.judged(self.ONE, self.TWO)
        (finding,) = verdict.findings
        assert finding.message == "samplex of the stream differs between fork and spawn"
        assert finding.evidence["leaves"] == ["samplex"]
        assert verdict.outcome.exercised == {"samples": 3, "workers": 2}

    def test_the_same_under_both(self) -> None:
        verdict = self.judged(self.ONE, self.ONE)
        assert verdict.findings == ()

    @pytest.mark.parametrize("again", [{"spawned_again": TWO}, {"forked_again": ONE}])
    def test_leaves_that_differ_in_every_run(self, again: Any) -> None:
        assert self.judged(self.ONE, self.TWO, **again).findings == ()


class TestSpawnedWorkers:
    @staticmethod
    def draws(letter: str, shown: tuple[str, ...] = ("3", "5")) -> Any:
        groups = {(0, 0): ((letter.encode(),) * 2, (b"same",) * 2)}
        return SimpleNamespace(
            seeded={"sample[0]": groups}, as_is={"sample[0]": groups}, shown=shown, draws=4, items=2, workers=2
        )

    def judged(self, spawned: Any, forked: Any, workers: int = 2) -> Verdict:
        facts = SimpleNamespace(num_workers=workers, spawns=True, kind="map", start_method="forkserver")
        same_items = lambda effort=None, method=None: forked if method == "fork" else spawned  # noqa: E731
        return verdict_of(
            dg105_spawn_divergence.judge,
            SimpleNamespace(facts=facts, randomness=SimpleNamespace(same_items=same_items, **KEPT)),
        )

    def test_samples_that_differ(self) -> None:
        verdict = self.judged(self.draws("a"), self.draws("b"))
        (finding,) = verdict.findings
        assert finding.message == "sample[0] of index 3 differs between fork and forkserver"
        assert not finding.ambiguous
        assert verdict.outcome.exercised == {"draws": 4, "items": 2, "workers": 2}
        assert self.judged(self.draws("a"), self.draws("a")).findings == ()

    def test_other_indices_cannot_be_compared(self) -> None:
        assert isinstance(self.judged(self.draws("a"), self.draws("b", ("4", "5"))).outcome, Undecided)

    def test_without_workers(self) -> None:
        assert isinstance(self.judged(self.draws("a"), self.draws("b"), workers=0).outcome, NotApplicable)
