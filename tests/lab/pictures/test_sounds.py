"""Waveforms and spectrograms of a file, and of what the model hears."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from dataguard.core.figures import Picture, Pictures
from dataguard.core.model import NotApplicable
from dataguard.engine import scan
from dataguard.lab.pictures.sample_pictures import show_sound
from dataguard.lab.process.isolation import isolated
from dataguard.settings.settings import Settings
from sample_datasets import dg531_ignored_sample_rate, dg533_mixed_sound_channels

pytestmark = pytest.mark.scan


def pixels(picture: Picture | None) -> np.ndarray:
    assert picture is not None
    return np.asarray(Image.open(BytesIO(picture.png)).convert("L"))


def shown(build: Any, folder: Path, path: str = "sample[0]") -> Any:
    return isolated(lambda: show_sound(build, folder, 1, path), folder, timeout=60, allowed=60)


def test_a_waveform_beside_its_file(tmp_path: Path) -> None:
    original, heard = shown(dg531_ignored_sample_rate.bad, tmp_path)
    assert "01.wav, 44,100 Hz, largest value 0.8" in original[0].label
    assert heard[0].label.startswith("what the model hears, largest value")
    for columns in (original, heard):
        voiced = (pixels(columns[1]) < 128).mean(1)  # eight harmonics in the lowest part, noise above
        assert voiced[-8:].max() > 0.5 > 0.1 > voiced[:48].max()


def test_a_spectrogram_has_no_waveform(tmp_path: Path) -> None:
    original, heard = shown(dg531_ignored_sample_rate.bad_features, tmp_path)
    assert heard[0] is None
    assert pixels(heard[1]).shape == pixels(original[1]).shape


def test_other_leaves_are_no_sound(tmp_path: Path) -> None:
    with pytest.raises(NotApplicable):
        shown(dg531_ignored_sample_rate.bad, tmp_path, "sample[1]")
    with pytest.raises(NotApplicable):
        shown(dg533_mixed_sound_channels.bad_time_averaged, tmp_path)


def test_a_finding_has_them(tmp_path: Path) -> None:
    target = "sample_datasets.dg533_mixed_sound_channels:bad"
    report = scan([target], Settings(select=("DG533",), pictures=True))
    (figure,) = next(result for result in report.results if result.code == "DG533").figures
    assert isinstance(figure, Pictures)
    assert figure.rows == ("waveform", "spectrogram")
    assert all(cell for row in figure.cells for cell in row)
