"""The loaders of `tests.loaders.faces`, of which what judges read is written to the folder that `RECORD` names."""

from __future__ import annotations

import json
import os
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from dataguard.checks import CATALOGUE
from dataguard.model import Check
from tests.loaders.faces import named as named
from tests.support.recordings import recording


def _write(check: Check, lab: Any, reads: dict[str, Any]) -> None:
    descriptor, _ = tempfile.mkstemp(dir=Path(os.environ["RECORD"]))
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump({"check": check.stem, "loader": lab.repro.loader, "reads": reads}, file)


for one in CATALOGUE:
    object.__setattr__(one, "judge", recording(one.judge, partial(_write, one)))
