"""State that reading changes, and random numbers that are drawn once: where they are a defect, and where none."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch

from dataguard.core.model import Result, Status, Undecided
from dataguard.engine import scan
from dataguard.lab.rng import frozen_rng
from dataguard.lab.rng.frozen_rng import RngFreezer
from dataguard.lab.rng.rng_discovery import find_generators
from dataguard.lab.streams.stream_trace import StreamTrace
from dataguard.settings.settings import Settings
from tests.loaders import frozen, states


def results(code: str, factory: Callable[[], Any]) -> dict[str, Result]:
    """What a check says of each loader that a factory makes; they are scanned together, for the host starts once."""
    report = scan(f"{factory.__module__}:{factory.__name__}", Settings(select=(code,), timeout=8))
    return {result.loader: result for result in report.results}


@pytest.mark.scan
def test_what_workers_change_is_lost() -> None:
    found = results("DG107", states.losing)
    assert {name for name, result in found.items() if result.status is Status.FAILED} == set(found)
    said = {name: result.findings[0] for name, result in found.items()}
    assert said["augmented"].message == (
        "sample[0] depends on how many samples were read before, and workers lose that state after every epoch"
    )
    assert said["augmented"].evidence["changed by reading"] == ["dataset.seen"]
    assert "dg107_deaf_workers.py" in str(said["augmented"].at)
    assert said["transform"].evidence["changed by reading"] == ["dataset.transform.calls"]
    assert said["collate"].evidence["leaves"] == ["batch[0]"]
    assert said["vocabulary"].message.endswith(
        "depends on which samples were read before, and each of 2 workers sees only its own reads"
    )
    assert said["stream"].message.startswith("the stream depends on how often it was iterated before")


@pytest.mark.scan
def test_what_is_kept_random_or_wears_off_is_not() -> None:
    found = results("DG107", states.keeping)
    assert found.pop("one").status is Status.SKIPPED
    assert {name: result.status for name, result in found.items() if result.status is not Status.PASSED} == {}


@pytest.mark.scan
def test_a_source_that_is_changed_in_place_is_left_open() -> None:
    found = results("DG107", states.unclear)
    assert {result.status for result in found.values()} == {Status.INCONCLUSIVE}
    assert "depends on how often it was read before" in str(found["in_place"].reason)


@pytest.mark.scan
def test_what_is_drawn_once_may_have_to_be_kept() -> None:
    found = results("DG103", frozen.passing)
    assert {name: result.status for name, result in found.items() if result.status is not Status.PASSED} == {}


@pytest.mark.scan
def test_what_decides_labels_as_well_is_left_open() -> None:
    found = results("DG103", frozen.unclear)
    assert {result.status for result in found.values()} == {Status.INCONCLUSIVE}


@pytest.mark.scan
def test_a_cache_that_ends_with_its_worker_is_a_note() -> None:
    (result,) = results("DG103", frozen.briefly).values()
    assert result.status is Status.PASSED
    assert "until its worker exits" in str(result.reason)


HELD = {
    "random": random.Random(5),
    "numpy": np.random.default_rng(5),
    "philox": np.random.Generator(np.random.Philox(5)),
    "legacy": np.random.RandomState(5),
    "bits": np.random.PCG64(5),
    "torch": torch.Generator(),
}


def draw(generator: Any) -> float:
    """One number from any generator."""
    if isinstance(generator, torch.Generator):
        return float(torch.rand((), generator=generator))
    if isinstance(generator, np.random.BitGenerator):
        return float(generator.random_raw())
    return float(generator.random())


def draws(freezer: RngFreezer, epoch: int, fetch: int, roots: dict[str, Any]) -> list[float]:
    """A number from each held generator and from the global ones, in a fetch."""
    with freezer.frozen(epoch, fetch, roots):
        return [*map(draw, HELD.values()), random.random(), float(np.random.random()), float(torch.rand(()))]


def test_generators_are_held_still_and_the_global_ones_go_on() -> None:
    freezer = RngFreezer([(1, 2), (1,)])
    roots = {"dataset": HELD}
    assert len(find_generators(roots)) == len(HELD)
    torch.manual_seed(0)
    before = torch.initial_seed(), torch.rand(())
    torch.manual_seed(0)
    first = draws(freezer, 0, 0, roots)
    assert draws(freezer, 0, 0, roots) == first
    assert draws(freezer, 0, 1, roots) == draws(freezer, 0, 7, roots) != first, "the last seed holds on"
    assert draws(freezer, 1, 3, roots) == draws(freezer, 9, 0, roots) == first, "and so does the last epoch"
    assert (torch.initial_seed(), torch.rand(())) == before


def test_generators_that_are_created_late_are_held_still(monkeypatch: pytest.MonkeyPatch) -> None:
    search = mock.Mock(side_effect=find_generators)
    monkeypatch.setattr(frozen_rng, "find_generators", search)
    freezer, held = RngFreezer([(1,)]), dict[str, Any]()

    def fetch() -> list[float]:
        with freezer.frozen(0, 0, {"dataset": held}):
            return list(map(draw, held.values()))

    for _ in range(5):
        fetch()
    held["random"], held["torch"] = random.Random(5), torch.Generator()
    assert fetch() == fetch(), "the collector lists one of them"
    held["torch again"] = torch.Generator()
    fetch()
    assert fetch() == fetch(), "the eighth fetch searches anyway"
    for _ in range(30):
        fetch()
    assert search.call_count == 7


def test_a_generator_that_a_stream_made_for_itself_is_left_alone() -> None:
    rng = random.Random(5)
    with RngFreezer([(1,)]).frozen(0, 0, {"dataset": None, "stream": [rng]}):
        assert rng.random() == random.Random(5).random()


def stream(*workers: str, ended: bool = True) -> StreamTrace:
    """What workers yielded: samples with an image and a label, as two letters each."""
    whole, images, labels = (
        tuple(tuple(int.from_bytes(two[part].encode(), "big") for two in one.split()) for one in workers)
        for part in (slice(None), slice(1), slice(1, None))
    )
    return StreamTrace(whole, ended, {".image": images, ".label": labels})


@pytest.mark.parametrize(
    ("one", "two", "leaves"),
    [
        (stream("a1 b2", "c3"), stream("c3", "b2 a1"), []),
        (stream("a1 b2", "c3"), stream("x1 y2", "z3"), [".image"]),
        (stream("a1 b2"), stream("a1 b2 c3"), [".image", ".label"]),
        (stream("a1 b2 c3", ended=False), stream("a1 b2", ended=False), []),
        (stream("a1 b2", ended=False), stream("x1 y2 z3", ended=False), [".image"]),
    ],
)
def test_streams_are_compared_in_any_order_or_by_what_recognises_samples(
    one: StreamTrace, two: StreamTrace, leaves: list[str]
) -> None:
    assert one.differing(two) == leaves
    assert two.differing(one) == leaves


def test_a_stream_that_goes_on_in_another_order_is_left_open() -> None:
    with pytest.raises(Undecided, match="its order may differ"):
        stream("a1 b2", ended=False).differing(stream("b2 a1", ended=False))
    with pytest.raises(Undecided, match="its order may differ"):  # all the same label: it recognises nothing
        stream("a1 b1 c1", ended=False).differing(stream("x1 y1 z1", ended=False))
