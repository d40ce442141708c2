"""What counts as a broken resume: runs as plain data, and torchdata's own loader."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from torch.utils.data import DataLoader, IterableDataset

from dataguard.checks.streams.dg209_broken_resume import _left_to_training, faults
from dataguard.core.model import Severity, Status, Undecided
from dataguard.engine import scan
from dataguard.lab.streams.offsets import find_offsets
from dataguard.lab.streams.resume import Batches, Point, Resumes, Run, find_resumes, through_json
from dataguard.settings.settings import Settings
from sample_datasets._parts import Pictures
from tests.loaders.restarted import Resumable


def batches(words: str) -> Batches:
    """Batches of an image and a label, as two letters each."""
    return tuple(((".image", word[:1].encode()), (".label", word[1:].encode())) for word in words.split())


def run(*epochs: str) -> Run:
    """A run whose samples are recognised by their image."""
    samples = frozenset(one[:1] for epoch in epochs for one in batches(epoch))
    return Run(tuple(map(batches, epochs)), ended=True, samples=samples)


FIRST, SECOND = "a1 b1 c2 d2", "d2 b1 a1 c2"
REFERENCE = run(FIRST, SECOND)


def found(came: str, point: Point, *, reference: Run = REFERENCE, asked: Run = REFERENCE) -> Sequence[str]:
    """What is wrong when this comes after restoring at a point."""
    return list(faults(Resumes(reference, asked, {point: run(came)}, {})).values())


@pytest.mark.parametrize(
    ("came", "point", "words"),
    [
        ("b1 c2 d2", Point(0, 1), []),
        ("b1 a1 c2", Point(1, 1), []),
        ("a1 b1 c2 d2", Point(0, 2), ["repeats 2 batches"]),
        ("d2", Point(0, 2), ["skips 1 batch"]),
        ("c2", Point(0, 2), ["yields 1 batch instead of 2"]),
        ("b1 d2 c2", Point(0, 1), ["yields other batches than without the interruption"]),
        ("", Point(0, 2), ["yields no batch instead of 2"]),
        ("", Point(0, 4, end=True), []),
        ("b1 d2 a1 c2", Point(0, 4, end=True), []),
        ("d2 c2", Point(0, 4, end=True), ["yields 2 batches instead of 4"]),
    ],
)
def test_what_comes_is_compared_with_what_would_have(came: str, point: Point, words: list[str]) -> None:
    assert found(came, point) == words


def test_a_point_that_is_left_open_does_not_hide_another() -> None:
    random = replace(run("x1 y2"), samples=frozenset())
    runs = {Point(0, 2): random, Point(0, 1): run("a1 b1 c2 d2")}
    assert list(faults(Resumes(REFERENCE, REFERENCE, runs, {})).values()) == ["repeats 1 batch"]


def test_what_comes_after_the_batches_that_were_read_is_not_known() -> None:
    beginning = replace(REFERENCE, ended=False)
    assert found("b1 c2 d2 e3", Point(0, 1), reference=beginning, asked=beginning) == []
    assert found("a1 b1 c2 d2", Point(0, 1), reference=beginning, asked=beginning) == ["repeats 1 batch"]


@pytest.mark.parametrize(("came", "after"), [("x2 y1", 2), ("b1 x2 y1", 1)])
def test_samples_that_nobody_has_seen_are_random(came: str, after: int) -> None:
    with pytest.raises(Undecided, match="draws random samples"):
        found(came, Point(0, after))


def test_other_batches_of_known_samples_are_an_order() -> None:
    mixed = Run((batches("ab1 cd2"),), ended=True, samples=REFERENCE.samples)
    resumes = Resumes(REFERENCE, REFERENCE, {Point(0, 2): mixed}, {})
    assert faults(resumes) == {"after 2 batches": "yields other batches than without the interruption"}


@pytest.mark.parametrize(
    ("kind", "came", "after_resume"),
    [("stream", "c2 d2", False), ("stream", "d2 c2", True), ("stream", "c2", True), ("map", "d2 c2", False)],
)
def test_another_seed_is_run_only_where_a_restored_stream_differs(kind: str, came: str, after_resume: bool) -> None:
    runs = {"reference": REFERENCE, "asked": replace(REFERENCE, states={Point(0, 2): b""}), "reseeded": REFERENCE}
    asked = []

    def observe(key: tuple[str, int, Any], *_: object, **__: object) -> Run:
        asked.append(key[2])
        return runs.get(key[2]) or run(came)

    subject: Any = SimpleNamespace(facts=SimpleNamespace(kind=kind, own_iter=False), observe=observe, build=dict)
    resumes = find_resumes(subject, workers=0)
    assert ("reseeded" in asked) == (resumes.reseeded is not None) == after_resume


def test_a_leaf_that_tells_batches_apart_is_enough() -> None:
    numbered = run("a1 b2 c3 d4", "a1 b2 c3 d4")
    assert found("x3 y4", Point(0, 2), reference=numbered, asked=numbered) == []


def test_a_state_that_cannot_be_pickled_is_told() -> None:
    asked = replace(REFERENCE, refused="TypeError: no")
    assert faults(Resumes(REFERENCE, asked, {}, {})) == {
        "in another process": "fails: its state cannot be pickled (TypeError: no)"
    }


def test_runs_that_differ_without_interruption_say_nothing() -> None:
    with pytest.raises(Undecided, match="two uninterrupted runs"):
        found("c2 d2", Point(0, 2), asked=run("x3 y3 z3 w3", "x3 y3 z3 w3"))


@pytest.mark.parametrize(("state", "back"), [({"k": 1}, None), ({1: 2}, {"1": 2}), ({"k": b"x"}, None)])
def test_a_state_that_json_changes_is_tried_as_well(state: object, back: Mapping[str, int] | None) -> None:
    assert through_json(state) == back


@pytest.mark.scan
@pytest.mark.parametrize(
    ("module", "loader", "save", "load", "words"),
    [
        ("saved", "windows", "save_next", "load_next", []),
        ("saved", "shuffled", "save", "load_late", ["restored after 1 batch, the loader skips 1 batch"]),
        ("resumed_libraries", "prepared_stateless", "save", "skip", []),
    ],
)
def test_functions_of_the_user_resume_a_loader(
    module: str, loader: str, save: str, load: str, words: list[str]
) -> None:
    if module == "resumed_libraries":
        pytest.importorskip("accelerate")
    contract = {"save": f"tests.loaders.{module}:{save}", "load": f"tests.loaders.{module}:{load}"}
    (result,) = scan(f"tests.loaders.{module}:{loader}", Settings(select=("DG209",), contract=contract)).results
    assert [finding.message for finding in result.findings] == words
    assert result.exercised["restarts"] == 6


class FromPlace(Resumable):
    """It starts each epoch behind as many samples as an attribute of this name says."""

    def __init__(self, name: str, value: int | None) -> None:
        super().__init__()
        self.name = name
        setattr(self, name, value)

    def __iter__(self) -> Iterator[int]:
        return iter(self.order()[getattr(self, self.name) :])


@pytest.mark.parametrize(
    ("name", "value", "is_found"),
    [("skip", 0, True), ("advance", 0, True), ("start_iteration", None, True), ("skip", None, False)],
)
def test_a_sampler_has_an_offset_of_a_name(name: str, value: int | None, is_found: bool) -> None:
    loader = DataLoader(Pictures(40), batch_size=4, sampler=FromPlace(name, value))
    found = find_offsets(lambda: loader, None, {}).offsets
    assert {offset.name for offset in found} == ({name} if is_found else set())


class StreamFromPlace(IterableDataset[int]):
    """It starts an epoch behind as many samples as an attribute says, which `does` something else, too."""

    def __init__(self, name: str, does: str) -> None:
        self.name, self.does = name, does
        self.epoch = 0
        setattr(self, name, 0)

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __iter__(self) -> Iterator[int]:
        start, numbers = getattr(self, self.name), list(range(24))
        if self.does == "skip a header":
            start, numbers = 0, numbers[start:]
        random.Random(self.epoch if self.does != "keep the order" else 0).shuffle(numbers)
        for number in numbers[start:]:
            setattr(self, self.name, getattr(self, self.name) + (self.does == "count"))
            yield number
        setattr(self, self.name, 0 if self.does == "count" else start)


@pytest.mark.parametrize(
    ("name", "does", "later"),
    [
        ("start_index", "", [16, 16]),
        ("start_index", "keep the order", []),
        ("consumed_samples", "keep the order", [16, 16]),
        ("skip_rows", "skip a header", []),
        ("cursor", "count", [24, 24]),
        ("cursor", "", []),
    ],
)
def test_a_stream_has_an_offset_by_what_that_does(name: str, does: str, later: list[int]) -> None:
    loader = DataLoader(StreamFromPlace(name, does), batch_size=4)
    found = find_offsets(lambda: loader, None, {})
    assert [len(following) for offset in found.offsets for _, following in offset.epochs] == later
    assert (_left_to_training(found) is not None) == (later == [16, 16])


def test_the_right_position_in_another_order_is_said() -> None:
    def of(*epochs: str) -> Run:
        rows = tuple(tuple((one.encode(),) for one in epoch.split()) for epoch in epochs)
        batches = tuple(tuple((("", one.encode()),) for one in epoch.split()) for epoch in epochs)
        return Run(batches, ended=True, samples=frozenset(batch for epoch in batches for batch in epoch), rows=rows)

    whole = of("a b c d", "a b c d")
    (fault,) = faults(Resumes(whole, whole, {Point(0, 1): of("b c a")}, {})).values()
    assert fault == "continues at the right position in another order: it repeats 1 sample and leaves out 1"


@pytest.mark.scan
def test_what_training_iterates_in_place_of_a_loader_is_resumed() -> None:
    pytest.importorskip("accelerate")
    pytest.importorskip("datasets")
    results = scan("tests.loaders.resumed_libraries:named", Settings(select=("DG209",))).results
    by_name = {result.loader.removeprefix("named."): result for result in results}
    failed = {name for name, result in by_name.items() if result.status is Status.FAILED}
    assert failed == {"prepared_unseeded", "streamed_buffer"}, by_name
    (finding,) = by_name["prepared_unseeded"].findings
    assert "of the second epoch, the loader continues at the right position in another order" in finding.message
    assert "DataLoaderShard instead, which has no state" in (by_name["prepared_stateless"].reason or "")
    assert all(by_name[name].exercised["restarts"] == 6 for name in ("prepared", "streamed"))


@pytest.mark.scan
def test_a_new_process_and_a_second_epoch_show_what_a_restart_loses() -> None:
    results = scan("tests.loaders.restarted:named", Settings(select=("DG209",))).results
    by_name = {result.loader: result for result in results}
    failed = {name for name, result in by_name.items() if result.status is Status.FAILED}
    assert failed == {"global_generator", "module", "set", "start_stays", "behind"}, by_name
    assert [finding.message for finding in by_name["behind"].findings] == [
        "restored after 1 batch, the loader repeats 1 batch"
    ]
    causes = {name: by_name[name].findings[0].evidence.get("differs there") for name in ("global_generator", "set")}
    assert causes == {
        "global_generator": "the global generators have drawn other numbers",
        "set": "strings have other hashes, and sets of them another order",
    }
    assert "are not seeded before it is made" in (by_name["drawn_once"].reason or "")
    assert not by_name["epoch"].reason
    assert by_name["start_once"].exercised == {"offsets": 1}
    assert [by_name[name].status for name in ("start_of_rank", "of_epoch")] == [Status.SKIPPED] * 2


@pytest.mark.scan
@pytest.mark.parametrize("name", ["stateful", "stateful_stream"])
def test_torchdata_goes_on_where_it_was_without_workers(name: str) -> None:
    (result,) = scan(f"tests.loaders.public:{name}", Settings(select=("DG209",), workers=0)).results
    assert result.exercised["restarts"] >= 5
    if result.findings:  # torchdata 0.11 counts what it skipped twice where a stream without a state has no workers
        (finding,) = result.findings
        assert (name, result.severity) == ("stateful_stream", Severity.ERROR)
        assert finding.message.startswith("restored a second time, after 3 batches, the loader skips 1 batch")
