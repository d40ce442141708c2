"""What counts as lost: streams as plain data, dealt out by every rule that hypothesis thinks of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataguard.checks.streams.dg204_lost_samples import _left_out, dg204_lost_samples
from dataguard.checks.streams.lost_samples import Loss, dealt_loss, excused, find_loss, lost_in_all
from dataguard.core.incident import Incident
from dataguard.core.model import NotApplicable, Status, Undecided
from dataguard.engine import scan
from dataguard.lab.ranks.shares import DealtIndices, Shards, Share, shards_of
from dataguard.lab.streams.orders import Apart, Orders, read_apart
from dataguard.lab.streams.stream_trace import StreamTrace
from dataguard.lab.subject import Repro
from dataguard.settings.settings import Settings
from tests.support.recordings import Verdict, verdict_of

Shares = Sequence[Sequence[int]]


def trace(shares: Shares, *, again: Shares | None = None, ended: bool = True, salt: str = "") -> StreamTrace:
    """A stream of numbered samples, in two epochs; `salt` changes what all of them look like."""
    first, second = (
        tuple(tuple(number + 1000 * sum(map(ord, salt)) for number in share) for share in epoch)
        for epoch in (shares, shares if again is None else again)
    )
    return StreamTrace(first, ended, {"x": first}, again=second)


def runs(plain: StreamTrace, frozen: StreamTrace | None = None) -> Callable[..., StreamTrace]:
    """What `Lab.stream` gives as it is, and with seeded generators."""
    return lambda *, seeded, twice=False: frozen if seeded and frozen else plain


@given(st.integers(1, 60), st.integers(1, 4), st.data())
def test_what_no_worker_yields_is_counted(total: int, workers: int, data: st.DataObject) -> None:
    owners = data.draw(st.lists(st.integers(-1, workers - 1), min_size=total, max_size=total))
    shares = [[number for number, owner in enumerate(owners) if owner == worker] for worker in range(workers)]
    lost = [number for number, owner in enumerate(owners) if owner < 0]
    loss = find_loss(runs(trace(shares)), runs(trace([range(total)])))
    assert (loss.samples, loss.of) == (len(lost), total)
    assert loss.first == (f"sample {lost[0]} in a single process" if lost else None)


@given(st.integers(1, 60), st.integers(1, 4), st.randoms())
def test_a_stream_that_is_dealt_out_in_any_order_loses_nothing(total: int, workers: int, chance: Any) -> None:
    order = list(range(total))
    chance.shuffle(order)
    shares = [order[worker::workers] for worker in range(workers)]
    assert find_loss(runs(trace(shares)), runs(trace([range(total)]))).samples == 0


def test_augmented_samples_are_recognised_with_seeded_generators() -> None:
    shared = runs(trace([[0, 2], [1]], salt="a"), trace([[0, 2], [1]]))
    alone = runs(trace([range(4)], salt="b"), trace([range(4)]))
    assert find_loss(shared, alone) == Loss(1, 4, same=True, first="sample 3 in a single process")


def test_random_samples_are_counted() -> None:
    shared = runs(trace([[0, 2], [1]], salt="a"))
    assert find_loss(shared, runs(trace([range(5)], salt="b"))) == Loss(2, 5, counted=True)


@pytest.mark.parametrize("salt", ["", "b"])
def test_an_epoch_of_which_chance_decides_the_length_is_left_open(salt: str) -> None:
    alone = runs(trace([range(9)], again=[range(7)], salt=salt))
    with pytest.raises(Undecided, match="number are random"):
        find_loss(runs(trace([[0, 2, 4], [1]])), alone)


def test_samples_that_chance_chooses_are_left_open() -> None:
    with pytest.raises(Undecided, match="number are random"):
        find_loss(runs(trace([[0, 1, 2], [10, 11, 20]])), runs(trace([[0, 1, 2, 3, 10, 11, 12]])))


def test_other_samples_in_every_epoch_are_no_certain_loss() -> None:
    shared = runs(trace([[0, 1], [2]], again=[[3, 1], [2]]))
    assert find_loss(shared, runs(trace([range(4)]))) == Loss(1, 4, same=False)


def test_a_sample_that_one_process_yields_twice() -> None:
    found = find_loss(runs(trace([[0], [1, 2]])), runs(trace([[0, 0, 1, 2]])))
    assert found == Loss(1, 4, same=True, first="sample 0 in a single process")


def test_an_epoch_without_a_loss_clears_the_other() -> None:
    shared = runs(trace([[0, 1], [2]], again=[[0, 1], [2, 3]]))
    assert find_loss(shared, runs(trace([range(4)]))).samples == 0


@pytest.mark.parametrize(
    ("dealt", "samples"), [(lambda worker: range(worker, 400, 2), 0), (lambda worker: range(worker, 400, 4), 50)]
)
def test_a_stream_that_goes_on_is_compared_as_far_as_all_workers_came(dealt: Any, samples: int) -> None:
    shared = runs(trace([dealt(0)[:50], dealt(1)[:50]], ended=False))
    loss = find_loss(shared, runs(trace([range(100)], ended=False)))
    assert loss.samples == pytest.approx(samples, abs=2)


def test_a_shuffled_stream_that_goes_on_is_left_open() -> None:
    shared = runs(trace([[4, 0, 2, 8, 6] * 5, [3, 1]], ended=False))
    with pytest.raises(Undecided, match="raise --samples"):
        find_loss(shared, runs(trace([range(100)], ended=False)))


def test_samples_that_each_worker_packs_of_its_share_are_left_open() -> None:
    shared = runs(trace([[0, 501, 502, 47], [511, 512, 513, 514]], ended=False))
    with pytest.raises(Undecided, match="raise --samples"):
        find_loss(shared, runs(trace([range(100)], ended=False)))


FACTS = SimpleNamespace(batch_size=8, drop_last=False, num_workers=3, batch_sampler_at=None)


@pytest.mark.parametrize(
    ("loss", "drop_last", "ranks", "expected"),
    [
        (Loss(1, 50, same=True), False, 1, False),
        (Loss(7, 50, same=True), True, 1, True),
        (Loss(8, 50, same=True), True, 1, False),
        (Loss(21, 50, same=False), True, 1, False),
        (Loss(21, 500, same=False), True, 1, True),
        (Loss(7, 50, same=False), True, 1, True),
        (Loss(22, 500, same=False), True, 1, False),
        (Loss(15, 50, same=True), False, 2, True),
        (Loss(16, 50, same=True), False, 2, False),
        (Loss(3, 50, counted=True), False, 1, True),
        (Loss(4, 50, counted=True), False, 1, False),
        (Loss(4, 8, same=True), True, 2, False),
        (Loss(8, 8, same=True), True, 2, True),
    ],
)
def test_whole_batches_and_even_ranks_are_worth_a_few_samples(
    loss: Loss, drop_last: bool, ranks: int, expected: bool
) -> None:
    facts: Any = SimpleNamespace(**{**vars(FACTS), "drop_last": drop_last})
    assert excused(loss, facts, ranks) is expected


@pytest.mark.parametrize(("workers", "expected"), [(0, False), (1, False), (2, True)])
def test_each_worker_of_a_stream_has_a_last_batch_to_drop(workers: int, expected: bool) -> None:
    facts: Any = SimpleNamespace(batch_size=8, drop_last=True, num_workers=workers)
    assert excused(Loss(7, 50), facts, 1)
    assert excused(Loss(8, 100), facts, 1) is expected


def shards(ranks: Shares, alone: Sequence[int], *, same_dataset: bool = True) -> Shards:
    """Indices as samplers deal them out."""
    shares = [Share((tuple(share),), 1, ended=True) for share in ranks]
    return Shards(tuple(shares), Share((tuple(alone),), 1, ended=True), same_dataset)


def test_indices_that_no_rank_is_dealt_are_lost() -> None:
    assert dealt_loss(shards([[0, 2], [1]], range(4))) == Loss(1, 4, first="index 3")


def dealt(indices: Sequence[int], subset: Sequence[int], salt: str = "") -> DealtIndices:
    """What a sampler deals of a subset of a dataset, whose samples are their numbers; `salt` changes the dataset."""

    def of(numbers: Sequence[int], length: int, content: Callable[[int], int]) -> DealtIndices:
        probes = tuple((index, (f"{content(index)}{salt}".encode(),)) for index in range(length))
        return DealtIndices((tuple(numbers),), 1, True, length, None, probes)

    wrapped = of([subset[index] for index in indices], 8, lambda index: index)
    return replace(of(indices, len(subset), lambda index: subset[index]), wrapped=wrapped)


def test_subsets_of_ranks_are_compared_by_what_they_wrap() -> None:
    alone = dealt(range(4), [0, 2, 4, 6])
    found = shards_of(alone, [dealt([0, 1], [0, 2]), dealt([0, 1], [2, 6])])
    assert (found.of, found.same_dataset) == ("dataset.dataset", True)
    assert dealt_loss(found) == Loss(1, 4, first="index 4 of dataset.dataset")
    assert dealt_loss(shards_of(alone, [dealt([0, 1], [0, 2]), dealt([0, 1], [4, 6])])).samples == 0
    with pytest.raises(NotApplicable, match="each draws a split of its own"):
        dealt_loss(shards_of(alone, [dealt([0, 1], [0, 2]), dealt([0, 1], [1, 6])]))


def test_subsets_that_are_the_same_or_of_other_datasets_are_compared_as_they_are() -> None:
    same = shards_of(dealt(range(4), range(4)), [dealt([0, 2], range(4)), dealt([1, 3], range(4))])
    assert (same.of, same.within, same.same_dataset) == ("dataset", "", True)
    other = shards_of(dealt(range(2), [0, 2]), [dealt([0, 1], [0, 2]), dealt([0, 1], [1, 6], salt="other")])
    assert (other.of, other.same_dataset) == ("dataset", False)


def test_padding_is_no_loss() -> None:
    assert dealt_loss(shards([[0, 2], [1, 0]], range(3))).samples == 0


def test_indices_of_datasets_that_differ_are_counted() -> None:
    assert dealt_loss(shards([[0, 1], [0, 1]], range(6), same_dataset=False)) == Loss(2, 6)


def test_draws_with_replacement_are_counted() -> None:
    assert dealt_loss(shards([[0, 0], [1, 2]], [0, 1, 1, 3])).samples == 0


def test_a_trace_tells_of_its_second_epoch() -> None:
    both = trace([[0]], again=[[1, 2]])
    assert both.second == replace(trace([[1, 2]]), leaves={}, again=())


@pytest.mark.scan
@pytest.mark.parametrize(("name", "failing"), [("even", []), ("uneven", ["DG203"]), ("too_long", ["DG205"])])
def test_batches_are_counted_beyond_the_samples_that_are_looked_at(name: str, failing: list[str]) -> None:
    report = scan(f"tests.loaders.long:{name}", Settings(select=("DG203", "DG205")))
    assert [result.code for result in report.results if result.status is Status.FAILED] == failing
    assert not report.count(Status.INCONCLUSIVE)


class TestTheSamplersOfRanks:
    """DG204 on a map-style loader: what its samplers leave out."""

    @staticmethod
    def judged(own: Shards | None = None, seeded: Shards | None = None, **changes: Any) -> Verdict:
        facts = {"kind": "map", "length": 40, "unweighted": 0, "sampler": "Sampler", "collate": "default_collate"}
        ranks = SimpleNamespace(
            need_single=lambda: None,
            declared=own is not None,
            world=2,
            shards=lambda same_seed=False: seeded if same_seed else own,
        )
        lab = SimpleNamespace(
            stops=changes.pop("stops", ()),
            facts=SimpleNamespace(**{**facts, **vars(FACTS), **changes}),
            epoch=SimpleNamespace(exercised={"samples": 40}),
            places=SimpleNamespace(sampler=None, share=None, split=None, selection=lambda **_: None),
            ranks=ranks,
            streams=SimpleNamespace(orders=SimpleNamespace(refills=False, whole=False)),
            repro=Repro("module:loader", "train"),
        )
        return verdict_of(dg204_lost_samples.judge, lab)

    def test_weights_of_classes_instead_of_samples(self) -> None:
        (finding,) = self.judged(unweighted=30).findings
        assert finding.message == "30 of 40 samples have no weight in Sampler"
        assert finding.evidence["first lost sample"] == "index 10"
        assert self.judged().findings == ()

    def test_indices_that_no_rank_gets(self) -> None:
        lost = shards([range(10), range(10, 20)], range(40))
        (finding,) = self.judged(lost, lost).findings
        assert finding.message == "20 of 40 samples are read by no rank"
        assert finding.evidence["first lost sample"] == "index 20"
        whole = shards([range(20), range(20, 40)], range(40))
        assert self.judged(whole, whole).outcome.exercised == {"samples": 40, "indices": 40, "ranks": 2}

    def test_ranks_that_only_need_the_same_seed(self) -> None:
        verdict = self.judged(
            shards([range(10), range(10, 20)], range(40)), shards([range(20), range(20, 40)], range(40))
        )
        assert isinstance(verdict.outcome, Undecided)
        assert verdict.findings == ()

    @pytest.mark.parametrize(("index", "batch"), [("7", ("6", "7")), (None, ())])
    def test_an_epoch_that_ends_early(self, index: str | None, batch: tuple[str, ...]) -> None:
        stop = Incident("sample", "StopIteration", index=index, batch=batch, worker=1)
        verdict = self.judged(stops=(stop,))
        (finding,) = verdict.findings
        what = f"dataset[{index}]" if index else "the dataset"
        assert finding.message == f"{what} raises StopIteration, which silently ends the epoch"
        assert finding.evidence.get("batch") == (list(batch) or None)
        assert (finding.repro is None) == (index is None)
        assert verdict.outcome.exercised == {}


def test_most_samples_are_recognised_where_streams_are_mixed() -> None:
    alone = runs(trace([range(20)]))
    with pytest.raises(Undecided, match="number are random"):
        find_loss(runs(trace([[0, 1, 2], [50, 51]])), alone)  # three of five
    assert find_loss(runs(trace([[0, 1], [50, 51]])), alone).counted


def test_the_better_of_two_epochs_counts() -> None:
    alone = runs(trace([range(20)], again=[range(20)], salt="a"))
    assert find_loss(runs(trace([range(12)], again=[range(15)])), alone) == Loss(5, 20, counted=True)
    assert find_loss(runs(trace([range(15)], again=[range(12)])), alone) == Loss(5, 20, counted=True)


@pytest.mark.parametrize(("passed", "enough"), [(17, True), (16, False)])
def test_an_endless_stream_is_compared_from_sixteen_samples_on(passed: int, enough: bool) -> None:
    shared = runs(trace([range(passed)], ended=False))
    alone = runs(trace([range(100)], ended=False))
    if enough:
        assert find_loss(shared, alone) == Loss(0, passed - 1)
    else:
        with pytest.raises(Undecided):
            find_loss(shared, alone)


def test_one_epoch_that_ends_and_one_that_does_not() -> None:
    class EndsOnce(StreamTrace):
        second = property(lambda self: trace([range(3)], ended=False))

    once = EndsOnce(((0, 1), (2,)), True, {})
    with pytest.raises(Undecided, match="one of two epochs ends"):
        find_loss(runs(once), runs(trace([range(4)])))


def test_what_an_endless_stream_loses_first() -> None:
    shared = runs(trace([[*range(0, 40, 4)], [*range(1, 40, 4)]], ended=False))
    loss = find_loss(shared, runs(trace([range(100)], ended=False)))
    assert (loss.same, loss.first) == (True, "sample 2 in a single process")
    named = replace(trace([range(100)], ended=False), names={2: "'two.png'"})
    assert find_loss(shared, runs(named)).first == "sample 2 in a single process ('two.png')"
    shared = runs(trace([[*range(0, 40, 2)], [1]], ended=False), trace([[*range(0, 40, 2)], [*range(1, 40, 4)]]))
    salted = runs(trace([range(100)], ended=False, salt="a"), trace([range(100)], ended=False))
    assert find_loss(shared, salted).first == "sample 3 in a single process"


@pytest.mark.parametrize(
    ("loss", "batch_size", "ranks", "expected"),
    [
        (Loss(25, 50), 8, 99, False),
        (Loss(24, 50), 8, 99, True),
        (Loss(1, 50), None, 2, True),
        (Loss(2, 50), None, 2, False),
        (Loss(1, 50), None, 1, False),
    ],
)
def test_at_least_half_is_never_excused(loss: Loss, batch_size: int | None, ranks: int, expected: bool) -> None:
    facts: Any = SimpleNamespace(**{**vars(FACTS), "batch_size": batch_size})
    assert excused(loss, facts, ranks) is expected


@pytest.mark.parametrize(
    ("lost", "orders", "of", "always"),
    [
        ([{64}] * 10, 10, 65, True),
        ([{64}] * 10, 1, 65, False),  # without a shuffle, the same one is left over
        ([{64}] * 5, 5, 65, False),  # chance could do that
        ([{64}] * 9 + [{3}], 10, 65, False),
        ([set()] * 10, 10, 65, False),
    ],
)
def test_indices_are_lost_for_good_where_no_order_brings_them(
    lost: list[set[int]], orders: int, of: int, always: bool
) -> None:
    assert lost_in_all([frozenset(one) for one in lost], orders, of) == always
    facts: Any = SimpleNamespace(batch_size=8, num_workers=0)
    assert not excused(Loss(1, of, reshuffled=True), facts, 2)


@pytest.mark.parametrize(
    ("epochs", "apart", "note"),
    [
        (((0, 1, 2), (2, 0, 1)), None, ""),
        (
            ((0, 1, 2), (2, 0, 1)),
            Apart("['ids']", 0, (65, 90), (3, 64)),
            "65 to 90 in all of them that were read, and 3 to 64 in others",
        ),
        (
            ((0, 1, 2), (2, 0, 1)),
            Apart("[1]", None, (4, 4), (0, 6)),
            "sample[1] is 4 in all of them that were read, and in no other",
        ),
        (((0, 1, 2), (3, 4, 5)), None, None),
        (((0, 1, 2, 3, 4, 5), (5, 4, 3, 2, 1, 0)), None, None),
    ],
)
def test_a_pass_says_what_the_sampler_leaves_out(
    epochs: tuple[tuple[int, ...], ...], apart: Apart | None, note: str | None
) -> None:
    orders = Orders(epochs, ((), ()), (), epochs[-1], (3, 3), whole=True)
    lab: Any = SimpleNamespace(
        facts=SimpleNamespace(length=6, kind="map"),
        streams=SimpleNamespace(orders=orders, apart=lambda left: apart),
        stops=(),
    )
    said = _left_out(lab)
    assert (said is None) == (note is None)
    assert said is None or said.startswith("3 of 6 samples are in none of 2 epochs: the sampler leaves them out")
    assert said is None or said.endswith(note or "out")


ROWS = [([7] * (3 + number % 30), f"{number:02}", number % 5) for number in range(120)]


@pytest.mark.parametrize(
    ("left", "apart"),
    [
        (lambda row: len(row[0]) > 24, Apart("[0]", 0, (25, 32), (3, 24))),
        (lambda row: len(row[0]) < 9, Apart("[0]", 0, (3, 8), (9, 32))),
        (lambda row: row[2] == 3, Apart("[2]", None, (3, 3), (0, 4))),
        (lambda row: int(row[1]) % 7 == 3, None),
        (lambda row: row[1] == "07", None),
    ],
)
def test_a_size_or_a_class_sets_what_is_left_out_apart(
    left: Callable[[tuple[list[int], str, int]], bool], apart: Apart | None
) -> None:
    indices = [index for index, row in enumerate(ROWS) if left(row)]
    found = read_apart(ROWS, indices, sorted({*range(len(ROWS))}.difference(indices)))
    assert found == apart
