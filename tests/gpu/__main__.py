"""Measure copies to the GPU and write them into docs/benchmarks.md: `python -m tests.gpu`. Needs an accelerator."""

from __future__ import annotations

import datetime
import platform
import re
import sys
from pathlib import Path

import torch

from dataguard.engine import scan
from dataguard.lab.throughput import device_copies
from dataguard.settings.settings import Settings

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks.md"
TITLE = "## Copies to a GPU"
FACES = ("bad", "good", "good_small", "good_own_class")


def rows() -> list[str]:
    """A batch of 64 images of 224 x 224 as float32, from both kinds of memory, against the machine's own limit."""
    limit = device_copies.limit()
    batch = torch.zeros(64, 3, 224, 224)
    made = [f"| one tensor of 64 MB, pinned: the machine's own limit | {limit / 1e9:.1f} GB/s | |"]
    for name, tensor in (("pageable", batch), ("pinned", batch.pin_memory())):
        copying = device_copies.copy([tensor])
        made.append(f"| a batch of 38 MB, {name} | {copying.rate / 1e9:.1f} GB/s | {copying.overlap:.0%} |")
    pinning = next(
        stage for stage in device_copies.measure_transfer(batch, pinned=True).stages if stage.name == "pinning"
    )
    made.append(f"| pinning that batch | {(pinning.seconds or 0) * 1e3:.1f} ms | |")
    return made


def verdicts() -> str:
    """What DG802 says of its samples."""
    settings = Settings(samples=64, select=("DG802",), contract={"step_ms": 40})
    said = []
    for face in FACES:
        (result,) = scan(f"sample_datasets.dg802_unoverlapped_copy:{face}", settings).results
        said.append(f"`{face}` {result.status.value}")
    return f"DG802 on its samples, with a step of 40 ms: {', '.join(said)}."


def main() -> int:
    """Write the section anew."""
    reason = device_copies.unavailable_reason()
    if reason is not None:
        sys.stderr.write(f"nothing is measured: {reason}\n")
        return 0
    said = verdicts()  # forks, which has to come before this process itself uses the device
    versions = f"torch {torch.__version__}, Python {platform.python_version()}"
    date = f"{datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d}"
    section = "\n".join(
        [
            TITLE,
            "",
            "`python -m tests.gpu` writes this section. Copies are timed by events of the device; the last column is",
            "the share of the copy that ran beside a kernel on another stream, when the copy was asked for first.",
            "",
            f"Measured {date}, {device_copies.device().name}, {versions}.",
            "",
            "| what | measured | beside computation |",
            "|---|---|---|",
            *rows(),
            "",
            said,
            "",
        ]
    )
    text = PAGE.read_text(encoding="utf-8")
    rest = re.sub(rf"\n{TITLE}\n.*?(?=\n## |\Z)", "", text, flags=re.DOTALL)
    PAGE.write_text(f"{rest.rstrip()}\n\n{section}", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
