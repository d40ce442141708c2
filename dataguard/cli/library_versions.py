"""Versions and build options of the data-loading libraries: `main` prints JSON.

A separate program, because a broken library can crash the process that imports it.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import multiprocessing
import sys
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from importlib.metadata import PackageNotFoundError, distributions, version
from pathlib import Path
from typing import Any

MARK = "dataguard libraries: "
"""The start of the line with the JSON; libraries may print lines of their own."""
_DISTRIBUTIONS = ("pillow", "pillow-simd", "opencv-python", "opencv-python-headless", "opencv-contrib-python")


def _torch() -> dict[str, Any]:
    torch: Any = importlib.import_module("torch")
    accelerator = getattr(torch, "accelerator", None)
    facts = {
        "version": torch.__version__,
        "cuda": torch.version.cuda,
        "rocm": getattr(torch.version, "hip", None),
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "threads": torch.get_num_threads(),
        "sharing_strategy": torch.multiprocessing.get_sharing_strategy(),
        "start_method": multiprocessing.get_start_method(),
        "accelerator": None,
        "devices": [],
    }
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if torch.cuda.is_available():
            facts["devices"] = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
        if accelerator is not None and accelerator.is_available():
            facts["accelerator"] = accelerator.current_accelerator().type
    facts["warnings"] = sorted({str(warning.message).splitlines()[0] for warning in caught})
    try:
        torch.zeros(1).numpy()
        facts["numpy_works"] = True
    except RuntimeError:
        facts["numpy_works"] = False
    return facts


def _numpy() -> dict[str, Any]:
    numpy: Any = importlib.import_module("numpy")
    build = numpy.show_config(mode="dicts")
    blas = build.get("Build Dependencies", {}).get("blas", {})
    simd = build.get("SIMD Extensions", {})
    return {
        "version": numpy.__version__,
        "blas": " ".join(filter(None, (blas.get("name"), blas.get("version")))) or None,
        "instructions": (simd.get("found") or simd.get("baseline") or [None])[-1],
    }


def _cv2() -> dict[str, Any]:
    cv2: Any = importlib.import_module("cv2")
    build = dict(line.strip().partition(":")[::2] for line in cv2.getBuildInformation().splitlines() if ":" in line)
    named = {"JPEG": "jpeg", "Parallel framework": "parallel", "Dispatched code generation": "instructions"}
    facts = {shown: " ".join(build[name].split()) for name, shown in named.items() if name in build}
    return {"version": cv2.__version__, "threads": cv2.getNumThreads(), **facts}


def _pillow() -> dict[str, Any]:
    image: Any = importlib.import_module("PIL.Image")
    features: Any = importlib.import_module("PIL.features")
    return {
        "version": image.__version__,
        "simd": ".post" in image.__version__,
        "libjpeg_turbo": features.version_feature("libjpeg_turbo"),
    }


def _torchvision() -> dict[str, Any]:
    """Its extension is loaded alone: that is what another torch breaks, and the whole takes seconds."""
    spec = importlib.util.find_spec("torchvision")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        for extension in Path(folder).glob("_C*.so"):
            importlib.import_module("torch").ops.load_library(str(extension))
    return _installed("torchvision")


def _installed(module: str) -> dict[str, Any]:
    """The version of a library, which is imported only if it was not installed but stands on the path."""
    try:
        return {"version": version(module)}
    except PackageNotFoundError:
        return {"version": getattr(importlib.import_module(module), "__version__", "unknown")}


LIBRARIES: Mapping[str, Callable[[], dict[str, Any]]] = {
    "torch": _torch,
    "numpy": _numpy,
    "cv2": _cv2,
    "pillow": _pillow,
    "torchvision": _torchvision,
    "torchdata": partial(_installed, "torchdata"),
    "albumentations": partial(_installed, "albumentations"),
}
"""How to read the facts of each library."""


def read_libraries() -> dict[str, dict[str, Any]]:
    """Read the facts of each library: empty if it is not installed; `error` if what is imported of it fails."""
    facts: dict[str, dict[str, Any]] = {}
    for name, ask in LIBRARIES.items():
        try:
            facts[name] = ask()
        except ModuleNotFoundError as error:
            missing = (error.name or "").partition(".")[0]
            facts[name] = {} if missing in (name, "PIL") else {"error": str(error)}
        except Exception as error:  # noqa: BLE001 - a broken build may raise anything while it is imported
            facts[name] = {"error": f"{type(error).__name__}: {error}".splitlines()[0]}
    return facts


def read_distributions() -> list[str]:
    """The installed distributions among those that provide the same module under several names."""
    names = {(distribution.metadata["Name"] or "").lower().replace("_", "-") for distribution in distributions()}
    return [name for name in _DISTRIBUTIONS if name in names]


def main() -> None:
    """Print what is found."""
    sys.stdout.write(f"\n{MARK}{json.dumps({'libraries': read_libraries(), 'distributions': read_distributions()})}\n")
