"""`dataguard show`: what a sample holds, in words and drawn; what reading it raises."""

from __future__ import annotations

import importlib
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import dataguard
from dataguard.cli import main
from dataguard.cli.show import MOST_SAMPLES
from dataguard.core.figures import Wanted
from dataguard.core.model import UsageError
from dataguard.engine import show
from dataguard.lab.subject import Repro, _unfound
from dataguard.render.formats import renderer
from dataguard.render.sample_picture import LEAST_WIDTH
from dataguard.report import SampleViews
from tests.loaders.shown import HEIGHT, WIDTH, Scenes, make

TARGET = "tests.loaders.shown:make"


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main.main(["show", *arguments])
    return code, *capsys.readouterr()


@pytest.fixture(scope="module")
def scenes() -> SampleViews:
    return show(TARGET, Wanted((0, 0, 3)))


@pytest.mark.scan
def test_a_sample_is_described_leaf_by_leaf(scenes: SampleViews) -> None:
    first, again, other = scenes.samples
    leaves = {leaf.path: leaf for leaf in first.leaves}
    assert leaves["sample['image']"].type == "Image float32"
    assert leaves["sample['image']"].shape == (3, HEIGHT, WIDTH)
    assert leaves["sample['mask']"].values == "0: 83.3%, 7: 16.7%"
    assert leaves["sample['label']"].values == "0 (cat)"
    notes = {leaf.path: leaf.note for leaf in again.leaves}
    assert notes["sample['image']"] == "as above"
    assert notes["sample['noise']"] == "differs from the read above"
    assert {leaf.path: leaf.note for leaf in other.leaves}["sample['mask']"] == "as in sample 0"
    assert "2 NaN" in other.leaves[0].values
    assert scenes.others == ("val",)


@pytest.mark.scan
def test_images_are_drawn_with_mask_and_boxes(scenes: SampleViews, tmp_path: Path) -> None:
    image, mask = scenes.samples[0].pictures
    assert (image.label, len(image.boxes), image.mask) == ("sample['image']", 1, None)
    assert mask.mask is not None
    drawn = Image.open(BytesIO(renderer("show", "png")(scenes)))
    assert drawn.width >= 2 * LEAST_WIDTH
    assert "data:image/png;base64," in renderer("show", "html")(scenes)
    assert "<!doctype" not in scenes._repr_html_()
    text = renderer("show", "text")(scenes, colour=True)
    assert text.count("▀") >= WIDTH * HEIGHT // 2
    assert "▀" not in str(scenes)


@pytest.mark.scan
@pytest.mark.parametrize(
    ("index", "words"), [("4", "ValueError: no scene 4"), ("5", "killed by SIGABRT"), ("6", "no progress for 3 s")]
)
def test_what_reading_a_sample_does_is_shown(index: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, text, _ = run(capsys, TARGET, index, "--timeout", "3")
    assert code == 1
    assert words in text
    assert index != "4" or "tests/loaders/shown.py:" in text


@pytest.mark.scan
def test_a_batch_is_collated_and_shows_what_getitems_returned(capsys: pytest.CaptureFixture[str]) -> None:
    code, text, _ = run(capsys, TARGET, "1", "2", "--batch", "--loader", "val")
    assert code == 0
    samples, whole, batch = (
        text.index(words) for words in ("sample 2", "__getitems__([1, 2])", "batch of samples 1, 2")
    )
    assert samples < whole < batch
    assert "[2, 1]" in text


@pytest.mark.scan
def test_keys_and_positions_of_a_stream(capsys: pytest.CaptureFixture[str]) -> None:
    code, text, _ = run(capsys, "tests.loaders.shown:keyed", "scene/one")
    assert (code, "'scene/one'" in text, "0 to 19, mean 9.5" in text) == (0, True, True)
    code, text, _ = run(capsys, "sample_datasets.dg201_unsharded_workers:bad", "2", "99")
    assert code == 1
    assert "sample 2 of the stream" in text
    assert "the stream ends after 16 samples" in text
    code, _, error = run(capsys, "sample_datasets.dg201_unsharded_workers:bad", "2", "--batch")
    assert code == 2
    assert "a stream has no indices to make a batch of" in error


@pytest.mark.scan
def test_a_loader_in_hand_is_shown_as_it_is() -> None:
    views = dataguard.show(make(), 1, 2, loader="train", batch=True)
    assert (views.target, views.loader, views.failed) == ("loader", "train", False)
    assert repr(views) == "<SampleViews sample 1, sample 2, batch of samples 1, 2>"
    assert {leaf.path: leaf.shape for leaf in views.samples[-1].leaves}["batch['image']"] == (2, 3, HEIGHT, WIDTH)
    assert "1 (dog)" in str(dataguard.show(Scenes(), 1))


@pytest.mark.scan
def test_wrong_requests_are_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for arguments, words in (
        ((TARGET, "0", "--loader", "tran"), "--loader tran: no such loader in tests.loaders.shown:make; did you mean"),
        ((TARGET, "0", "--colour"), "no such option: --colour"),
        ((TARGET, *map(str, range(MOST_SAMPLES + 1))), f"show at most {MOST_SAMPLES} at once"),
        (("0", "--config", str(tmp_path / "none.toml")), "none.toml"),
        ((TARGET, "0", "--format", "png"), "--format png: name a file"),
        (
            ("tests.loaders.shown:keyed", "two", "--output", str(tmp_path / "sample.png")),
            "nothing to draw: no leaf of these samples is an image",
        ),
    ):
        code, _, error = run(capsys, *arguments)
        assert code == 2, arguments
        assert words in error


@pytest.mark.parametrize(
    ("indices", "options", "command"),
    [
        ((20,), {}, "dataguard show pkg:make 20 --loader val"),
        ((-1, "img/3.png"), {}, "dataguard show pkg:make -1 img/3.png --loader val"),
        (("None", "7"), {}, """dataguard show pkg:make "'None'" "'7'" --loader val"""),
        (((0, 2),), {"times": 9}, "dataguard show pkg:make '(0, 2)' --loader val --repeat 9"),
        ((3, 5), {"batch": True}, "dataguard show pkg:make 3 5 --loader val --batch"),
    ],
)
def test_the_command_for_samples(indices: tuple[Any, ...], options: dict[str, Any], command: str) -> None:
    assert Repro("pkg:make", "val").samples(*indices, **options) == command
    assert Repro("pkg:make", "a\n'b").samples(1) == r"dataguard show pkg:make 1 --loader $'a\u000a\'b'"
    in_src = Repro("pkg:make", "make", ("src",))
    assert in_src.samples(1) == "PYTHONPATH=src dataguard show pkg:make 1"
    assert in_src.scan("DG101", "") == "PYTHONPATH=src dataguard scan pkg:make --select DG101"


def test_a_command_names_the_folders_where_it_would_not_look_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "module_of_repro.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("module_of_repro")
    assert _unfound("module_of_repro:make", ()) == (str(tmp_path),)
    assert _unfound("torch.utils.data:DataLoader", ()) == ()
    assert _unfound("sample_datasets.dg101_cloned_worker_rng:bad", ("tests",)) == ("tests",)
    assert _unfound("loader=dataguard.settings.target_spelling:object_1", ("tests",)) == ()


def test_the_command_for_samples_of_a_loader_in_hand() -> None:
    held = Repro("loader=dataguard.settings.target_spelling:object_1", "loader")
    assert held.samples(3, "a", batch=True) == "dataguard.show(loader, 3, 'a', batch=True)"
    assert held.spelled("'a'", 2) == "dataguard.show(loader, 'a', repeat=2)"
    assert held.apart(3) == "dataguard.show(loader, 3); dataguard.show(loader, 3)"


def test_a_png_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    from dataguard.cli.console import put

    with pytest.raises(UsageError, match="Is a directory"):
        put(lambda **_: b"png", str(tmp_path))


@pytest.mark.scan
def test_the_files_and_rows_that_a_sample_comes_from_are_shown() -> None:
    (masked,) = show("sample_datasets.dg512_desynced_target:good", Wanted((3,))).samples
    assert masked.sources
    (window,) = show('tests.loaders.fitted:fitted_on_all(which="windows")', Wanted((5,)), loader="val").samples
    assert window.sources == (
        ("sample[0]", "dataset.rows, rows 5 to 28"),
        ("sample[1]", "dataset.rows, rows 29 to 34"),
    )
    assert "from  sample[0]  dataset.rows, rows 5 to 28" in renderer("show", "text")(SampleViews("a:b", "x", (window,)))
