"""Every sample proves its check: a bad one trips exactly its own code, a good one nothing at all.

Samples are found by name in `sample_datasets/`, so that adding one adds its test. Those of DG601 need a small
/dev/shm and are judged in test_dg601_shm_headroom.py, those of DG603 a machine with little memory, in
test_resource_observations.py, those of DG801 and DG803 a step time, in test_bench.py, and those of DG802 a GPU, in
tests/gpu.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from dataguard.checks import CATALOGUE
from dataguard.engine import scan
from dataguard.model import Check, Status
from dataguard.settings.settings import Settings

SAMPLES = Path(__file__).parents[2] / "sample_datasets"

ELSEWHERE = {"DG601", "DG603", "DG801", "DG802", "DG803"}
"""Checks whose samples need a machine of their own, or a step time in the settings."""

NOT_UNDER_SPAWN = {
    "dg101_cloned_worker_rng:bad_torch_generator",  # does not survive the way into a spawned worker
    "dg104_unspawnable_loader:good_lambda_forked",  # is good because its workers are forked
    "dg105_spawn_divergence:good_fork",  # the same
}
"""Faces that cannot be spawned: DG104 says so, whatever their own check says of them."""

HOLDING = "DG106"
"""The check whose faces hold open files, which do not survive the way either; the plain good one holds none."""

WHOLE = {"DG513"}
"""Checks that judge in scans of all samples."""

TWINS = {"bad", "good"}
"""The faces that all checks of their family judge."""

EVERY_FACE = "DATAGUARD_EVERY_FACE" in os.environ
"""Runs every face under every start method, and every check on each: about an hour, and so only when asked for.

By default the checks of its family judge the plain twins of a check, and a few other faces are judged by their own
check and those of family 0.
"""

MOST = 12
"""How many faces one scan judges."""


def samples(check: Check) -> Iterator[str]:
    """The faces of a check: the functions of its sample module that are called bad or good."""
    tree = ast.parse((SAMPLES / f"{check.stem}.py").read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name.partition("_")[0] in ("bad", "good"):
            yield node.name


@dataclass(frozen=True, slots=True)
class Faces:
    """Some faces of one check, which one scan judges together: starting one takes longer than judging a face."""

    check: Check
    names: tuple[str, ...]
    method: str | None = None

    @property
    def id(self) -> str:
        return " ".join(filter(None, (self.check.stem, self.names[0], self.method)))

    @property
    def select(self) -> tuple[str, ...]:
        """The checks that judge these faces."""
        if EVERY_FACE:
            return ()
        plain = self.method is None and set(self.names) <= TWINS
        return ("DG0", self.check.code[:3] if plain else self.check.code)

    def trips(self, monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
        """The codes that fail for each face."""
        timeout = 20 if self.method else 4  # spawned workers import torch, which takes its time
        monkeypatch.setenv("FACES", " ".join(self.names))
        target = f"tests.loaders.faces:{self.check.stem}"
        whole = self.check.code in WHOLE
        report = scan(target, Settings(timeout=timeout, start_method=self.method, select=self.select, all=whole))
        assert not report.count(Status.BROKEN), report
        found: dict[str, list[str]] = {name: [] for name in self.names}
        for result in report.results:
            found[result.loader.partition(".")[0]] += [result.code] if result.status is Status.FAILED else []
        return found

    @property
    def expected(self) -> dict[str, list[str]]:
        """What the name of each face promises."""
        return {name: [self.check.code] if name.startswith("bad") else [] for name in self.names}


JUDGED = [check for check in CATALOGUE if check.code not in ELSEWHERE]

FEW = 1
"""How many of the other faces of a check are judged, unless all are asked for."""
HEAVY = {"DG104", "DG105", "DG605", "DG804"}
"""Checks whose faces take ten seconds and more, for workers that are spawned, or because time is what is judged: by
default, their twins alone."""


def faces_of(check: Check, *, twins: bool) -> list[str]:
    """The plain twins of a check, or its other faces."""
    names = [name for name in samples(check) if (name in TWINS) == twins]
    if twins or EVERY_FACE:
        return names
    if check.code in HEAVY:
        return []
    return names[:: -(-len(names) // FEW) or 1]


TOGETHER = [
    Faces(check, tuple(names[start : start + MOST]))
    for check in JUDGED
    for names in (faces_of(check, twins=True), faces_of(check, twins=False))
    for start in range(0, len(names), MOST)
]


@pytest.mark.scan
@pytest.mark.parametrize("faces", TOGETHER, ids=lambda faces: faces.id)
def test_a_sample_trips_what_its_name_says(faces: Faces, monkeypatch: pytest.MonkeyPatch) -> None:
    assert faces.trips(monkeypatch) == faces.expected


SENT = ("DG101",)
"""Checks whose twins are judged under other start methods by default: what they judge hangs on how workers start."""


def starts() -> Iterator[Faces]:
    """Faces to judge under start methods that are not the platform's own."""
    for check in JUDGED:
        if not (EVERY_FACE or check.code.startswith(SENT)):
            continue
        sent = [name for name in samples(check) if name in ("bad", "good") or EVERY_FACE]
        sent = [name for name in sent if f"{check.stem}:{name}" not in NOT_UNDER_SPAWN]
        sent = [name for name in sent if check.code != HOLDING or name == "good"]
        for start in range(0, len(sent), MOST):
            names = tuple(sent[start : start + MOST])
            yield Faces(check, names, "spawn")
            if EVERY_FACE:
                yield Faces(check, names, "forkserver")


@pytest.mark.scan
@pytest.mark.parametrize("faces", list(starts()), ids=lambda faces: faces.id)
def test_the_verdict_holds_under_every_start_method(faces: Faces, monkeypatch: pytest.MonkeyPatch) -> None:
    assert faces.trips(monkeypatch) == faces.expected


@pytest.mark.parametrize("check", CATALOGUE, ids=lambda check: check.code)
def test_every_check_has_both_twins(check: Check) -> None:
    assert {"bad", "good"} <= set(samples(check))
