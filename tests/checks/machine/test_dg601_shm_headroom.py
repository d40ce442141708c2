"""DG601 predicts; here its predictions are compared with real runs on a /dev/shm of 8 MiB."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sample_datasets import dg601_shm_headroom as samples
from tests.support.faces import EVERY_FACE, runs, todays
from tests.support.headroom import DRAWN, Room, room
from tests.support.namespace import MIB, NotPermittedError, own_shared_memory

pytestmark = pytest.mark.scan

FACES = sorted(name for name in vars(samples) if name.partition("_")[0] in ("bad", "good"))
FEW = ["bad", "bad_custom_collate", "good", "good_numpy"]
KIB = 1024
FD, FS = "file_descriptor", "file_system"


@pytest.fixture(scope="module")
def tight() -> Iterator[Room]:
    try:
        with own_shared_memory(8 * MIB) as own, room(own) as found:
            yield found
    except NotPermittedError as reason:
        pytest.skip(f"no mount namespace of our own: {reason}")


@pytest.mark.parametrize(
    "face", [face for face in FACES if face in todays(FEW, turns=2) or runs(f"dg601_shm_headroom:{face}")]
)
def test_the_samples_do_what_they_say_and_trip_nothing_else(tight: Room, face: str) -> None:
    target = f"sample_datasets.dg601_shm_headroom:{face}"
    failed = [code for code, verdict in tight.verdicts(target).items() if verdict.status == "failed"]
    assert failed == (["DG601"] if face.startswith("bad") else [])
    assert tight.run(target).fits == face.startswith("good")


SETTINGS = [
    (1, 2, 1, 2900 * KIB, 30, "default", FD, False),
    (1, 2, 1, 1800 * KIB, 30, "default", FD, True),
    (2, 2, 2, 900 * KIB, 30, "custom", FD, False),
    (2, 2, 2, 600 * KIB, 30, "custom", FD, True),
    (2, 4, 8, 120 * KIB, 30, "default", FD, False),
    (2, 4, 8, 90 * KIB, 30, "default", FD, True),
    (3, 2, 4, 300 * KIB, 30, "list", FD, False),
    (3, 2, 4, 230 * KIB, 30, "list", FD, True),
    (2, 3, 200, 4097, 30, "list", FD, False),
    (2, 3, 200, 4096, 30, "list", FD, True),
    (2, 3, 200, 4096, 30, "list", FS, False),  # a header makes two pages of one
    (2, 2, 1, 1700 * KIB, 30, "default", FS, False),
    (2, 2, 1, 1300 * KIB, 30, "default", FS, True),
    (2, 4, 4, 2 * MIB, 30, "numpy", FD, True),
    (2, 4, 1, 1500 * KIB, 5, "default", FD, True),
    (2, 4, 1, 1500 * KIB, 30, "custom", FD, False),
]
"""Workers, prefetch, batch size, bytes of a sample, batches, collate, sharing, and whether that fits."""


@pytest.mark.parametrize(
    ("workers", "prefetch", "batch_size", "size", "batches", "collate", "sharing", "fits"),
    SETTINGS if EVERY_FACE else [SETTINGS[0], *SETTINGS[7:9]],
)
def test_the_prediction_is_what_happens(
    tight: Room,
    workers: int,
    prefetch: int,
    batch_size: int,
    size: int,
    batches: int,
    collate: str,
    sharing: str,
    fits: bool,
) -> None:
    settings = {
        "workers": workers,
        "prefetch": prefetch,
        "batch_size": batch_size,
        "size": size,
        "batches": batches,
        "collate": collate,
        "sharing": sharing,
    }
    assert tight.run(DRAWN, **settings).fits == fits
    verdicts = tight.verdicts(DRAWN, **settings)
    assert verdicts.pop("DG601").status == ("passed" if fits else "failed")
    assert {verdict.status for verdict in verdicts.values()} == {"passed"}


@pytest.mark.parametrize("sharing", [FD, FS])
@pytest.mark.parametrize("collate", todays(["default", "custom", "list"]))
def test_the_peak_is_what_the_check_computes(tight: Room, collate: str, sharing: str) -> None:
    settings = {"workers": 2, "prefetch": 3, "batch_size": 4, "size": 128 * KIB, "batches": 20, "collate": collate}
    peak = tight.run(DRAWN, **settings, sharing=sharing).peak
    tensors = 4 if collate == "list" else 1
    batch = 4 * 128 * KIB + (4096 if collate != "list" else 0) + (tensors * 4096 if sharing == FS else 0)
    most = (2 * 3 + 2) * batch + 4096 * (3 * (2 + 1) + 5)
    assert most - 2 * batch < peak <= most


@pytest.mark.parametrize("collate", ["default", "custom"])
def test_one_batch_that_does_not_fit_is_said_as_well(tight: Room, collate: str) -> None:
    settings = {"workers": 2, "prefetch": 2, "batch_size": 9, "size": MIB, "batches": 4, "collate": collate}
    verdicts = tight.verdicts(DRAWN, **settings)
    assert [code for code, verdict in verdicts.items() if verdict.status == "failed"] == ["DG601"]
    assert "broken" not in {verdict.status for verdict in verdicts.values()}
    if collate == "default":
        assert "too little for one batch" in verdicts["DG601"].messages[0]
