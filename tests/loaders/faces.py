"""Faces of samples as one target, `tests.loaders.faces:named`: a mapping of the factories that `FACES` names.

It names them as `dg101_cloned_worker_rng:bad`, which becomes the loader `DG101.bad`. Each is called on its own, and all
share the time that a scan and the imports of samples take.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from typing import Any


def _factory(face: str) -> tuple[str, Callable[..., Any]]:
    stem, name = face.split(":")
    factory: Callable[..., Any] = getattr(importlib.import_module(f"sample_datasets.{stem}"), name)
    return f"{stem[:5].upper()}.{name}", factory


named = dict(map(_factory, os.environ["FACES"].split()))
