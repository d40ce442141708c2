"""What a judge says of a recorded loader that differs in one thing, at the edge between two verdicts."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from dataguard.core.incident import Incident, LoaderDied, LoaderHung, LoaderInterleaved, LoaderRaised
from dataguard.core.model import Coverage, DataguardError, Undecided
from dataguard.lab.files.file_observations import Curve
from dataguard.lab.model.trial import Extent, Trial
from dataguard.lab.ranks.shares import Share
from dataguard.settings.settings import Settings
from tests.support.one_difference import judged, said

BROKEN = Extent(".b", "float32", 0.0, 1.0, broken=3)
DARK = Curve("sample[0]", "float32", (1e-9, 4.7e-6, 7e-6, 9.3e-6, 1.4e-5))
FULL = Incident("collate", "RuntimeError: unable to allocate shared memory")
ERROR = Incident("sample", "KeyError: 9", changed="num_workers=2")


def of_many_values(mask: Any) -> Any:
    return replace(mask, values=replace(mask.values, most_values=50, dtype="float32"))


def bright(mask: Any) -> Any:
    return replace(mask, chart_labels=(0.0, 200.0), values=replace(mask.values, labels=(0.0, 200 / 255)))


def share(*samples: int) -> Share:
    return Share((samples,), batches=-(-len(samples) // 2), ended=True)


RANKS = ".ranks.shards([[], {}])"
NOWHERE = SimpleNamespace(location=None)
"""A dataset without a place: these recordings have another one for their finding."""


@pytest.mark.parametrize(
    ("check", "face", "changes", "words"),
    [
        (
            "DG003",
            "bad_lock",
            {".failures([[], {}])": (LoaderHung(Incident("transfer", "TypeError: cannot pickle")),)},
            "the batch cannot be sent to the main process, which would wait forever: TypeError: cannot pickle",
        ),
        (
            "DG106",
            "bad",
            {
                ".epoch": LoaderInterleaved(Incident("sample", "BadZipFile: Bad magic number")),
                ".randomness.shared_offsets.wrong": (),
                ".randomness.shared_offsets.raised": None,
            },
            ": BadZipFile: Bad magic number",
        ),
        (
            "DG001",
            "bad_collate",
            {
                ".epoch.batches": lambda batches: (
                    replace(batches[0], incident=None, refuses_each=False),
                    *batches[1:],
                ),
                ".dataset": SimpleNamespace(occasional_failure=None),
            },
            None,  # collate_fn fails on some batches: DG401
        ),
        ("DG202", "bad", {f"{RANKS}.alone": share(3)}, None),
        ("DG202", "bad", {f"{RANKS}.alone": share(3, 4)}, "more than one of 2 ranks reads"),
        (
            "DG210",
            "good.val",
            {f"{RANKS}.alone": share(0, 1, 2, 3), f"{RANKS}.ranks": (share(0, 1, 2, 3), share(3))},
            "more than one of 2 ranks reads 1 sample of 4",
        ),
        (
            "DG303",
            "bad",
            {
                ".dataset.semantics.repeats": lambda repeats: (replace(repeats[0], length=80),),
                ".settings.contract": {"repeat": 2},
            },
            "dataset repeats its 40 samples 2 times: the contract allows it",
        ),
        (
            "DG303",
            "bad",
            {".dataset.semantics.repeats": lambda repeats: (replace(repeats[0], unequal=("[1]",), numbered="[1]"),)},
            "dataset repeats its 40 samples 2.5 times: sample[1] numbers the repetitions",
        ),
        ("DG403", "bad", {".epoch.sizes": (8, 7, 1), ".ranks": SimpleNamespace(declared=False)}, None),
        ("DG403", "bad", {".epoch.sizes": (2, 2, 1)}, "batch 2 of 3 holds a single sample"),
        (
            "DG403",
            "bad_ranks.train",
            {f"{RANKS}.ranks": (replace(share(*range(9)), batches=2, sizes=(8, 1)),)},
            "batch 1 of 2 of rank 0 holds a single sample",
        ),
        ("DG403", "bad_ranks.train", {f"{RANKS}.ranks": (replace(share(*range(9)), sizes=(4, 3, 2)),)}, None),
        (
            "DG403",
            "bad",
            {
                ".settings": Settings(model="m:m"),
                ".model": SimpleNamespace(stepped=Trial(8, False, batch_statistics=True)),
            },
            "batch 2 of 3 holds a single sample",
        ),
        (
            "DG403",
            "bad",
            {".settings": Settings(model="m:m"), ".model": SimpleNamespace(stepped=Trial(8, False))},
            "a batch holds a single sample, but the model uses no statistics of the batch",
        ),
        (
            "DG404",
            "good",
            {".streams.orders.batches": (3, 0)},
            "the second epoch yields no batch, after 3",
        ),
        ("DG404", "good_stream", {'.streams.stream([[4], {"seeded": false}]).batches': (4,)}, None),
        (
            "DG410",
            "bad",
            {".tokens.read.shift": lambda shift: replace(shift, compared=32, after=32, tokens=4)},
            "all 32 labels are the token after theirs",
        ),
        (
            "DG505",
            "bad_by_hand",
            {
                ".images.charts.fits": lambda fits: [
                    replace(one, gains=(1 / 127.5,) * 3, offsets=(-1.0,) * 3) for one in fits
                ]
            },
            "is BGR, but values from -1 to 1 are RGB by convention",
        ),
        (
            "DG421",
            "bad",
            {".tokens.read.padding": lambda padding: replace(padding, rows=8, labelled=8)},
            "all 8 padded rows of batch['labels'] carry labels where the mask is 0",
        ),
        ("DG421", "bad", {".tokens.read.padding": lambda padding: replace(padding, rows=7, labelled=7)}, None),
        ("DG421", "bad", {".tokens.read.padding": lambda padding: replace(padding, rows=padding.labelled + 1)}, None),
        ("DG421", "bad_translation", {".tokens.read.padding": lambda padding: replace(padding, ignores=True)}, None),
        (
            "DG422",
            "bad",
            {".tokens.read.stops": lambda stops: replace(stops, hidden=8)},
            "it follows a learned token 8 times",
        ),
        ("DG422", "bad", {".tokens.read.stops": lambda stops: replace(stops, hidden=7, ended=0)}, None),
        ("DG422", "bad", {".tokens.read.stops": lambda stops: replace(stops, learned=1)}, None),
        ("DG422", "bad_missing", {".tokens.read.stops": lambda stops: replace(stops, alike=True)}, None),
        (
            "DG423",
            "bad",
            {".tokens.read.empty": lambda empty: replace(empty, random=True)},
            "labels are drawn at random",
        ),
        ("DG424", "bad", {".tokens.read.starts": lambda starts: replace(starts, rows=starts.twice + 1)}, None),
        ("DG425", "bad", {".tokens.read.packs": lambda packs: replace(packs, open=packs.open - 1)}, None),
        ("DG425", "bad_crossing_labels", {".tokens.read.packs": lambda packs: replace(packs, same=True)}, None),
        ("DG426", "bad", {".tokens.read.images": lambda images: replace(images, cut=0)}, None),
        ("DG427", "bad", {".tokens.read.ids": lambda ids: replace(ids, distinct=7)}, None),
        ("DG427", "bad_narrow", {".tokens.read.ids": lambda ids: replace(ids, largest=65_536, wrapped=None)}, None),
        (
            "DG507",
            "good",
            {".images.charts.fits": lambda fits: (*fits, replace(fits[0], gains=(0.01,), offsets=(0.0,), order=""))},
            None,
        ),
        ("DG510", "bad", {".files.modes.refused": ("RGBA",)}, "grey08.jpg (grey) has 1 channel instead of 3"),
        (
            "DG516",
            "bad_unread",
            {".transforms.unused.library": False, ".facts": SimpleNamespace(role="train")},
            "is never used while",
        ),
        (
            "DG508",
            "bad",
            {".files.orientations.trials": lambda trials: [replace(trials[0], misrotated=("sample[0]",))]},
            "upside down: EXIF orientation 8 is applied in the wrong direction",
        ),
        (
            "DG509",
            "bad",
            {".files.depth.clipped": False, ".files.depth.curves": (DARK,)},
            "sample[0] is 1.4e-05 for a value of 60000: 16-bit values are scaled as 32-bit",
        ),
        (
            "DG511",
            "bad_divided",
            {".geometry.masks.labels": ((0.0,), (1.0,))},
            "holds labels divided by 255: 3 becomes 0.01176",
        ),
        (
            "DG511",
            "good",
            {
                ".geometry.masks": lambda charts: replace(charts, labels=((10.0,), (20.0,)), lossy_labels=2),
                ".geometry.masks.lossy_values": 50,
                ".geometry.masks.masks": lambda masks: [of_many_values(mask) for mask in masks],
            },
            None,  # a depth map may have as many values
        ),
        (
            "DG511",
            "bad",
            {
                ".geometry.masks": lambda charts: replace(charts, labels=((0.0,), (100.0,)), lossy_labels=2),
                ".geometry.masks.lossy_values": 50,
                ".geometry.masks.masks": lambda masks: [of_many_values(mask) for mask in masks],
                ".dataset": NOWHERE,
            },
            "holds 50 different values: lossy compression spreads 2 labels over 50 values",
        ),
        (
            "DG511",
            "bad",
            {".geometry.masks.masks": (), ".geometry.masks.constant": ("[1]",), ".dataset": NOWHERE},
            "sample[1] holds a single value in all samples, although the masks hold 4 labels",
        ),
        (
            "DG511",
            "good",
            {".geometry.masks.labels": ((0.0,), (200.0,)), ".geometry.masks.masks": lambda masks: [bright(masks[0])]},
            None,  # brightness may be divided by 255
        ),
        (
            "DG517",
            "good.val",
            {".batches.random_leaves": SimpleNamespace(others=(), masked=("['ids']",))},
            "tokens are masked at random",
        ),
        (
            "DG517",
            "good.val",
            {".batches.random_leaves": SimpleNamespace(others=("[0]",), masked=())},
            "batch[0] is random in a val loader: ",
        ),
        ("DG601", "good", {".epoch": LoaderRaised(FULL)}, "free, too little for one batch per worker"),
        (
            "DG601",
            "good",
            {".epoch.batches": lambda batches: (replace(batches[0], incident=FULL), *batches[1:])},
            "free, too little for one batch per worker",
        ),
        (
            "DG804",
            "bad",
            {
                ".epoch.batches": lambda batches: [replace(one, fetch_seconds=0, collate_seconds=0) for one in batches],
                ".facts.batches": 1800,
                ".epoch.epoch_run": lambda epoch_run: replace(epoch_run, seconds=epoch_run.start_seconds, batches=1800),
            },
            None,  # batches cost nothing: an epoch that short is a test run
        ),
        (
            "DG901",
            "bad",
            {".model.learning": lambda seen: replace(seen, start=math.nan, inputs=(seen.inputs[0], BROKEN))},
            "the loss of a batch is nan before the first step: 3 values of batch.b are not finite",
        ),
        ("DG901", "bad", {".model.learning.graph": False}, "does not depend on any parameter of the model"),
    ],
)
def test_what_is_reported(check: str, face: str, changes: dict[str, Any], words: str | None) -> None:
    verdict = judged(check, face, changes)
    assert isinstance(verdict.outcome, Coverage)
    assert any(words in one for one in said(verdict)) if words else said(verdict) == []


def failing(failure: DataguardError) -> dict[str, Any]:
    return {".failures([[], {}])": (failure,)}


@pytest.mark.parametrize(
    ("check", "face", "changes", "name", "value"),
    [
        ("DG002", "bad", failing(LoaderDied(Incident("sample", "killed", output="no space"))), "output", "no space"),
        ("DG003", "bad_lock", failing(LoaderHung(Incident("transfer", "TypeError: no"))), "batches", "1 of 1"),
        (
            "DG302",
            "bad_clamp",
            {".dataset.ends.beyond": lambda beyond: (beyond[0], *(replace(one, incident=ERROR) for one in beyond[1:]))},
            "likely cause",
            "the index wraps around",
        ),
        (
            "DG302",
            "bad_window",
            {".dataset.ends.beyond": lambda beyond: (beyond[0], replace(beyond[1], leaves=(), incident=ERROR))},
            "past the end",
            {"dataset[32]": "sample of shape [8]", "dataset[33]": "raises KeyError: 9"},
        ),
    ],
)
def test_the_evidence(check: str, face: str, changes: dict[str, Any], name: str, value: Any) -> None:
    (finding,) = judged(check, face, changes).findings
    assert finding.evidence[name] == value


@pytest.mark.parametrize("shapes", [[(3, 8, 8)], [(3, 8, 8), ()], [()], [None]])
def test_an_order_of_files_is_a_warning_where_more_cannot_be_read(shapes: Any) -> None:
    changes = {
        '.dataset.rebuilt([[], {"wide": true}])': Undecided("the budget ran out"),
        ".splits.together": (None,),
        ".epoch.samples": lambda samples: [
            replace(one, leaves=[replace(one.leaves[0], shape=shape) for shape in shapes]) for one in samples
        ],
    }
    (finding,) = judged("DG309", "bad_unlabelled", changes).findings
    assert finding.ambiguous
