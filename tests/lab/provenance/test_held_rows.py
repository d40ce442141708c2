"""One observation answers all questions about the rows that a dataset holds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Sampler, TensorDataset

from dataguard.core.model import DataguardError
from dataguard.lab.process.isolation import isolated
from dataguard.lab.provenance.held_rows import HeldRows, Questions, find_held_rows, found
from dataguard.settings.settings import Settings
from dataguard.targets.variants import Construction
from tests.support.labs import lab_of

pytestmark = pytest.mark.scan


def test_checks_of_sources_share_their_observations(tmp_path: Path) -> None:
    lab = lab_of("sample_datasets.dg528_look_ahead:good", tmp_path, Settings())
    lab.epoch  # noqa: B018 - to touch it is to make it
    before = set(lab.cache._made)
    sources = lab.provenance
    assert (sources.reads, sources.paired_roles, sources.frame_runs, sources.reached) is not None
    assert (sources.rows.sources, sources.windows.windows, sources.group_ends) is not None
    assert {str(key) for key in set(lab.cache._made) - before} == {"any read", "held rows", "groups of files"}


class Broken(Sampler[int]):
    """A sampler that cannot be iterated."""

    def __iter__(self) -> Iterator[int]:
        raise ValueError("no order")

    def __len__(self) -> int:
        return 32


def test_a_question_that_fails_leaves_the_others(tmp_path: Path) -> None:
    made: Any = TensorDataset(torch.rand(32, 4), torch.rand(32, 1))
    loader = DataLoader(made, sampler=Broken())
    asked = Questions(32, (3, 5), (3, 5), None, (), None, (), rows=True, in_windows=True, groups=True, reached=True)

    def find() -> HeldRows:
        def build(*, reuse: bool = False, **wanted: Any) -> Any:
            del reuse
            return Construction(wanted).variant(loader)

        return find_held_rows(build, tmp_path, asked)

    answers = isolated(find, tmp_path, timeout=60, allowed=60)
    rows = found(answers.rows)
    assert rows is not None
    assert [leaf.known for leaf in rows.samples[0].leaves] == [(3,), (3,)]
    assert found(answers.windows).target == "[1]"
    for failed in (answers.groups, answers.reached):
        with pytest.raises(DataguardError, match="no order"):
            found(failed)
