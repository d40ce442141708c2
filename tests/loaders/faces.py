"""The faces of a check as one target: `tests.loaders.faces:dg101_cloned_worker_rng` is a mapping of its factories.

Each is called on its own, and all share the time that a scan takes to start. `FACES` names some of them.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from typing import Any


def __getattr__(stem: str) -> dict[str, Callable[..., Any]]:
    if not stem.startswith("dg"):
        raise AttributeError(stem)
    module = importlib.import_module(f"sample_datasets.{stem}")
    return {name: getattr(module, name) for name in os.environ["FACES"].split()}
