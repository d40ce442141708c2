"""DG106 where several loaders are observed at once."""

from __future__ import annotations

import pytest

from dataguard.checks import CATALOGUE
from dataguard.core.model import Status
from dataguard.process.start_methods import examine
from dataguard.settings.settings import Settings, chosen


@pytest.mark.scan
def test_workers_do_not_share_a_file_that_other_observations_move() -> None:
    settings = Settings(select=("DG106",))
    with examine("tests.loaders.beside_each_other:six", settings) as session:
        pairs = [(check, loader) for loader in session.loaders() for check in chosen(CATALOGUE, settings)]
        results = [result for _, result in session.judge_all(pairs)]
    assert [result.status for result in results] == [Status.PASSED] * 6
