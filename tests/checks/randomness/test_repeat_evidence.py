"""A finding about random numbers names the generator to blame, the line that seeds it, and what to write instead."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from dataguard.checks.randomness import repeat_evidence
from dataguard.core.model import Finding, Result, Status
from dataguard.engine import scan
from dataguard.lab.core.records import GeneratorState, Seeding
from dataguard.lab.process.isolation import isolated
from dataguard.lab.rng.rng_discovery import find_generators
from dataguard.lab.rng.seed_watch import SeedWatch
from dataguard.report import Report
from dataguard.settings.settings import Settings

LOADERS = Path(__file__).parents[2] / "loaders" / "culprits.py"


@pytest.fixture(scope="module")
def report() -> Report:
    """All the loaders, scanned together: the host starts only once."""
    return scan("tests.loaders.culprits:make_loaders", Settings(select=("DG101", "DG102"), timeout=8))


def result_of(report: Report, loader: str, code: str) -> Result:
    (result,) = [result for result in report.results if (result.loader, result.code) == (loader, code)]
    return result


def finding_of(report: Report, loader: str, code: str = "DG101") -> Finding:
    result = result_of(report, loader, code)
    assert result.status is Status.FAILED, result.reason
    return result.findings[0]


def line_of(comment: str) -> int:
    """The line of the loaders' module with a comment."""
    lines = LOADERS.read_text(encoding="utf-8").splitlines()
    (number,) = [number for number, line in enumerate(lines, 1) if line.endswith(f"# {comment}")]
    return number


@pytest.mark.scan
@pytest.mark.parametrize(
    ("loader", "code", "confirmed"),
    [
        ("dropped", "DG101", "advancing dataset.used in worker 1 changes sample"),
        ("dropped", "DG102", "advancing dataset.used in epoch 1 changes sample"),
    ],
)
def test_a_generator_that_is_drawn_from_in_vain_is_not_named(
    report: Report, loader: str, code: str, confirmed: str
) -> None:
    evidence = finding_of(report, loader, code).evidence
    assert evidence["generators"] == {"dataset.used": "numpy.random.Generator"}
    assert evidence["confirmed by"] == confirmed


@pytest.mark.scan
def test_of_several_to_blame_the_one_for_the_first_leaf_comes_first(report: Report) -> None:
    evidence = finding_of(report, "two_leaves").evidence
    assert list(evidence["generators"]) == ["dataset.used", "dataset.spare"]
    assert [clause.split()[-1] for clause in evidence["confirmed by"].split("; ")] == ["sample[0]", "sample[1]"]


@pytest.mark.scan
def test_what_depends_on_no_generator_is_left_open(report: Report) -> None:
    result = result_of(report, "counted", "DG101")
    assert result.status is Status.INCONCLUSIVE
    assert "a counter" in str(result.reason)


@pytest.mark.scan
def test_a_generator_that_cannot_be_read_is_found_behind_one_that_can(report: Report) -> None:
    evidence = finding_of(report, "behind_cv2").evidence
    assert evidence["generators"] == {"global cv2": "cannot be read"}
    assert evidence["confirmed by"] == "seeding cv2 differently in each worker and epoch changes sample"
    assert evidence["fix here"] == "in worker_init_fn: cv2.setRNGSeed(torch.initial_seed() % 2**31)"


@pytest.mark.scan
def test_a_generator_behind_its_method_is_called_by_the_attribute(report: Report) -> None:
    finding = finding_of(report, "bound")
    assert "dataset.draw.__self__" in str(finding.at)
    made = "np.random.default_rng(torch.initial_seed())"
    assert finding.evidence["fix here"] == f"create draw on first use in the worker, from {made}"


@pytest.mark.scan
@pytest.mark.parametrize(
    ("loader", "code", "comment", "seeding"),
    [
        ("init", "DG101", "the seed of numpy", "numpy.random.seed(42): remove it"),
        ("init_by_number", "DG102", "the seed by number", "random.seed(0) in worker 0: remove it"),
        ("init_cv2", "DG101", "the seed of cv2", "cv2.setRNGSeed(5): seed from torch.initial_seed() % 2**31"),
        ("lazy", "DG101", "the seed of Lazy", "random.Random(7): seed from torch.initial_seed()"),
    ],
)
def test_the_line_that_seeds_alike_is_named(report: Report, loader: str, code: str, comment: str, seeding: str) -> None:
    finding, line = finding_of(report, loader, code), line_of(comment)
    assert finding.at is not None
    assert (finding.at.file, finding.at.line) == (str(LOADERS), line)
    assert finding.evidence["fix here"].startswith(f"culprits.py:{line} {seeding}")


@pytest.mark.scan
def test_what_becomes_of_it_in_later_epochs_is_said(report: Report) -> None:
    assert finding_of(report, "bound").evidence["later epochs"] == "persistent workers continue from its state"
    assert "a new torch.initial_seed()" in finding_of(report, "dropped").evidence["later epochs"]


HELD = {
    "dataset.rng": "create rng on first use in the worker: numpy.random.default_rng(torch.initial_seed())",
    "dataset.rngs['a.b']": "create rngs['a.b'] on first use",
    "dataset.parts[1][0]": "create parts[1][0] on first use",
    "dataset.transform.args[0]": "create transform.args[0] on first use",
    "dataset.transform.<closure rng>": "create rng on first use",
    "dataset.<class Pictures>.rng": "create rng on first use",
    "collate_fn.<global pkg.mod.RNG>": "create RNG on first use",
    "stream.<delegate>.<local rng>": "create rng on first use",
    "dataset.transform.func.__self__": "create transform on first use in the worker, from numpy.random",
    "dataset.<class D>.draw.<default 0>": "do not make the generator a default argument of draw; create it in the",
}


@pytest.mark.parametrize("path", HELD)
def test_a_held_generator_is_made_in_the_worker(path: str) -> None:
    fix = repeat_evidence.fix_of_generator(GeneratorState(path, "numpy.random.Generator", b"", None))
    assert str(fix).startswith(HELD[path])


@pytest.mark.parametrize("kind", ["Generator", "RandomState", "PCG64", "MT19937", "Philox", "SFC64", "PCG64DXSM"])
def test_the_fix_for_a_kind_of_numpys_makes_one_of_that_kind(kind: str) -> None:
    fix = str(repeat_evidence.fix_of_generator(GeneratorState("dataset.rng", f"numpy.random.{kind}", b"", None)))
    made = eval(fix.partition(": ")[2], {"numpy": np, "torch": torch})
    assert type(made).__name__ == kind


@pytest.mark.parametrize(
    ("reseed", "called"),
    [
        ("dataset.augment.set_random_seed", "get_worker_info().dataset.augment.set_random_seed"),
        ("dataset.transform.<closure augment>.seed_", "augment.seed_"),
        ("collate_fn.set_random_state", "collate_fn.set_random_state"),
    ],
)
def test_a_library_is_seeded_by_its_own_method(reseed: str, called: str) -> None:
    state = GeneratorState("dataset.augment.steps[0].rng", "random.Random", b"", None, reseed, "dataset.augment")
    assert repeat_evidence.fix_of_generator(state) == f"in worker_init_fn: {called}(torch.initial_seed() % 2**32)"


def test_a_library_without_such_a_method_is_made_in_the_worker() -> None:
    state = GeneratorState("dataset.noise.dist._random_state", "random.Random", b"", None, None, "dataset.noise")
    made = "random.Random(torch.initial_seed())"
    assert repeat_evidence.fix_of_generator(state) == f"create noise on first use in the worker, with {made}"


def test_a_fix_is_a_line_or_two() -> None:
    seeding = Seeding("numpy.random.RandomState.seed", "42", "/somewhere/far/data.py", 31, "init", path="dataset.rng")
    longest = repeat_evidence.fix_of_seeding(seeding, 11)
    assert len(longest) < 160
    assert re.match(r"data\.py:31 numpy\.random\.RandomState\.seed\(42\) in worker 11: seed from torch", longest)


@pytest.mark.scan
@pytest.mark.parametrize(
    "make", [np.random.PCG64, np.random.RandomState, lambda seed: torch.Generator().manual_seed(seed)]
)
def test_a_held_generator_is_exchanged_for_one_that_takes_note(make: Callable[[int], Any], tmp_path: Path) -> None:
    """In a fork: the classes that seed are exchanged in the whole process."""

    def exchanged() -> bool:
        holder = SimpleNamespace(rng=make(3))
        (before,) = find_generators({"dataset": holder})
        SeedWatch().adopt({"dataset": holder})
        (after,) = find_generators({"dataset": holder})
        return after.generator is not before.generator and after.state() == before.state()

    assert isolated(exchanged, tmp_path, timeout=20, allowed=60)
