"""When a judge does not decide, and why: recorded loaders that differ in one thing."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from dataguard.core.incident import EmptyEpoch, Incident, LoaderDied, LoaderHung, LoaderRaised, LoaderUnspawnable
from dataguard.core.model import DataguardError, NotApplicable, Undecided
from tests.support.one_difference import judged, said


class Unmixed:
    """Batches of a loader whose samples cannot be combined."""

    def mixed(self, *_: Any, single: bool) -> Any:
        raise NotApplicable("no pairs")

    @property
    def ends(self) -> Any:
        raise NotApplicable("no ends")


def unread(*_: Any, **__: Any) -> Any:
    raise Undecided("the stream was not read to its end")


def hung(worker: int | None) -> LoaderUnspawnable:
    failure = LoaderUnspawnable(Incident("init", "no batch in 10 s", worker=worker))
    failure.__cause__ = LoaderHung(failure.incident)
    return failure


REPEAT = SimpleNamespace(suspects=[SimpleNamespace(path="global numpy")])
OTHER = SimpleNamespace(same_samples=lambda _: False)
ERROR = Incident("sample", "KeyError: 9", changed="num_workers=2")


@pytest.mark.parametrize(
    ("check", "face", "changes", "words"),
    [
        ("DG001", "good", {".failures([[], {}])": (LoaderDied(ERROR),)}, "KeyError: 9"),
        ("DG002", "bad", {".failures([[], {}])": (LoaderRaised(ERROR),)}, "KeyError: 9"),
        ("DG003", "bad", {".failures([[], {}])": (LoaderDied(ERROR),)}, "KeyError: 9"),
        (
            "DG101",
            "bad",
            {".facts.num_workers": 1, ".randomness.latent_clone": SimpleNamespace(path="dataset.rng")},
            "num_workers=1: fewer than two workers; two workers would draw the same random numbers from dataset.rng",
        ),
        (
            "DG101",
            "bad",
            {".facts.num_workers": 0, ".randomness.latent_clone": None},
            "num_workers=0: fewer than two workers",
        ),
        (
            "DG104",
            "bad_spawn",
            {".epoch": hung(None)},
            "no batch in 10 s while workers started by spawn, which is slow with many imports: raise --timeout",
        ),
        (
            "DG105",
            "bad",
            {".randomness.spawn_trial.failure": Incident("init", "TypeError: no")},
            "spawned workers do not start: TypeError: no (see DG104)",
        ),
        (
            "DG106",
            "bad",
            {".randomness.shared_offsets": LoaderRaised(ERROR)},
            "not decided: with num_workers=2, which this check needs, the loader fails: KeyError: 9",
        ),
        (
            "DG103",
            "good_made_up",
            {'.randomness.seeds([[], {"always": true}])': Undecided("the budget ran out")},
            "the budget ran out",
        ),
        (
            "DG424",
            "bad",
            {".tokens.read.starts": lambda starts: replace(starts, rows=7, twice=7)},
            "only 7 rows seen",
        ),
        (
            "DG424",
            "bad",
            {".tokens.read.starts": lambda starts: replace(starts, guessed=True)},
            "not tested: all 32 rows begin with token 1 twice; declare bos = 1 in the contract if it starts rows",
        ),
        (
            "DG425",
            "bad",
            {".settings.contract": {"packing": "joined"}},
            "the contract says that packed documents see each other",
        ),
        (
            "DG427",
            "bad",
            {".tokens.read.vocabulary.size": None, ".tokens.read.names": {"tokens": "['x']"}},
            "not tested: the vocabulary is unknown: no tokenizer found, and no vocab_size in the contract",
        ),
        (
            "DG201",
            "bad",
            {".facts.num_workers": 1, ".streams": SimpleNamespace(shares=unread)},
            "num_workers=1: nothing is read twice",
        ),
        (
            "DG201",
            "bad",
            {
                '.randomness.shared_draws([["workers"], {}])': SimpleNamespace(repeat=REPEAT),
                ".streams.stream": lambda *_, **__: SimpleNamespace(by_leaf=lambda _: OTHER),
            },
            "workers generate the same samples from the same random numbers: see DG101",
        ),
        (
            "DG103",
            "bad",
            {".randomness.seeds([[], {}])": lambda trace: replace(trace, plain=frozenset(trace.dependent))},
            "a constant seed determines sample[0], but may only select which sample an index returns",
        ),
        ("DG202", "bad", {".facts.role": "val"}, "the role is val: each rank may evaluate all samples"),
        ("DG206", "bad", {".facts.role": "val"}, "the role is val: a fixed order does no harm"),
        (
            "DG207",
            "bad.train",
            {".streams.orders.epochs": ((), (), ())},
            "not tested: the indices of the loader cannot be observed",
        ),
        (
            "DG304",
            "bad",
            {".dataset.semantics.last.incident": ERROR},
            "not tested: the last sample cannot be read: KeyError: 9",
        ),
        (
            "DG304",
            "bad",
            {".dataset.content_repeats": True},
            "the index already wraps around inside the range: see DG303",
        ),
        (
            "DG311",
            "bad",
            {".dataset.semantics.last.incident": ERROR},
            "not tested: the last sample cannot be read: KeyError: 9",
        ),
        ("DG401", "good", {".batches": Unmixed(), ".dataset": Unmixed(), ".facts.mixes_samples": True}, "no pairs"),
        ("DG404", "bad", {".epoch": EmptyEpoch((ERROR,))}, "see DG404: the epoch has no batches"),
        (
            "DG505",
            "bad_by_hand",
            {
                ".images.charts.fits": lambda fits: [  # nearly -1 to 1, as models from Caffe have it
                    replace(one, gains=(1 / 128,) * 3, offsets=(-127.5 / 128,) * 3) for one in fits
                ]
            },
            "channels are BGR, and it is unknown whether the model expects that: "
            'set [tool.dataguard.contract] channels = "RGB" or "BGR"',
        ),
        ("DG409", "bad", {".facts.default_collate": True}, "default_collate stacks samples and changes none"),
        ("DG505", "bad", {".images.charts.grey": True}, "images are grey and have no channel order"),
        (
            "DG510",
            "good",
            {".files.modes.refused": ("RGBA", "P")},
            "collate_fn fails when RGBA files meet others in a batch: see DG401",
        ),
        (
            "DG701",
            "bad",
            {".reproducibility.pair": lambda pair: (replace(pair[0], used={"as_completed": ("a.py", 3)}), pair[1])},
            "results are taken as they are ready (as_completed): see DG702",
        ),
        ("DG804", "bad", {".epoch.epoch_run": None}, "the budget ran out during the first epoch: raise --budget"),
        ("DG901", "bad", {".facts.role": "test"}, "no model learns from a test loader"),
    ],
)
def test_nothing_is_decided(check: str, face: str, changes: dict[str, Any], words: str) -> None:
    verdict = judged(check, face, changes)
    assert said(verdict) == [words]
    assert isinstance(verdict.outcome, DataguardError)
