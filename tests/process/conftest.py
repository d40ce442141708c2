"""The folder that scans run in."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator

import pytest

from tests.support.namespace import own_or_common_shared_memory
from tests.support.projects import LOADERS, Project

pytestmark = pytest.mark.scan


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    folder = tmp_path_factory.mktemp("nasty")
    shutil.copy(LOADERS, folder)
    with own_or_common_shared_memory() as shared:
        yield Project(folder, shared, uuid.uuid4().hex)
