"""Findings point at the line to change."""

from __future__ import annotations

from pathlib import Path

import pytest

from dataguard.engine import scan
from dataguard.model import Status
from dataguard.settings.settings import Settings

LINES = {
    "dg505_swapped_channels:bad": "cv2.imread(",
    "dg101_cloned_worker_rng:bad_transform": "return image * self.source.uniform(0.5, 1.0)",
    "dg101_cloned_worker_rng:bad_albumentations": "self.augment(image=pixels)",
    "dg101_cloned_worker_rng:bad_worker_init": "torch.manual_seed(",
    "dg202_unsharded_ranks:bad": "DataLoader(",
    "dg204_lost_samples:bad": "DataLoader(",
    "dg410_doubly_shifted_labels:bad": "def __getitem__",
    "dg201_unsharded_workers:bad": "for number in range(16)",
    "dg202_unsharded_ranks:bad_augmented": "return ((brighten(picture(number)), number)",
    "dg304_negative_index:bad": "def __getitem__",
    "dg309_listing_order:bad_beside_sorted": "for name in os.listdir(ROOT / folder)",
}


@pytest.mark.scan
@pytest.mark.parametrize("sample", LINES)
def test_a_finding_points_at_the_line_to_change(sample: str) -> None:
    report = scan(f"sample_datasets.{sample}", Settings(select=(sample[:5].upper(),)))
    (finding,) = [one for result in report.results if result.status is Status.FAILED for one in result.findings]
    assert finding.at is not None
    assert finding.at.file is not None
    assert finding.at.line is not None
    assert LINES[sample] in Path(finding.at.file).read_text().splitlines()[finding.at.line - 1]
