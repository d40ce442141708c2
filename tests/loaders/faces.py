"""Loaders of several modules as one target, `tests.loaders.faces:named`: a mapping of the factories that `FACES` names.

It names faces of samples as `dg101_cloned_worker_rng:bad`, which becomes the loader `DG101.bad`, and others as
`tests.loaders.coloured:grey`, which becomes `coloured.grey`. Each factory is called on its own, and all share the time
that a scan and the imports take.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from typing import Any


def _factory(face: str) -> tuple[str, Callable[..., Any]]:
    module, name = face.split(":")
    path, last = (module, module.rpartition(".")[2]) if "." in module else (f"sample_datasets.{module}", module)
    known = last[:5].upper() if last.startswith("dg") else last
    factory: Callable[..., Any] = getattr(importlib.import_module(path), name)
    return f"{known}.{name}", factory


named = dict(map(_factory, os.environ["FACES"].split()))
