"""What the name of a loader says."""

from __future__ import annotations

import pytest

from dataguard.settings.role_names import stem_of


@pytest.mark.parametrize(
    ("name", "stem"),
    [("train", ""), ("val_loader", "_loader"), ("depth_test", "depth_"), ("testDataloader", "dataloader"), ("x", None)],
)
def test_splits_have_their_names_in_common(name: str, stem: str | None) -> None:
    assert stem_of(name) == stem
