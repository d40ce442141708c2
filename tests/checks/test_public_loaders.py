"""Real libraries: clean loaders pass in silence, and the same loaders with one defect do not."""

from __future__ import annotations

import pytest

from dataguard.core.model import Status
from dataguard.engine import scan
from dataguard.report import Report
from dataguard.settings.settings import Settings
from tests.support.faces import EVERY_FACE, TENTH, TENTHS

pytestmark = pytest.mark.scan

CLEAN = {
    "sample_datasets.images": "make_cv2 make_folder",
    "tests.loaders.public": "image_folder fake_data numbers_stream hugging_face hugging_face_stream stateful"
    " stateful_stream",
    "tests.loaders.public_objects": "graphs volumes timm_folder",
}
"""Clean loaders, by the module that makes them."""
FACES = [f"{module}:{name}" for module, names in CLEAN.items() for name in names.split()]
TODAY = FACES if TENTH is None or EVERY_FACE else FACES[int(TENTH) :: TENTHS]
"""All of them, or a tenth."""
MOST = 5
"""How many one scan judges."""
METHODS = (None, "spawn") if EVERY_FACE else (None,)
"""Spawned workers import every library anew, which takes most of a minute for some: those only when asked for."""
SLOW = () if EVERY_FACE else ("DG602", "DG603", "DG604", "DG605")
"""Checks that read thousands of samples."""
QUIET = (Status.FAILED, Status.INCONCLUSIVE, Status.BROKEN)
TOO_LONG = [("public.stateful", "DG605")]
"""What takes longer than the budget, for workers that are spawned again and again."""


def told(report: Report, *statuses: Status) -> list[tuple[str, str]]:
    """The loaders and codes of the results with these statuses."""
    return [(result.loader, result.code) for result in report.results if result.status in statuses]


@pytest.mark.parametrize("faces", [TODAY[start : start + MOST] for start in range(0, len(TODAY), MOST)], ids=" ".join)
@pytest.mark.parametrize("method", METHODS)
def test_clean_loaders_pass(faces: list[str], method: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FACES", " ".join(faces))
    report = scan("tests.loaders.faces:named", Settings(start_method=method, ignore=SLOW))
    assert len({result.loader for result in report.results}) == len(faces)
    assert [one for one in told(report, *QUIET) if method is None or one not in TOO_LONG] == []
    for result in report.results:
        if result.code == "DG501":
            assert result.exercised["samples"] >= 24, result.loader
            assert result.exercised["workers"] == 2, result.loader


def test_indices_may_be_any_object() -> None:
    report = scan("tests.loaders.indexed:loaders", Settings(ignore=SLOW))
    assert told(report, *QUIET) == []


def test_a_loader_made_for_the_main_process_gets_no_workers() -> None:
    report = scan("tests.loaders.workerless:queue", Settings(ignore=SLOW))
    assert told(report, *QUIET) == []


def test_checks_that_do_not_see_the_processes_of_a_loader_say_so_in_one_line() -> None:
    report = scan("tests.loaders.workerless:from_pool", Settings(select=("DG101", "DG102", "DG505", "DG501")))
    reasons = {result.code: result.reason for result in report.results if result.status is Status.SKIPPED}
    assert reasons.keys() == {"DG101", "DG102", "DG505"}
    assert set(reasons.values()) == {
        "not tested: batches come from 2 processes that the loader starts itself: name what they read as a target, too"
    }


def test_an_empty_epoch_is_one_finding() -> None:
    report = scan("tests.loaders.workerless:nothing", Settings(ignore=SLOW))
    assert told(report, *QUIET) == [("nothing", "DG404")]


def test_vectors_are_not_read_again_to_look_for_images() -> None:
    select = ("DG505", "DG506", "DG507", "DG508", "DG509", "DG510", "DG511", "DG512", "DG516")
    report = scan("tests.loaders.workerless:vectors", Settings(select=select))
    assert {result.status for result in report.results} == {Status.SKIPPED}


def test_a_cloned_generator_is_found_whatever_the_library() -> None:
    select = () if EVERY_FACE else ("DG0", "DG101", "DG102", "DG103", "DG107", "DG2")  # no other is of what is drawn
    found = told(scan("tests.loaders.public:cloned", Settings(select=select, ignore=SLOW)), Status.FAILED)
    assert found == [(loader, "DG101") for loader in ("image_folder", "rows", "stateful")]
