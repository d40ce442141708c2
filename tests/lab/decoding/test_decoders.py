"""The registry of decoders: entries fit the functions that they name, and files are watched and read through them."""

from __future__ import annotations

import importlib
import inspect
import os
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import torchvision
from PIL import Image

from dataguard.lab.decoding.decoders import DECODERS, Decoder, Gives
from dataguard.lab.decoding.file_substitution import watched
from dataguard.lab.decoding.image_files import as_rgb, decoded, small_grey

ROOT = Path(__file__).parents[3]


def spelled(decoder: Decoder) -> str:
    return decoder.spelling


def test_each_decoder_has_one_entry() -> None:
    assert len({decoder.spelling for decoder in DECODERS}) == len(DECODERS)


@pytest.mark.parametrize("decoder", DECODERS, ids=spelled)
def test_an_entry_names_the_first_parameter(decoder: Decoder) -> None:
    assert bool(decoder.file) == (decoder.gives is not Gives.FRAME)
    try:
        owner = importlib.import_module(decoder.module)
    except (ImportError, RuntimeError) as error:  # not for this torch, or without a library of the system
        pytest.skip(str(error)[:80])
    if not hasattr(owner, decoder.owner or decoder.name):
        pytest.skip(f"{decoder.spelling} is gone from the version that is installed")
    function = getattr(getattr(owner, decoder.owner) if decoder.owner else owner, decoder.name)
    if decoder.gives is Gives.FRAME:
        return
    try:
        first = next(name for name in inspect.signature(function).parameters if name != "self")
    except (TypeError, ValueError):  # built-in functions have no signature, and OpenCV's spell theirs in words
        first = (function.__doc__ or decoder.file).partition("(")[2].partition(",")[0].strip("[ ")
    assert first in (decoder.file, "")


DOCUMENTS = "".join(
    (ROOT / "docs" / page).read_text(encoding="utf-8") for page in ("images.md", "geometry.md", "sound.md")
)
SPELLED = {"PIL": "Pillow", "av": "PyAV", "skimage": "scikit-image", "turbojpeg": "TurboJPEG"}
"""What the documents call a library that is imported under another name."""


@pytest.mark.parametrize("library", dict.fromkeys(decoder.module.partition(".")[0] for decoder in DECODERS))
def test_every_library_is_documented(library: str) -> None:
    assert SPELLED.get(library, library) in DOCUMENTS


@pytest.mark.parametrize("name", ["filename", None])
def test_a_file_is_exchanged_however_it_is_given(name: str | None) -> None:
    decoder = next(decoder for decoder in DECODERS if decoder.spelling == "cv2.imread")
    args: tuple[Any, ...] = () if name else ("a.png", 1)
    kwargs = {name: "a.png", "flags": 1} if name else {}
    assert decoder.given(args, kwargs) == "a.png"
    assert (
        decoder.exchanged(args, kwargs, "b.png") == ((), {"filename": "b.png", "flags": 1})
        if name
        else (
            ("b.png", 1),
            {},
        )
    )


@pytest.fixture
def photograph(tmp_path: Path) -> Path:
    path = tmp_path / "photograph.png"
    pixels = np.random.default_rng(0).integers(0, 256, (24, 32, 3), np.uint8)
    Image.fromarray(pixels).save(path)
    return path


def test_files_that_libraries_open_themselves_are_watched(photograph: Path) -> None:
    seen: list[str] = []

    def fails(path: str) -> bool:
        seen.append(path)
        return True

    with watched(fails):
        assert cv2.imread(str(photograph)) is None
        with pytest.raises(RuntimeError, match="No such file"):
            torchvision.io.read_image(str(photograph))
        with pytest.raises(RuntimeError, match="No such file"):
            torchvision.io.read_file(path=str(photograph))
        with pytest.raises(FileNotFoundError):
            Image.open(photograph)
    assert seen == [os.path.realpath(photograph)] * 4
    assert cv2.imread(str(photograph)) is not None


def test_files_are_read_by_a_library_that_is_there(photograph: Path) -> None:
    content = photograph.read_bytes()
    assert np.array_equal(decoded(content), np.asarray(Image.open(photograph)))  # type: ignore[arg-type]
    assert np.array_equal(as_rgb(content), np.asarray(Image.open(photograph)))  # type: ignore[arg-type]
    grey = small_grey(str(photograph), 16)
    assert grey is not None
    assert grey.shape == (16, 16)
    assert decoded(b"no image") is as_rgb(b"no image") is small_grey("nowhere.png", 16) is None
