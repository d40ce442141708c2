"""What findings look like: real loaders, scanned."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

import numpy as np
import pytest
from PIL import Image

from dataguard.checks import CATALOGUE, figures
from dataguard.core.figures import Figure, Matrix, Picture, Pictures, Plot, Swatches, Timeline
from dataguard.core.model import Check, Coverage, Finding, Judgement, Result, Severity, Status, Undecided
from dataguard.engine import scan
from dataguard.lab.core.observation_cache import ObservationCache
from dataguard.lab.subject import Repro
from dataguard.observer import judge as judging
from dataguard.settings.settings import Settings

F = TypeVar("F", bound=Figure)


def found(stem: str, face: str = "bad", **settings: Any) -> Result:
    """The result of a sample for its own check, which fails."""
    code = stem[:5].upper()
    report = scan(f"sample_datasets.{stem}:{face}", Settings(select=(code,), **settings))
    (result,) = (one for one in report.results if one.code == code and one.status is not Status.SKIPPED)
    assert result.status is Status.FAILED
    return result


def only(kind: type[F], result: Result) -> F:
    (figure,) = result.figures
    assert isinstance(figure, kind)
    return figure


def row(pictures: Pictures) -> tuple[Picture, ...]:
    (cells,) = pictures.cells
    return tuple(cell for cell in cells if cell is not None)


def pixels(png: bytes | None) -> np.ndarray:
    assert png is not None
    return np.asarray(Image.open(BytesIO(png)).resize((32, 32))).astype(int)


def test_every_code_is_one_of_the_catalogue() -> None:
    assert set(figures.BUILDERS) <= {check.code for check in CATALOGUE}


@pytest.mark.scan
def test_clones_are_equal_pictures() -> None:
    sheet = only(Pictures, found("dg101_cloned_worker_rng", pictures=True))
    assert (sheet.rows, sheet.columns) == (("epoch 0", "epoch 1"), ("worker 0", "worker 1"))
    assert all(one == two for one, two in sheet.cells)


@pytest.mark.scan
def test_swapped_channels_are_seen_beside_the_original() -> None:
    original, seen = row(only(Pictures, found("dg505_swapped_channels", pictures=True)))
    red, blue = (pixels(original.png)[..., channel].mean() for channel in (0, 2))
    seen_red, seen_blue = (pixels(seen.png)[..., channel].mean() for channel in (0, 2))
    assert (red > blue) != (seen_red > seen_blue)
    assert original.label.startswith("original (")
    assert seen.label == "what the model sees (its own normalization undone)"


@pytest.mark.scan
def test_statistics_are_shown_without_pictures() -> None:
    statistics = only(Swatches, found("dg507_wrong_normalization"))
    assert [label for label, _ in statistics.rows] == ["measured mean", "measured std", "ImageNet mean", "ImageNet std"]
    assert statistics.channels == ("red", "green", "blue")
    assert statistics.rows[2][1] == (0.485, 0.456, 0.406)


@pytest.mark.scan
@pytest.mark.parametrize(
    ("stem", "note"),
    [
        ("dg506_wrong_scale", "ImageNet's normalization undone"),
        ("dg508_ignored_orientation", "min-max scaled from"),
        ("dg509_clipped_depth", "what the model sees"),
    ],
)
def test_an_original_stands_beside_what_the_model_sees(stem: str, note: str) -> None:
    pictures = only(Pictures, found(stem, pictures=True))
    assert pictures.columns == ("original", "what the model sees")
    original, seen = row(pictures)
    assert original.png != seen.png
    assert note in seen.label


@pytest.mark.scan
@pytest.mark.parametrize("stem", ["dg511_blended_mask", "dg512_desynced_target"])
def test_masks_lie_over_their_images(stem: str) -> None:
    original, seen, *_ = row(only(Pictures, found(stem, pictures=True)))
    assert original.mask
    assert seen.mask
    assert 0.2 < (pixels(seen.mask)[..., 3] > 0).mean() < 1
    assert len(np.unique(pixels(original.mask).reshape(-1, 4), axis=0)) > 2


@pytest.mark.scan
def test_boxes_lie_over_their_images() -> None:
    pictures = only(Pictures, found("dg512_desynced_target", "bad_boxes", pictures=True))
    seen = row(pictures)[1:]
    assert pictures.columns == ("original", "random state 1", "random state 2")
    assert all(one.boxes for one in seen)
    assert all(0 <= box.left < box.right <= 1 and 0 <= box.top < box.bottom <= 1 for one in seen for box in one.boxes)


@pytest.mark.scan
def test_a_leaked_sample_is_shown_in_both_splits() -> None:
    pictures = only(Pictures, found("dg514_leaked_split", pictures=True))
    assert pictures.columns == ("train", "val")
    assert len(pictures.rows) == 2
    assert all(one and two and one.png == two.png for one, two in pictures.cells)


@pytest.mark.scan
@pytest.mark.parametrize(("stem", "count"), [("dg501_non_finite_sample", 1), ("dg504_blank_sample", 2)])
def test_the_samples_of_a_finding_are_shown(stem: str, count: int) -> None:
    assert len(only(Pictures, found(stem, pictures=True)).cells) == count


@pytest.mark.scan
def test_a_shard_map_counts_what_workers_and_ranks_read() -> None:
    workers = only(Matrix, found("dg201_unsharded_workers"))
    assert workers.columns == ("worker 0", "worker 1")
    assert workers.counts[0] == workers.counts[1]
    uneven = only(Matrix, found("dg203_uneven_ranks"))
    assert [sum(counts) for counts in uneven.counts] == [9, 8]
    starved = only(Matrix, found("dg208_starved_worker"))
    assert [count == 0 for count in starved.counts[0]] == [False, False, True]


@pytest.mark.scan
def test_ranks_that_read_the_same_have_all_in_common() -> None:
    by_rank, common = found("dg202_unsharded_ranks").figures
    assert isinstance(by_rank, Matrix)
    assert isinstance(common, Matrix)
    assert {count for counts in common.counts for count in counts} == {sum(by_rank.counts[0])}


@pytest.mark.scan
@pytest.mark.parametrize("stem", ["dg206_replayed_order", "dg207_unshuffled_train"])
def test_the_orders_of_two_epochs_are_points(stem: str) -> None:
    plot = only(Plot, found(stem))
    first, second = plot.lines
    assert not plot.joined
    assert first.points == second.points
    assert sorted(index for _, index in first.points) == sorted({index for _, index in first.points})


@pytest.mark.scan
def test_files_left_open_are_lines_that_rise() -> None:
    for line in only(Plot, found("dg604_leaking_handles")).lines:
        counts = [count for _, count in line.points]
        assert counts == sorted(counts)
        assert counts[-1] > counts[0] + 20


@pytest.mark.scan
def test_a_starved_step_waits_in_its_timeline() -> None:
    step = importlib.import_module("sample_datasets.dg801_starved_step").STEP_MS
    loop, workers = found("dg801_starved_step", samples=16, budget=30, contract={"step_ms": step}).figures
    assert isinstance(loop, Timeline)
    assert isinstance(workers, Timeline)
    assert {span.kind for _, spans in loop.lanes for span in spans} == {"wait", "step"}
    assert {span.kind for _, spans in workers.lanes for span in spans} >= {"read samples", "collate"}
    for _, spans in (*loop.lanes, *workers.lanes):
        assert all(one.start <= one.end <= two.start + 1e-9 for one, two in pairwise(spans))


@pytest.mark.scan
@pytest.mark.parametrize(
    ("stem", "face"), [("dg101_cloned_worker_rng", "bad_stream"), ("dg504_blank_sample", "bad_text")]
)
def test_where_nothing_can_be_seen_there_is_no_figure(stem: str, face: str) -> None:
    assert found(stem, face, pictures=True).figures == ()


@pytest.mark.scan
@pytest.mark.parametrize(
    ("stem", "select"),
    [("dg101_cloned_worker_rng", ("DG101", "DG102", "DG103", "DG107")), ("dg505_swapped_channels", ("DG5",))],
)
def test_pictures_change_no_verdict(stem: str, select: tuple[str, ...]) -> None:
    both = [
        [(one.id, one.status, one.reason, one.findings) for one in report.results]
        for pictures in (False, True)
        for report in [scan(f"sample_datasets.{stem}:bad", Settings(select=select, pictures=pictures))]
    ]
    assert both[0] == both[1]


def judged(builder: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> Result:
    """The result of a check that fails, and whose figures this builder makes."""

    def fails(_: object) -> Judgement:
        yield Finding("it fails")
        return Coverage({})

    monkeypatch.setattr(figures, "BUILDERS", {"DG101": (builder,)})
    check = Check("DG101", "cloned-worker-rng", Severity.ERROR, CATALOGUE[0].doc, fails)
    cache = ObservationCache(Settings(), Path())
    lab: Any = SimpleNamespace(settings=Settings(), repro=Repro("a:x", "x"), cache=cache)
    return judging.judge(check, lab, "x")


@pytest.mark.parametrize("error", [Undecided("too slow"), ValueError("a bug of ours")])
def test_a_figure_that_cannot_be_made_leaves_the_finding(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(*_: object) -> Any:
        raise error

    result = judged(breaks, monkeypatch)
    assert (result.status, [one.message for one in result.findings], result.figures) == (
        Status.FAILED,
        ["it fails"],
        (),
    )


def test_a_bug_of_ours_is_not_hidden_from_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(*_: object) -> Any:
        raise ValueError("a bug of ours")

    monkeypatch.setattr(figures, "BUILDERS", {"DG101": (breaks,)})
    lab: Any = SimpleNamespace()
    with pytest.raises(ValueError, match="a bug of ours"):
        figures.figures_of("DG101", lab, ())
