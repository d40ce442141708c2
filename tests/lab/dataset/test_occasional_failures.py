from __future__ import annotations

from pathlib import Path

import pytest
from torch.utils.data import DataLoader, Dataset

from dataguard.lab.dataset.missing_file import MOST_REPEATED_READS, _repeated


class Worn(Dataset[int]):
    """Raises at one sample, in every so many-th read, or after so many reads."""

    def __init__(
        self, broken: int | None = None, every: int | None = None, after: int = 10 * MOST_REPEATED_READS
    ) -> None:
        self.broken, self.every, self.after = broken, every, after
        self.reads = 0

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> int:
        self.reads += 1
        if index == self.broken or self.reads > self.after or (self.every and self.reads % self.every == 0):
            raise ValueError("worn out")
        return index


@pytest.mark.parametrize(
    ("dataset", "failures"),
    [
        (Worn(), None),
        (Worn(every=1000), MOST_REPEATED_READS // 1000),
        (Worn(broken=2), MOST_REPEATED_READS // 4),
        (Worn(after=100), None),  # it is used up, as no epoch would
    ],
)
def test_reads_that_raise_now_and_then_are_counted(dataset: Worn, failures: int | None, tmp_path: Path) -> None:
    found = _repeated(DataLoader(dataset), tmp_path, [0, 1, 2, 3])
    assert (found and (found.failures, found.reads)) == (failures and (failures, MOST_REPEATED_READS))
