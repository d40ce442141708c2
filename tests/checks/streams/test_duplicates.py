"""Which samples of a stream came from several workers, and how samples are recognised."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from dataguard.checks.streams.duplicates import are_generated, find_duplicates
from dataguard.core.model import Undecided
from dataguard.lab.streams.stream_trace import StreamTrace

Shares = Sequence[Sequence[int]]


def trace(*shares: Sequence[int], ended: bool = True, **leaves: Shares) -> StreamTrace:
    """What each process yields, as numbers."""
    held = {path: tuple(map(tuple, each)) for path, each in leaves.items()}
    return StreamTrace(tuple(map(tuple, shares)), ended, held)


def runs(
    plain: StreamTrace,
    seeded: StreamTrace | None = None,
    rows: StreamTrace | None = None,
    shingles: StreamTrace | None = None,
) -> Any:
    kinds = (plain, seeded, rows, shingles or trace())

    def look(
        *, seeded: bool, rows: bool = False, shingles: bool = False, _all: tuple[StreamTrace | None, ...] = kinds
    ) -> StreamTrace:
        found = _all[3] if shingles else _all[2] if rows else _all[1] if seeded else _all[0]
        assert found is not None
        return found

    return look


def doubled(several: Callable[..., StreamTrace], one: Callable[..., StreamTrace]) -> int:
    return find_duplicates(several, one).samples


@pytest.mark.parametrize(
    ("shares", "alone", "count"),
    [
        ([range(20), range(20)], range(20), 20),
        ([range(0, 20, 2), range(1, 20, 2)], range(20), 0),
        ([range(8), range(8)], range(8), 8),  # all that one process yields
        ([range(6), range(4, 8)], range(8), 2),
        ([range(5), range(4, 8)], range(8), 0),  # one sample more may be padding
        ([[0, 0, 1], [2, 3]], [0, 0, 1, 2, 3], 0),  # one process repeats itself as well
        ([range(20)], range(20), 0),
    ],
)
def test_streams_that_end(shares: Shares, alone: Sequence[int], count: int) -> None:
    shared, single = trace(*shares), trace(alone)
    assert doubled(runs(shared, shared), runs(single, single)) == count


@pytest.mark.parametrize(
    ("shares", "alone", "count"),
    [
        ([range(30), range(30)], range(60), 30),
        ([range(0, 60, 2), range(1, 60, 2)], range(60), 0),
        ([[*range(10), 50, 51], [*range(8, 18), 52, 53]], range(60), 2),
        ([[*range(10), 50, 51], [*range(9, 18), 52, 53]], range(60), 0),  # a single one
        ([[0, 1] * 20, [0, 1] * 20], range(60), 2),
        ([range(12), [*range(2), *range(100, 190)]], range(200), 2),
        ([range(30), range(28, 60)], range(60), 0),  # two of so many may be chance
        ([range(0, 60, 3), range(1, 60, 3), range(2, 60, 3)], range(60), 0),
        ([range(12), range(12)], [*range(4), *range(4)], 0),  # one process repeats itself, too
    ],
)
def test_streams_that_go_on(shares: Shares, alone: Sequence[int], count: int) -> None:
    several = runs(trace(*shares, ended=False), trace(*shares, ended=False))
    one = runs(trace(alone, ended=False), trace(alone, ended=False))
    assert doubled(several, one) == count


def test_what_one_process_repeats_is_no_overlap() -> None:
    alone = trace([*range(10), *range(10)], ended=False)
    shared = trace([*range(8), 90, 91], [*range(8), 92, 93], ended=False)
    assert doubled(runs(shared, shared), runs(alone, alone)) == 0


def test_augmented_samples_are_recognised_with_seeded_generators() -> None:
    shared, alone = trace(range(100, 110), range(200, 210)), trace(range(300, 310))
    assert doubled(runs(shared, trace(range(10), range(10))), runs(alone, trace(range(10)))) == 10
    same = trace([1] * 10)  # a process that repeats itself draws its samples
    with pytest.raises(Undecided, match="cannot be recognised"):
        doubled(runs(shared, trace([1] * 10, [1] * 10), same), runs(alone, same, same))


def test_a_single_sample_is_no_stream() -> None:
    several, one = trace([7], [7]), trace([7])
    with pytest.raises(Undecided, match="all identical"):
        doubled(runs(several, several, several), runs(one, one, one))


def test_rows_of_batches_that_each_process_fills() -> None:
    shared, alone = trace([100, 101], [102, 103]), trace([104, 105])
    several = runs(shared, shared, trace(range(10), range(10)))
    assert doubled(several, runs(alone, alone, trace(range(10)))) == 10
    half = trace([*range(5), *range(5)])  # half of the rows are distinct: too few
    with pytest.raises(Undecided):
        doubled(runs(shared, shared, trace(range(5), range(5))), runs(alone, alone, half))


def test_generated_samples_are_read_by_nobody() -> None:
    """Workers whose generators are cloned draw the same; a part that is looked up shows whether data are shared."""
    alone = trace(range(8), drawn=[range(8)], name=[range(8)])
    advanced = trace(range(8), drawn=[range(50, 58)], name=[range(8)])
    repeat = SimpleNamespace(suspects=[SimpleNamespace(path="dataset.rng")])

    def generated(shared: StreamTrace, found: Any = repeat) -> bool:
        def stream(workers: int, *, seeded: bool, advance: str | None = None) -> StreamTrace:
            assert (workers, seeded, advance) == (0, True, "dataset.rng")
            return advanced

        lab: Any = SimpleNamespace(
            randomness=SimpleNamespace(shared_draws=lambda _: SimpleNamespace(repeat=found)),
            streams=SimpleNamespace(stream=stream),
        )
        return are_generated(lab, shared, alone)

    cloned = trace(range(8), range(8), drawn=[range(8), range(8)], name=[range(0, 8, 2), range(1, 8, 2)])
    assert generated(cloned)
    assert not generated(trace(range(8), range(8), drawn=[range(8)] * 2, name=[range(8)] * 2))
    assert not generated(cloned, None)


def test_a_global_generator_is_advanced_by_not_seeding_it() -> None:
    alone = trace(range(8), drawn=[range(8)])

    def stream(workers: int, *, seeded: bool) -> StreamTrace:
        assert (workers, seeded) == (0, False)
        return trace(range(8), drawn=[range(50, 58)])

    repeat = SimpleNamespace(suspects=[SimpleNamespace(path="global numpy")])
    lab: Any = SimpleNamespace(
        randomness=SimpleNamespace(shared_draws=lambda _: SimpleNamespace(repeat=repeat)),
        streams=SimpleNamespace(stream=stream),
    )
    assert are_generated(lab, trace(range(8), range(8), drawn=[range(8)] * 2), alone)


def test_windows_of_text_are_recognised_by_shingles() -> None:
    shared, alone = trace([100, 101], [102, 103]), trace([104, 105])
    one = runs(alone, alone, alone, trace(range(200)))
    assert doubled(runs(shared, shared, shared, trace(range(200), range(10, 210))), one) == 1
    assert doubled(runs(shared, shared, shared, trace(range(100), range(95, 195))), one) == 0
    with pytest.raises(Undecided):  # they may yet come to the same text
        doubled(runs(shared, shared, shared, trace(range(100), range(95, 195), ended=False)), one)
    repeating = trace([*range(100), *range(100)])
    with pytest.raises(Undecided):  # one process repeats itself
        doubled(runs(shared, shared, shared, trace(range(100), range(100))), runs(alone, alone, alone, repeating))
