"""Reports built by hand, with every status and every awkward value that a renderer meets."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from dataguard.checks import CATALOGUE as REAL
from dataguard.core.figures import Figure
from dataguard.core.model import (
    Check,
    Coverage,
    Doc,
    Finding,
    Judgement,
    Location,
    Result,
    Severity,
    SourceLines,
    Status,
)
from dataguard.report import Report

LONG_CALL = "self.crop(self.images[index], self.rng.integers(0, 8, size=2), mode='`reflect`')  # \x1b[1m größer"
CLONED_RNG = Doc(
    summary="Workers draw the same random numbers.",
    symptom="Validation accuracy stalls although augmentation is strong; nothing is raised.",
    cause=(
        "A generator that the dataset owns is copied into every worker when the worker starts. torch re-seeds\n"
        "`random`, `numpy.random` and `torch` in each worker, and knows nothing of generators of your own."
    ),
    fix=(
        "Seed the generator from the seed that torch hands to each worker:\n"
        "\n"
        "    def worker_init_fn(worker_id):\n"
        "        dataset = torch.utils.data.get_worker_info().dataset\n"
        "        dataset.rng = np.random.default_rng(torch.initial_seed())\n"
        "\n"
        "or draw from `torch` instead."
    ),
    links=("https://pytorch.org/docs/stable/notes/faq.html#my-data-loader-workers-return-identical-random-numbers",),
)
RAGGED = Doc(
    summary="Samples that the dataset yields cannot be collated.",
    symptom="Training stops in the middle of an epoch with `stack expects each tensor to be equal size`.",
    cause="Samples differ in shape, and the default collate stacks them.",
    fix="- Resize or crop in the dataset, or\n- pad in a `collate_fn` and return the lengths with the batch.",
)
DOUBLE = Doc(
    summary="A leaf of the batch is float64.",
    symptom="The model raises a dtype mismatch, or trains at half speed.",
    cause="numpy's default float is float64, and `torch.from_numpy` keeps it.",
    fix="Call `.float()` on the tensor, or build the array with `dtype=np.float32`.",
)
SLOW = Doc(
    summary="Another worker count is faster here.",
    symptom="The accelerator waits.",
    cause="Workers are fewer than the cores that are free.",
    fix="Raise `num_workers`.",
)


def _judge(lab: object) -> Judgement:
    yield from ()
    return Coverage({})


CATALOGUE = (
    Check("DG101", "cloned-worker-rng", Severity.ERROR, CLONED_RNG, _judge),
    Check("DG401", "ragged-collate", Severity.ERROR, RAGGED, _judge),
    Check("DG406", "double-precision-batch", Severity.WARNING, DOUBLE, _judge),
    Check("DG803", "slow-worker-count", Severity.NOTE, SLOW, _judge),
)
DOCS = {check.code: check.doc for check in CATALOGUE}

_CHECKS = {
    "DG003": ("hanging-loader", Severity.ERROR),
    "DG101": ("cloned-worker-rng", Severity.ERROR),
    "DG102": ("frozen-epochs", Severity.ERROR),
    "DG105": ("unspawnable-dataset", Severity.ERROR),
    "DG201": ("unsharded-workers", Severity.ERROR),
    "DG204": ("lost-samples", Severity.ERROR),
    "DG205": ("wrong-stream-length", Severity.WARNING),
    "DG207": ("unshuffled-train", Severity.WARNING),
    "DG208": ("starved-worker", Severity.WARNING),
    "DG301": ("overlong-len", Severity.ERROR),
    "DG302": ("endless-index", Severity.ERROR),
    "DG306": ("shifting-label", Severity.ERROR),
    "DG401": ("ragged-collate", Severity.ERROR),
    "DG406": ("double-precision-batch", Severity.WARNING),
    "DG501": ("non-finite-sample", Severity.ERROR),
    "DG502": ("label-out-of-range", Severity.ERROR),
    "DG803": ("slow-worker-count", Severity.NOTE),
}
_STACK = "Process 41 (main)\n" + "\n".join(
    f'  File "/opt/lib/python3.11/site-packages/torch/utils/data/dataloader.py", line {700 + n}, in _next_data'
    for n in range(30)
)
_TRACE = """Traceback (most recent call last):
  File "dataguard/checks/dg502_label_out_of_range.py", line 31, in judge
    low = min(labels)
ValueError: min() arg is an empty sequence
"""


def result(
    code: str,
    loader: str,
    status: Status,
    *findings: Finding,
    reason: str | None = None,
    exercised: Mapping[str, int] | None = None,
    seconds: float = 0.0,
) -> Result:
    """A result of a check known by its code."""
    name, severity = _CHECKS[code]
    return Result(code, name, severity, loader, status, findings, reason, exercised or {}, seconds)


def full() -> Report:
    """Every status, several loaders, values of every shape."""
    here = Path.cwd()
    cloned = Finding(
        message="workers 0 and 1 gave item 17 the same 32 crops",
        evidence={
            "index": 17,
            "workers": [0, 1],
            "draws": 32,
            "odds of a coincidence": 1.3e-11,
            "generator": "dataset.transform.transforms[0].rng",
            "equal draws": list(range(40)),
        },
        at=Location(str(here / "mypkg" / "data.py"), 41, "Crops.__getitem__"),
        source=SourceLines(40, ("    def __getitem__(self, index):", f"        return {LONG_CALL}", "")),
        repro="python -m dataguard scan mypkg.data:make_loaders --select DG101 --seed 0 --workers 2 --samples 256",
    )
    ragged = [
        Finding(
            message=f"items {n} and 17 cannot be collated: leaf ['image'] is (3, 224, 224) and (3, 224, {223 - n})",
            evidence={"indices": [n, 17], "shapes": {str(n): [3, 224, 224], "17": [3, 224, 223 - n]}},
            at=Location(what="loader.collate_fn"),
        )
        for n in range(7)
    ]
    hang = Finding(
        message="no progress for 20 s while reading a sample, index 3, worker 1",
        evidence={"stacks": _STACK, "waited": 20.0, "output": "loading …\nloading …"},
        at=Location("/data/readers/lmdb_reader.py", 9),
    )
    ordered = Finding("order is the dataset's own in 2 epochs")
    shardless = "a map-style dataset has no shards"
    double = Finding("leaf ['depth'] of every batch is float64", {"leaf": "['depth']", "dtype": "torch.float64"})
    slow = Finding("4 workers read 1.8 times as many samples a second as 2", {"ratio": 1.8, "spread": [1.7, 1.9]})
    results = (
        result("DG003", "val", Status.FAILED, hang, seconds=20.1),
        result("DG101", "train", Status.FAILED, cloned, seconds=1.25),
        result("DG101", "val", Status.FAILED, cloned, seconds=1.25),
        result("DG102", "train", Status.PASSED, exercised={"draws": 80, "workers": 2}, seconds=0.4),
        result("DG102", "val", Status.SKIPPED, reason="nothing random was seen in 64 draws"),
        result("DG105", "train", Status.PASSED, reason="would break under spawn", exercised={"workers": 2}),
        *(result(code, "train", Status.SKIPPED, reason=shardless) for code in ("DG201", "DG204", "DG205", "DG208")),
        result("DG201", "val", Status.SKIPPED, reason=shardless),
        result("DG207", "train", Status.EXPECTED, ordered, ordered, reason="curriculum: the order is meant"),
        result("DG306", "train", Status.INCONCLUSIVE, reason="the budget of 60 s was used up after 12 of 64 draws"),
        result("DG306", "val", Status.SKIPPED, reason="see DG003: no progress for 20 s\nwhile reading a sample"),
        result("DG401", "train", Status.FAILED, *ragged, seconds=0.9),
        result("DG406", "train", Status.FAILED, double, reason="seen in 4 of 4 batches"),
        result("DG501", "train", Status.PASSED, exercised={"samples": 256, "leaves": 1024}, seconds=2.0),
        result("DG502", "train", Status.BROKEN, reason=_TRACE),
        result("DG803", "train", Status.FAILED, slow, seconds=9.0),
    )
    return Report(
        targets=("mypkg.data:make_loaders",),
        results=results,
        environment={
            "python": "3.11.7",
            "torch": "2.15.0",
            "platform": "Linux-6.1",
            "cores": 2,
            "packages": {"numpy": "2.4.6"},
        },
        settings={"samples": 256, "budget": 60.0, "select": [], "expect": {"DG207": "curriculum: the order is meant"}},
        seconds=38.04,
        notes=("roles.vall: no loader named 'vall'; did you mean 'val'?",),
    )


def clean() -> Report:
    """A report without any finding."""
    results = [result(code, "loader", Status.PASSED, exercised={"samples": 64}) for code in ("DG301", "DG302")]
    return Report(("mypkg.data:make_loader",), tuple(results), {"python": "3.11.7"}, {"samples": 64}, seconds=1.0)


def undecided() -> Report:
    """A report in which nothing failed and nothing passed."""
    results = (
        result("DG301", "loader", Status.SKIPPED, reason="a stream has no len"),
        result("DG302", "loader", Status.INCONCLUSIVE, Finding("index 8 of 8 gave a sample"), reason="out of budget"),
    )
    return Report(("a:x", "b=c:y"), results, {}, {}, seconds=125.0)


def empty() -> Report:
    """A report of no check at all."""
    return Report(("mypkg.data:make_loader",), (), {}, {})


def many(figures: Callable[[int], tuple[Figure, ...]] = lambda _: ()) -> Report:
    """A report of 200 findings of real checks, in 50 results, each with evidence of ordinary size."""
    stack = "\n".join(f'  File "/home/me/project/data/readers.py", line {n}, in read_{n}' for n in range(20))
    results = []
    for number, check in enumerate(REAL[:50]):
        found = [
            Finding(
                f"workers 0 and {n} draw the same 48 random values of `sample[0]` for items 0, 1, 2, 3 and 60 more",
                {"indices": list(range(64)), "dataset": "ImageFolder", "stack": stack, "odds": 1e-9, "by": {"a": n}},
                Location("/home/me/project/data/crops.py", 40 + n, "Crops.__getitem__"),
                f"python -m dataguard scan project.data:make_loaders --select {check.code} --seed 0 --workers {n}",
            )
            for n in range(4)
        ]
        failed = result("DG101", "train", Status.FAILED, *found)
        results.append(replace(failed, code=check.code, name=check.name, figures=figures(number)))
    return replace(empty(), results=tuple(results))


def stub_engine(monkeypatch: pytest.MonkeyPatch, scan: Callable[..., Report]) -> None:
    """Put `scan` and the catalogue of this module in the place of the real ones, for tests of what calls them."""
    for name, members in (("dataguard.engine", {"scan": scan}), ("dataguard.checks", {"CATALOGUE": CATALOGUE})):
        module: Any = ModuleType(name)
        for member, value in members.items():
            setattr(module, member, value)
        monkeypatch.setitem(sys.modules, name, module)
