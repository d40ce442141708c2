"""Every sample proves its check: a bad one trips exactly its own code, a good one nothing at all.

Samples are found by name in `sample_datasets/`, so that adding one adds its test. Those of DG601 need a small
/dev/shm and are judged in test_dg601_shm_headroom.py, those of DG603 a machine with little memory, in
test_resource_observations.py, those of DG801 and DG803 a step time, in test_bench.py, and those of DG802 a GPU, in
tests/gpu.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

import pytest

from dataguard.checks import CATALOGUE
from dataguard.core.model import Check, Result, Severity, Status
from dataguard.process.start_methods import examine
from dataguard.settings.settings import Settings, chosen
from tests.support.culprits import MARK, ROOT, is_followed, line_of
from tests.support.faces import EVERY_FACE, TENTH, TENTHS, TRAINED, WHOLE, Face, in_tenth, runs, samples

ELSEWHERE = {"DG601", "DG603", "DG801", "DG802", "DG803"}
"""Checks whose samples need a machine of their own, or a step time in the settings."""

NOT_UNDER_SPAWN = {
    "dg101_cloned_worker_rng:bad_torch_generator",  # does not survive the way into a spawned worker
    "dg103_frozen_augmentation:bad_held",  # the same
    "dg104_unspawnable_loader:good_lambda_forked",  # is good because it asks for forked workers
    "dg105_spawn_divergence:good_fork",  # the same
    "dg701_unreproducible_run:good_in_workers",  # runs with spawned workers are not compared, only those without
}
"""Faces that cannot be spawned: DG104 says so, whatever their own check says of them; or are not compared then."""

HOLDING = "DG106"
"""The check whose faces hold open files, which do not survive the way either; the plain good one holds none."""

TWINS = {"bad", "good"}
"""The plain faces, judged by their check; those of today's tenth, by all checks of their family."""

LINES = {
    "dg505_swapped_channels:bad": "cv2.imread(",
    "dg304_negative_index:bad": "def __getitem__",
    "dg309_listing_order:bad_beside_sorted": "for name in os.listdir(ROOT / folder)",
}
"""What stands in the line at which the finding of a face points, where that is not marked."""

SEVERITIES = {
    "dg302_endless_index:bad": Severity.WARNING,
    "dg302_endless_index:bad_dataset": Severity.ERROR,
    "dg307_mutated_source:bad": Severity.ERROR,
    "dg307_mutated_source:bad_rounded": Severity.WARNING,
    "dg307_mutated_source:bad_validation": Severity.WARNING,
    "dg307_mutated_source:bad_shared": Severity.ERROR,
    "dg307_mutated_source:bad_flipped": Severity.ERROR,
    "dg309_listing_order:bad_classes": Severity.ERROR,
    "dg309_listing_order:bad_walk": Severity.WARNING,
    "dg309_listing_order:bad_unlabelled": Severity.WARNING,
    "dg309_listing_order:bad_indexed": Severity.WARNING,
    "dg309_listing_order:bad_windows": Severity.WARNING,
    "dg309_listing_order:bad_dimmed": Severity.WARNING,
    "dg309_listing_order:bad_zipped": Severity.ERROR,
    "dg502_label_out_of_range:bad": Severity.ERROR,
    "dg502_label_out_of_range:bad_from_one": Severity.WARNING,
    "dg505_swapped_channels:bad": Severity.ERROR,
    "dg505_swapped_channels:bad_by_hand": Severity.WARNING,
}
"""What does little harm, or breaks only a convention, is a warning."""

ALONE = {
    "dg212_unread_source:bad_joined",
    "dg212_unread_source:bad_last_shard",
    "dg422_unlearned_stop:bad_mask_by_id",
    "dg427_token_out_of_vocabulary:bad_padding_item",
}
"""Faces that are scanned by themselves: of several loaders, one reads what another leaves unread, and the tokenizer of
one serves the others."""

MOST = 20
"""How many faces one scan judges: starting one, with the imports of its samples, takes longer than judging a face."""


def trips(
    faces: Sequence[Face], select: Callable[[Face], tuple[str, ...]], method: str | None = None
) -> dict[str, list[str]]:
    """The codes that fail for each of these faces, of those selected for it. One process observes all faces."""
    timeout = 20 if method else 4  # spawned workers import torch, which takes its time
    trained = TRAINED if faces[0].check.code.startswith("DG9") else {}
    settings = Settings(timeout=timeout, start_method=method, all=faces[0].check.code in WHOLE, **trained)
    by_name = {face.loader: face for face in faces}
    found: dict[str, list[str]] = {name: [] for name in by_name}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FACES", " ".join(map(str, faces)))
        with examine("tests.loaders.faces:named", settings) as session:
            pairs = []
            for loader in session.loaders():
                codes = () if EVERY_FACE else select(by_name[_face_of(loader)])
                pairs += [(check, loader) for check in chosen(CATALOGUE, replace(settings, select=codes))]
            results = [result for _, result in session.judge_all(pairs)]
    for result in sorted(results, key=lambda one: one.code):
        assert result.status is not Status.BROKEN, result
        if result.status is Status.FAILED:
            face = by_name[_face_of(result.loader)]
            found[face.loader].append(result.code)
            is_as_described(str(face), result)
    return found


def is_as_described(face: str, result: Result) -> None:
    """The findings of a face point at the line to change, and are as severe as they should be."""
    assert result.severity is SEVERITIES.get(face, result.severity), result
    marked = MARK if is_followed(result.code, result.loader.partition(".")[2]) else ""
    if wanted := LINES.get(face, marked):
        for finding in result.findings:
            # Where the loaders of many samples take long to make, no second call shows where a transform is made.
            called = face not in LINES and finding.at and "which calls" in str(finding.at.what)
            assert called or wanted in line_of(finding, str(ROOT)), (face, finding.at)


def _face_of(loader: str) -> str:
    """The name of the face of a loader, which may be one of several of that face."""
    return ".".join(loader.split(".")[:2])


def family_of(face: Face) -> tuple[str, ...]:
    """The checks of its family in its tenth, else its own; and those of whether it runs."""
    return ("DG0", face.check.code[:3]) if runs(str(face)) else own(face)


def own(face: Face) -> tuple[str, ...]:
    """Its check, and those of whether it runs."""
    return "DG0", face.check.code


def promised(faces: Sequence[Face]) -> dict[str, list[str]]:
    return {face.loader: face.expected for face in faces}


def together(faces: Iterable[Face], *, families: bool = False) -> list[list[Face]]:
    """Scans of a few faces each, of one family if asked for; those with settings of their own go by themselves."""

    def settings(face: Face) -> str:
        if str(face) in ALONE:
            return str(face)
        if face.check.code in WHOLE:
            return face.check.code
        return face.check.code[:3] if families or face.check.code.startswith("DG9") else ""

    scans = []
    for _, alike in itertools.groupby(sorted(faces, key=settings), settings):
        everyone = list(alike)
        scans += [everyone[start : start + MOST] for start in range(0, len(everyone), MOST)]
    return scans


def shown(faces: list[Face]) -> str:
    return " ".join(face.loader for face in faces)


JUDGED = [check for check in CATALOGUE if check.code not in ELSEWHERE]
FACES = [face for check in JUDGED for face in samples(check)]

HEAVY = {"DG104", "DG105", "DG602", "DG604", "DG605", "DG804"}
"""Checks whose faces take seconds, for workers that are spawned, thousands of samples that are read, or because time is
what is judged: their twins alone, and only those of the tenth where one is asked for."""


def twins() -> Iterator[Face]:
    """The plain twins; in a run of a tenth, of a check of which no face of that kind is in it, and those that are."""
    others = {kind(face) for face in FACES if runs(str(face)) or (TENTH and face.check.code in HEAVY)}
    yield from [face for face in FACES if face.name in TWINS and (runs(str(face)) or kind(face) not in others)]


def kind(face: Face) -> tuple[str, bool]:
    """Its check, and whether that finds something."""
    return face.check.code, bool(face.expected)


def others() -> Iterator[Face]:
    """The faces that are no plain twins: those of the tenth, or one of each check where none is asked for."""
    for check in JUDGED:
        faces = [face for face in samples(check) if face.name not in TWINS]
        few = [] if TENTH or check.code in HEAVY else faces[:1]
        yield from [face for face in faces if runs(str(face))] or few


@pytest.mark.scan
@pytest.mark.parametrize("faces", together(twins(), families=True), ids=shown)
def test_twins_trip_what_their_names_say(faces: list[Face]) -> None:
    assert trips(faces, family_of) == promised(faces)


@pytest.mark.scan
@pytest.mark.parametrize("faces", together(others()), ids=shown)
def test_other_faces_trip_what_their_names_say(faces: list[Face]) -> None:
    assert trips(faces, own) == promised(faces)


def sent() -> Iterator[Face]:
    """Faces to judge under start methods that are not the platform's own."""
    for face in FACES:
        if str(face) not in NOT_UNDER_SPAWN and (face.check.code != HOLDING or face.name == "good"):
            yield face


if EVERY_FACE:  # DG101 has faces of its own whose workers are spawned

    @pytest.mark.scan
    @pytest.mark.parametrize("method", ["spawn", "forkserver"])
    @pytest.mark.parametrize("faces", together(sent()), ids=shown)
    def test_the_verdict_holds_under_every_start_method(faces: list[Face], method: str) -> None:
        assert trips(faces, own, method) == promised(faces)


def test_every_face_that_is_described_exists() -> None:
    assert {*LINES, *SEVERITIES} <= {str(face) for face in FACES if face.expected}


def test_tenths_hold_each_face_once() -> None:
    names = list(map(str, FACES))
    tenths = [[name for name in names if in_tenth(name, number)] for number in range(TENTHS)]
    assert sorted(name for tenth in tenths for name in tenth) == sorted(names)
    assert max(map(len, tenths)) < 1.25 * len(names) / TENTHS


@pytest.mark.parametrize("check", CATALOGUE, ids=lambda check: check.code)
def test_every_check_has_both_twins(check: Check) -> None:
    assert {"bad", "good"} <= {face.name for face in samples(check)}
