"""Contact sheets: clones are equal pictures, and healthy workers make different ones."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from dataguard.core.model import NotApplicable
from dataguard.lab.lab import Lab
from dataguard.lab.pictures.sample_pictures import Cells
from dataguard.settings.settings import Settings
from tests.support.labs import lab_of

pytestmark = pytest.mark.scan


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> None:
    torch.set_num_threads(1)  # as in the host: a fork hangs otherwise


def lab(face: str, folder: Path, *, pictures: bool = True) -> Lab:
    return lab_of(f"sample_datasets.{face}", folder, Settings(samples=16, pictures=pictures))


def different(cells: Cells) -> int:
    return len({picture for row in cells for picture in row})


def test_cloned_workers_make_equal_pictures_and_their_good_twin_does_not(tmp_path: Path) -> None:
    cloned = lab("dg101_cloned_worker_rng:bad", tmp_path).pictures.sheet("sample[0]")
    assert (len(cloned.cells), len(cloned.cells[0])) == (2, 2)
    assert all(row[0] == row[1] for row in cloned.cells)
    assert cloned.cells[0] != cloned.cells[1]
    assert different(lab("dg101_cloned_worker_rng:good", tmp_path).pictures.sheet("sample[0]").cells) == 4


def test_what_collate_fn_makes_is_shown_too(tmp_path: Path) -> None:
    assert different(lab("dg102_replayed_epoch:bad_collate", tmp_path).pictures.sheet("batch[0]").cells) < 4


@pytest.mark.parametrize("leaf", ["sample[1]", "sample[7]", "batch[1]"])
def test_what_is_no_image_makes_no_sheet(leaf: str, tmp_path: Path) -> None:
    with pytest.raises(NotApplicable, match="not an image"):
        lab("dg101_cloned_worker_rng:good", tmp_path).pictures.sheet(leaf)


def test_pictures_are_made_on_request_only(tmp_path: Path) -> None:
    with pytest.raises(NotApplicable, match="not asked for"):
        lab("dg101_cloned_worker_rng:good", tmp_path, pictures=False).pictures.sheet("sample[0]")
