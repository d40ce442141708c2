"""The line that `fix here` says, written in place of the one that is reported, removes the finding."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from dataguard.checks import CATALOGUE
from dataguard.core.model import Check, Result, Status
from dataguard.process.start_methods import examine
from dataguard.settings.settings import Settings, chosen
from tests.support.faces import EVERY_FACE, runs, samples, todays
from tests.support.fixes import LINE, applied, kind_of

MENDED = {
    "memory": ("dg307_mutated_source:bad", "dg307_mutated_source:bad_shared", "dg302_endless_index:bad_clamp"),
    "results": ("dg516_inert_transform:bad_thrown_away", "dg516_inert_transform:bad_statement"),
    "decoding": (
        "dg508_ignored_orientation:bad",
        "dg508_ignored_orientation:bad_torchvision",
        "dg510_mishandled_mode:bad_cmyk",
    ),
    "files": ("dg309_listing_order:bad", "dg309_listing_order:bad_classes", "dg525_misordered_frames:bad"),
    "pairs": ("dg524_mispaired_files:bad", "dg524_mispaired_files:bad_scales", "dg514_leaked_split:bad_overlap"),
    "colours": (
        *("dg505_swapped_channels:bad", "dg505_swapped_channels:bad_turned_twice", "dg506_wrong_scale:bad"),
        *(
            "dg506_wrong_scale:bad_twice",
            "dg506_wrong_scale:bad_unscaled_dtype",
            "dg507_wrong_normalization:bad_turned",
        ),
        "dg507_wrong_normalization:bad_mistyped",
    ),
    "masks": (
        *("dg511_blended_mask:bad", "dg511_blended_mask:bad_divided", "dg511_blended_mask:bad_opencv"),
        "dg511_blended_mask:bad_rotated",
    ),
    "orders": (
        *("dg206_replayed_order:bad", "dg206_replayed_order:bad_numpy", "dg211_dropped_evaluation:bad"),
        *("dg403_singleton_batch:bad", "dg204_lost_samples:bad_drop_last"),
    ),
    "processes": (
        *("dg201_unsharded_workers:bad", "dg201_unsharded_workers:bad_endless", "dg202_unsharded_ranks:bad"),
        *("dg203_uneven_ranks:bad", "dg108_cloned_rank_rng:bad", "dg108_cloned_rank_rng:bad_environment"),
    ),
}
"""Faces whose line is written by one mechanism: the first of each, and in a run of a tenth those of that tenth."""


def scanned(faces: Sequence[str]) -> dict[str, list[Result]]:
    """The results of each face, `module:function`, by its own check."""
    os.environ["FACES"] = " ".join(faces)
    with examine("tests.loaders.faces:named", Settings(timeout=60, samples=32)) as session:
        pairs = [
            (check, loader)
            for loader in session.loaders()
            for check in chosen(CATALOGUE, Settings(select=(loader[:5],)))
        ]
        results = [result for _, result in session.judge_all(pairs)]
    known = {(face.rpartition(".")[2][:5].upper(), face.rpartition(":")[2]): face for face in faces}
    found: dict[str, list[Result]] = {face: [] for face in faces}
    for result in results:
        code, name, *_ = result.loader.split(".")
        found[known[code, name]].append(result)
    return found


def failed(results: Sequence[Result]) -> Result | None:
    return next((result for result in results if result.status is Status.FAILED), None)


def mended(faces: Sequence[str], folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, list[Result]]:
    """The results of the faces with their lines written, of those that have one in their own module."""
    (folder / "mended").mkdir()
    (folder / "mended" / "__init__.py").write_text("")
    monkeypatch.setenv("PYTHONPATH", f"{folder}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    monkeypatch.syspath_prepend(str(folder))
    written: dict[str, str] = {}
    for face, results in scanned(faces).items():
        result = failed(results)
        if result is None:
            continue
        finding, (stem, name) = result.findings[0], face.split(":")
        text = applied(finding)
        if text is None or finding.at is None or Path(finding.at.file or "").stem != stem:
            continue
        module = f"{stem[:5]}_{name}"
        (folder / "mended" / f"{module}.py").write_text(text, encoding="utf-8")
        written[f"mended.{module}:{name}"] = face
    found = scanned(list(written)) if written else {}
    return {written[module]: results for module, results in found.items()}


@pytest.mark.scan
@pytest.mark.parametrize("group", todays(MENDED))
def test_the_line_removes_the_finding(group: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FACES", "")
    faces = [face for number, face in enumerate(MENDED[group]) if not number or runs(face)]
    found = mended(faces, tmp_path, monkeypatch)
    assert found.keys() == set(faces)
    for results in found.values():
        assert {result.status for result in results} <= {Status.PASSED, Status.SKIPPED}
        assert not [result.reason for result in results if str(result.reason).startswith("see DG")]


if EVERY_FACE:  # they take minutes

    @pytest.mark.scan
    @pytest.mark.parametrize("check", CATALOGUE, ids=lambda check: check.code)
    def test_no_line_leaves_its_finding(check: Check, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("FACES", "")
        faces = [str(face) for face in samples(check) if face.name.startswith("bad")]
        found = mended(faces, tmp_path, monkeypatch)
        assert [face for face, results in found.items() if failed(results)] == []


def test_what_a_fix_is() -> None:
    assert kind_of("x = cv2.resize(x)") == kind_of("for x in y:  # with n = 1") == LINE
    assert [kind_of(fix) for fix in ("sort names", "call x.clone()", None)] == ["sentence", "names", "none"]
