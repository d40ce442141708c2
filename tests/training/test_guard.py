"""The guard around loaders of all kinds: what passes through, what is watched, and how a violation is acted on."""

from __future__ import annotations

import copy
import inspect
import pickle
import re
import warnings
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.data import BatchSampler, DataLoader, IterableDataset, RandomSampler, get_worker_info
from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter
from torchdata.stateful_dataloader import StatefulDataLoader

import dataguard
from dataguard.core.model import Finding, Location, Status, UsageError
from dataguard.training import ContractViolation, ContractWarning
from dataguard.training.guard import Guard, guard
from dataguard.training.violations import CODES, described, watched
from tests.support.training_loops import Items, codes, pair, train

pytestmark = pytest.mark.filterwarnings("ignore:'set_vital' is deprecated")  # torchdata calls it

PAGE = Path(__file__).parents[2] / "docs" / "guard.md"


def with_nan(index: int) -> tuple[Tensor, int]:
    return torch.full((2,), float("nan") if index == 30 else float(index)), index % 4


class Stream(IterableDataset):
    def __init__(self, make: Any = pair, count: int = 10) -> None:
        self.make = make
        self.count = count

    def __iter__(self) -> Iterator[Any]:
        info = get_worker_info()
        start, step = (info.id, info.num_workers) if info else (0, 1)
        return (self.make(index) for index in range(start, self.count, step))


class Moving(DataLoader):
    """Changes batches as it yields them, as loaders that move them to a device do."""

    def __init__(self, *args: Any, scale: float = 2.0, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.scale = scale

    def __iter__(self) -> Any:
        for inputs, labels in super().__iter__():
            yield inputs * self.scale, labels


class Batches:
    """No DataLoader, but iterated like one."""

    def __init__(self, *batches: Any) -> None:
        self.batches = batches

    def __iter__(self) -> Iterator[Any]:
        yield from self.batches

    def __len__(self) -> int:
        return len(self.batches)


def test_a_guarded_loader_is_the_loader() -> None:
    data = Items(pair)
    loader = DataLoader(data, batch_size=4, sampler=RandomSampler(data))
    batch_sampler = loader.batch_sampler
    assert guard(loader) is loader
    assert isinstance(loader, DataLoader)
    assert issubclass(type(loader), DataLoader)
    assert type(loader).__name__ == "DataLoader"
    assert inspect.signature(type(loader)) == inspect.signature(DataLoader)
    assert len(loader) == 10
    assert loader.dataset is data
    assert loader.batch_sampler is batch_sampler
    loader.sampler.epoch = 3  # type: ignore[attr-defined]
    loader.collate_fn = len
    assert [*loader] == [4] * 10
    assert not [name for name in vars(loader) if "dataguard" in name]
    with pytest.raises(ValueError, match="batch_size"):
        loader.batch_size = 3


def test_a_subclass_keeps_its_own_iteration() -> None:
    plain, loader = Moving(Items(pair), batch_size=4), guard(Moving(Items(pair), batch_size=4))
    for (one, _), (other, _) in zip(plain, loader, strict=True):
        assert torch.equal(one, other)
    loader.scale = 0.0
    assert all(not inputs.any() for inputs, _ in loader)


def test_a_loader_made_from_the_class_of_a_guarded_one_is_guarded() -> None:
    loader = guard(DataLoader(Items(with_nan), batch_size=4), on_violation="record", all_values=True)
    train(type(loader)(Items(with_nan), batch_size=5))
    (result,) = guard.report().failed
    assert result.findings[0].message == "batch[0] of batch 6 of epoch 0 contains 2 NaN"


def test_a_persistent_loader_dies_with_its_last_reference() -> None:
    loader: Any = guard(StatefulDataLoader(Items(pair)))
    train(loader)
    last = weakref.ref(loader)
    del loader
    assert last() is None


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda loader: pickle.loads(pickle.dumps(loader))])
def test_copies_and_pickles_are_guarded(again: Any) -> None:
    loader = again(
        guard(DataLoader(Items(with_nan), batch_size=4), name="train", on_violation="record", all_values=True)
    )
    assert type(loader).__name__ == "DataLoader"
    train(loader)
    assert guard.report(loader).failed


@pytest.mark.scan
@pytest.mark.parametrize("persistent", [False, True])
def test_workers_and_their_iterators_are_those_of_torch(persistent: bool) -> None:
    def init(worker: int) -> None:
        info: Any = get_worker_info()
        assert type(info.dataset) is Items

    loader = DataLoader(Items(pair), 4, shuffle=True, num_workers=2, worker_init_fn=init, persistent_workers=persistent)
    iterator = iter(guard(loader))
    assert loader.worker_init_fn is init
    assert isinstance(iterator, _MultiProcessingDataLoaderIter)
    assert len(iterator) == 10
    assert len(iterator._workers) == 2
    assert sum(1 for _ in iterator) == 10
    train(loader, 2)
    assert guard.report().failed == ()


@pytest.mark.scan
def test_a_stream_is_watched() -> None:
    loader = DataLoader(Stream(with_nan, 40), batch_size=4, num_workers=2)
    assert codes(loader, epochs=2, all_values=True) == {"DG501"}
    assert guard.report().failed[0].findings[0].evidence == {"rows": [3]}


def test_checkpoints_pass_through() -> None:
    plain, loader = (StatefulDataLoader(Items(pair), 4, shuffle=True, generator=torch.Generator()) for _ in range(2))
    guard(loader)
    found = []
    for one in (plain, loader):
        one.generator.manual_seed(1)
        iterator = iter(one)
        first = [next(iterator) for _ in range(3)]
        state = one.state_dict()
        rest = list(iterator)
        one.load_state_dict(state)
        again = list(one)
        assert [batch[1].tolist() for batch in rest] == [batch[1].tolist() for batch in again]
        found.append([batch[1].tolist() for batch in first + rest + again])
    assert found[0] == found[1]
    assert [batch[1].tolist() for batch in plain] == [batch[1].tolist() for batch in loader]
    assert guard.report().failed == ()


def test_an_iterable_of_its_own_is_watched() -> None:
    loader = guard(Batches(torch.zeros(3), torch.tensor([1.0, float("nan")])), on_violation="record")
    assert len(loader) == 2
    train(loader)
    assert [result.code for result in guard.report().failed] == ["DG501"]


def test_loaders_in_a_dict_have_its_keys_as_names_and_roles() -> None:
    loaders = {"train": DataLoader(Items(pair)), "val": DataLoader(Items(with_nan))}
    assert guard(loaders, on_violation="record", all_values=True) is loaders
    train(loaders["val"])
    assert [(result.code, result.loader) for result in guard.report().failed] == [("DG501", "val")]
    assert guard.report(loaders["train"]).failed == ()


def test_names_are_unique() -> None:
    for _ in range(3):
        guard(DataLoader(Items(pair)), role="train")
    assert {result.loader for result in guard.report().results} == {"train", "train-2", "train-3"}


@pytest.mark.parametrize("thing", [[1, 2], Items(pair), 3, Stream(), (batch for batch in [1])])
def test_what_cannot_be_watched_is_refused(thing: Any) -> None:
    with pytest.raises(UsageError, match=r"guard (takes a loader|cannot watch)"):
        guard(thing)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"on_violation": "explode"}, "on_violation is one of warn, raise, record, not 'explode'"),
        ({"role": "training"}, "role is one of train, val, test, predict, not 'training'"),
        ({"ignore": ["DG999"]}, "guard does not watch DG999; ignore takes DG101"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        guard(DataLoader(Items(pair)), **options)


@pytest.mark.scan
def test_a_scan_of_a_guarded_loader_is_one_of_the_loader() -> None:
    loader = guard(DataLoader(Items(with_nan), batch_size=4), on_violation="raise", name="train", all_values=True)
    (result,) = dataguard.check(loader, select=["DG501"]).failed
    assert result.findings[0].message == "sample[0] of dataset[30] contains 2 NaN"
    with pytest.raises(ContractViolation):
        train(loader)


def test_a_violation_warns_once_at_the_line_of_the_loop() -> None:
    loader = guard(DataLoader(Items(lambda _: torch.tensor(float("nan"))), batch_size=4))
    with pytest.warns(ContractWarning) as caught:
        train(loader)
    (warning,) = caught
    assert Path(warning.filename).name == "training_loops.py"
    assert str(warning.message) == (
        "DG501-non-finite-sample[loader] batch of batch 0 of epoch 0 contains 4 NaN"
        " (samples: ['dataset[0]', 'dataset[1]', 'dataset[2]', 'dataset[3]'])\n"
        "`dataguard explain DG501` describes cause and fix"
    )


def test_a_violation_with_a_place_quotes_its_line() -> None:
    line = described.__code__.co_firstlineno
    text = described("DG206", "train", Finding("one", at=Location(__file__, 1, "f")))
    assert f"\nat f in {__file__}:1\n> 1  " in text
    assert "> " not in described("DG206", "train", Finding("one", at=Location(described.__code__.co_filename, line)))


def test_a_violation_raises_with_its_finding() -> None:
    loader = guard(DataLoader(Items(with_nan), batch_size=8), on_violation="raise", name="train", all_values=True)
    with pytest.raises(ContractViolation, match=r"DG501-non-finite-sample\[train\]") as caught:
        train(loader)
    assert caught.value.code == "DG501"
    assert caught.value.finding.evidence == {"samples": ["dataset[30]"]}
    assert pickle.loads(pickle.dumps(caught.value)).finding == caught.value.finding


def test_only_errors_raise() -> None:
    loader = guard(DataLoader(Items(pair, 9), batch_size=4, shuffle=True), on_violation="raise")
    with pytest.warns(ContractWarning, match="DG403"):
        train(loader)


def test_ignored_checks_are_silent() -> None:
    assert codes(DataLoader(Items(with_nan), batch_size=4), ignore=["DG501"], all_values=True) == set()
    (result,) = [result for result in guard.report().results if result.code == "DG501"]
    assert (result.status, result.reason) == (Status.SKIPPED, "ignored")


def test_the_batch_is_saved_where_the_user_says(tmp_path: Path) -> None:
    folder = tmp_path / "violations"
    loader = DataLoader(Items(with_nan), batch_size=4)
    assert codes(loader, epochs=2, save_to=folder, name="my train", all_values=True) == {"DG501"}
    (path,) = folder.iterdir()
    assert path.name == "DG501-my-train-epoch0-batch7.pt"
    saved = torch.load(path, weights_only=False)
    assert saved["indices"] == [28, 29, 30, 31]
    assert torch.isnan(saved["batch"][0][2]).all()
    repro = guard.report().failed[0].findings[0].repro
    assert repro is not None
    assert str(path) in repro


def test_a_batch_that_cannot_be_saved_is_no_error(tmp_path: Path) -> None:
    loader = Batches({"x": torch.tensor(float("nan")), "y": lambda: 0})
    assert codes(loader, save_to=tmp_path / "violations") == {"DG501"}
    assert "not saved" in guard.report().failed[0].findings[0].evidence


def test_nothing_is_written_otherwise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert codes(DataLoader(Items(with_nan), batch_size=4), all_values=True) == {"DG501"}
    assert list(tmp_path.iterdir()) == []


def test_labels_and_structure_reach_the_report() -> None:
    labels = [torch.tensor([0, 1]), torch.tensor([0, 4]), torch.tensor([0.0, 1.0])]
    loader = Batches(*[(torch.zeros(2, 3), one) for one in labels])
    assert codes(loader, num_classes=4) == {"DG305", "DG502"}
    messages = [result.findings[0].message for result in guard.report().failed]
    assert messages == [
        "batch[1] of batch 2 of epoch 0 is float32 with 1 dimension; it was int64 with 1 dimension",
        "batch[1] of batch 1 of epoch 0 contains the label 4, but num_classes says 0 to 3",
    ]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"shuffle": True}, {"DG403"}),
        ({"shuffle": True, "drop_last": True}, set()),
        ({}, set()),
        ({"batch_sampler": [[0, 1, 2], [3], [4, 5]]}, set()),
        ({"batch_sampler": BatchSampler(RandomSampler(range(9)), 4, False)}, {"DG403"}),
    ],
    ids=["shuffled", "drop_last", "evaluation", "sizes on purpose", "own batch sampler"],
)
def test_a_last_batch_of_one_sample(options: dict[str, Any], expected: set[str]) -> None:
    options = options if "batch_sampler" in options else {"batch_size": 4, **options}
    assert codes(DataLoader(Items(pair, 9), **options)) == expected


def test_batches_of_one_sample_on_purpose_are_fine() -> None:
    assert codes(DataLoader(Items(pair, 9), batch_size=1, shuffle=True)) == set()


def test_a_stream_whose_role_is_train_may_not_end_with_one_sample() -> None:
    assert codes(DataLoader(Stream(count=9), batch_size=4)) == set()
    assert codes(DataLoader(Stream(count=9), batch_size=4), role="train") == {"DG403"}


@pytest.mark.parametrize(("slow", "expected"), [("loader", {"DG801"}), ("loop", set())])
def test_the_share_of_waiting_is_a_contract(slow: str, expected: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr("time.perf_counter", lambda: clock[0])

    def make(index: int) -> int:
        clock[0] += 1.0 if slow == "loader" else 0.1
        return index

    loader = guard(DataLoader(Items(make, 5)), on_violation="record", max_wait=0.5)
    for _ in loader:
        clock[0] += 0.1 if slow == "loader" else 1.0
    assert {result.code for result in guard.report().failed} == expected
    share = "91%" if slow == "loader" else "9%"
    assert f"the loop waited {share}" in guard.report().notes[0]


def test_a_bug_of_the_guard_ends_no_training(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr("dataguard.training.watch.non_finite", broken)
    train(guard(DataLoader(Items(pair)), name="train"), 2)
    report = guard.report()
    assert report.count(Status.BROKEN) == len(report.results)
    assert "ZeroDivisionError: a bug" in str(report)


@pytest.mark.scan
def test_workers_start_without_a_record_if_it_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: Any) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr("dataguard.training.randomness.replays.find_generators", full)
    loader = guard(DataLoader(Items(pair), batch_size=4, shuffle=True, num_workers=1))
    assert len(list(loader)) == 10
    assert guard.report().count(Status.BROKEN)


def test_the_report_says_what_was_looked_at() -> None:
    train(guard(DataLoader(Items(pair), batch_size=4, shuffle=True), name="train", num_classes=4), 2)
    report = dataguard.guard.report()
    assert {result.code: result.status.value for result in report.results} == {
        "DG101": "skipped",
        "DG102": "skipped",
        "DG202": "skipped",
        "DG203": "skipped",
        "DG206": "passed",
        "DG209": "skipped",
        "DG305": "passed",
        "DG307": "skipped",
        "DG403": "passed",
        "DG423": "skipped",
        "DG501": "passed",
        "DG502": "passed",
        "DG801": "skipped",
    }
    assert report.notes[0].startswith("train: 20 batches, 2 whole epochs; the loop waited ")
    assert "dataguard guard" in str(report)
    assert '"code": "DG206"' in report.to_json()


def test_a_loader_that_was_never_iterated_is_reported() -> None:
    guard(DataLoader(Items(pair)), name="train")
    assert guard.report().notes == (
        "train: never iterated: guard what the loop iterates, after `accelerator.prepare` and the like",
    )
    assert {result.status for result in guard.report().results} == {Status.SKIPPED}


def test_a_batch_without_labels_is_reported_and_labels_are_counted() -> None:
    def tokens(index: int) -> dict[str, Tensor]:
        ids = torch.arange(8) + index
        return {"input_ids": ids, "labels": torch.where(torch.arange(8) < (8 if index in (6, 7) else 2), -100, ids)}

    loader = guard(DataLoader(Items(tokens, 12), batch_size=2), name="train", on_violation="record", all_values=True)
    train(loader, 2)
    report = guard.report()
    (result,) = [result for result in report.results if result.code == "DG423"]
    assert [finding.message for finding in result.findings] == [
        f"batch['labels'] of batch 3 of epoch {epoch} has no label that counts for the loss" for epoch in (0, 1)
    ]
    assert "; 62%, 62% of the labels count for the loss, by epoch; the loop waited" in report.notes[0]


def test_values_are_checked_as_the_time_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr("time.perf_counter", lambda: clock[0])

    def check(_: Any) -> list[Any]:
        clock[0] += 0.010  # the check takes 10 ms of each 100
        return []

    monkeypatch.setattr("dataguard.training.watch.non_finite", check)
    loader = guard(DataLoader(Items(pair, 2000)), on_violation="record")
    for _ in loader:
        clock[0] += 0.1
    (result,) = [result for result in guard.report().results if result.code == "DG501"]
    assert 95 <= result.exercised["batches"] <= 110  # a half percent of 200 s, and the first batches


def test_warnings_as_errors_are_no_bug() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ContractWarning, match="DG501"):
            train(guard(DataLoader(Items(with_nan)), all_values=True))
    assert guard.report().count(Status.BROKEN) == 0


def test_the_page_lists_every_check_and_argument() -> None:
    page = PAGE.read_text(encoding="utf-8")
    table = page.partition("## What it watches")[2].partition("\n## ")[0]
    assert set(re.findall(r"\| (DG\d+) \|", table)) == set(CODES) == set(watched())
    arguments = set(inspect.signature(Guard.__call__).parameters) - {"self", "loader"}
    documented = inspect.getdoc(Guard.__call__) or ""
    assert [name for name in arguments if f"{name}:" not in documented] == []


def test_the_code_of_the_page_is_python() -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert blocks
    for number, code in enumerate(blocks):
        compile(code, f"{PAGE.name}, block {number}", "exec")
