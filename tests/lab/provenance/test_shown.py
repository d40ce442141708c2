"""How `dataguard show` words the part of a source that a sample is read from."""

from __future__ import annotations

import pytest

from dataguard.lab.provenance.shown import listed


@pytest.mark.parametrize(
    ("source", "rows", "words"),
    [
        ("/data/train.npy", (3,), ", row 3"),
        ("/data/train.h5::images", (3, 4, 5), ", rows 3 to 5"),
        ("dataset.x", (0, 2, 4), ", rows 0 to 4 in steps of 2"),
        ("/data/clip.mp4", (3, 4, 5), ", frames 3 to 5"),
        ("/data/clip.mp4", ("1.500000 s",), ", at 1.500000 s"),
        ("/data/speech.wav", (16000,), ", from frame 16000 on"),
        ("/data/speech.wav", (), ""),
    ],
)
def test_parts_of_sources_have_the_words_of_their_kind(source: str, rows: tuple[int | str, ...], words: str) -> None:
    assert listed(source, rows) == words
