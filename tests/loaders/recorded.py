"""The loaders of `tests.loaders.faces`, of which what judges read is written to the folder that `RECORD` names."""

from __future__ import annotations

import json
import os
import re
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from dataguard.checks import CATALOGUE
from dataguard.core import incident
from dataguard.core.model import Check
from tests.loaders.faces import named as named
from tests.support import recordings


def _write(check: Check, lab: Any, reads: dict[str, Any]) -> None:
    descriptor, _ = tempfile.mkstemp(dir=Path(os.environ["RECORD"]))
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump({"check": check.stem, "loader": lab.repro.loader, "reads": reads}, file)


# The recorder stands between the judge and what it observes: it is no code of the user's.
incident._LIBRARY = re.compile(rf"{incident._LIBRARY.pattern}|{re.escape(recordings.__file__)}")

for one in CATALOGUE:
    object.__setattr__(one, "judge", recordings.recording(one.judge, partial(_write, one)))
