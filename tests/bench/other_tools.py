"""What other tools say of twenty small loaders, each with one defect, and of the healthy twin of each.

`python -m tests.bench.other_tools TOOL`, run by the Python of an environment that has the tool beside dataguard and its
test dependencies, prints a line for each loader: what the tool says of the defect and of its twin. Programs that read
source code get the module of the sample, which holds both. `dataguard` itself is TOOL, too.
"""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any

SAMPLES = (
    "dg101_cloned_worker_rng",
    "dg103_frozen_augmentation",
    "dg201_unsharded_workers",
    "dg204_lost_samples",
    "dg207_unshuffled_train",
    "dg211_dropped_evaluation",
    "dg301_overlong_len",
    "dg306_shifting_label",
    "dg307_mutated_source",
    "dg402_lossy_collate",
    "dg403_singleton_batch",
    "dg406_double_precision_batch",
    "dg421_padding_in_loss",
    "dg501_non_finite_sample",
    "dg502_label_out_of_range",
    "dg505_swapped_channels",
    "dg506_wrong_scale",
    "dg512_desynced_target",
    "dg514_leaked_split",
    "dg517_augmented_evaluation",
)
"""One of each kind of defect: workers, streams, splits, datasets, batches, tokens, values, images, masks."""


def _loaders(stem: str, face: str) -> list[Any]:
    made = getattr(importlib.import_module(f"sample_datasets.{stem}"), face)()
    return list(made.values()) if isinstance(made, dict) else [made]


def preflight_ml(stem: str, face: str) -> Iterator[str]:
    """The checks of preflight-ml that failed, given the first loader, and a second one as validation."""
    from preflight.runner import run_checks

    first, *others = _loaders(stem, face)
    config = {"val_dataloader": others[0]} if others else {}
    yield from (result.name for result in run_checks(first, config=config) if not result.passed)


def torch_audit(stem: str, face: str) -> Iterator[str]:
    """The rules of torch-audit that the batches of an epoch break, beside a model that does nothing."""
    import torch
    from torch_audit import audit

    model = torch.nn.Identity()
    batches = islice(_loaders(stem, face)[0], _MOST_BATCHES)
    results = [audit(model, batch=batch, phase="forward", suppress_internal_errors=True) for batch in batches]
    yield from dict.fromkeys(finding.rule_id for result in results for finding in result.findings)


_MOST_BATCHES = 64
"""Of a stream without an end."""


def dataguard(stem: str, face: str) -> Iterator[str]:
    """The checks of dataguard that failed, with default settings."""
    from dataguard import scan

    yield from dict.fromkeys(result.code for result in scan(f"sample_datasets.{stem}:{face}").failed)


def _of_source(*command: str) -> Callable[[str, str], Iterator[str]]:
    def read(stem: str, face: str) -> Iterator[str]:
        """What a program says of the module; of the healthy twin, in the same file, nothing is added."""
        if face == "bad":
            path = Path(__file__).parents[2] / "sample_datasets" / f"{stem}.py"
            ran = [str(Path(sys.executable).with_name(command[0])), *command[1:], str(path)]
            done = subprocess.run(ran, capture_output=True, text=True, check=False)
            yield from dict.fromkeys(word for word in done.stdout.replace(":", " ").split() if _is_rule(word))

    return read


def _is_rule(word: str) -> bool:
    return word[:2] in ("TG", "TO") and word[-3:].isdigit()


TOOLS: dict[str, Callable[[str, str], Iterator[str]]] = {
    "preflight-ml": preflight_ml,
    "torch-audit": torch_audit,
    "torch-preflight": _of_source("torch-preflight", "check", "--no-color"),
    "TorchFix": _of_source("torchfix", "--select=ALL"),
    "dataguard": dataguard,
}


def _said(tool: str, stem: str, face: str) -> str:
    try:
        return ", ".join(TOOLS[tool](stem, face)) or "nothing"
    except Exception as error:  # noqa: BLE001 - a tool that fails has said nothing of the loader
        return f"raised {type(error).__name__}"


if __name__ == "__main__":
    (name,) = sys.argv[1:]
    print(f"{name} {version(name)}")  # noqa: T201
    for sample in SAMPLES:
        print(f"| {sample} | {_said(name, sample, 'bad')} | {_said(name, sample, 'good')} |", flush=True)  # noqa: T201
