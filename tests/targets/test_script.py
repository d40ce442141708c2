"""`dataguard run`: loaders of a script, as they are when it asks for its first batch."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import pytest
from torch.utils.data import DataLoader

from dataguard.core.model import UsageError
from dataguard.engine import scan
from dataguard.report import Report
from dataguard.settings.settings import Settings
from dataguard.settings.target_spelling import script_of, script_spelling
from dataguard.targets.script import _evaluates, _named
from dataguard.targets.spelling import require_findable
from tests.support.faces import todays

PRELUDE = """
import argparse, atexit, pathlib, sys
from torch.utils.data import DataLoader
from sample_datasets.dg101_cloned_worker_rng import bad, good

def note(name):
    with open(name, "a") as file:
        file.write("x")
"""
TRAINING = """
def train(loader):
    for batch in loader:
        note("trained")

def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, required=True)
    arguments = parser.parse_args()
    train_loader, val_loader = bad(), good()
    assert train_loader.num_workers == arguments.workers
    note("started")
    try:
        train(train_loader)
    finally:
        note("unwound")

if __name__ == "__main__":
    main()
"""
CHECKED_FIRST = """
class Trainer:
    def fit(self):
        self.val_dataloader = good()
        self.sanity_check()
        self.train_dataloader = bad()
        for batch in self.train_dataloader:
            note("trained")

    def sanity_check(self):
        for batch in self.val_dataloader:
            note("validated")

Trainer().fit()
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(Path.cwd())
    monkeypatch.chdir(tmp_path)
    return tmp_path


def ran(place: Path, script: str, *arguments: str, codes: tuple[str, ...] = ("DG001", "DG101")) -> Report:
    (place / "train.py").write_text(PRELUDE + textwrap.dedent(script))
    return scan(script_spelling("train.py", arguments), Settings(select=codes))


def failed(report: Report) -> list[tuple[str, str]]:
    return [(result.code, result.loader) for result in report.failed]


@pytest.mark.scan
def test_a_script_runs_once_up_to_its_first_batch(place: Path) -> None:
    report = ran(place, TRAINING, "--workers", "2")
    assert [result.loader for result in report.results] == ["train_loader"] * 2 + ["val_loader"] * 2
    assert failed(report) == [("DG101", "train_loader")]
    assert report.failed[0].findings[0].repro == "dataguard run --select DG101 train.py --workers 2"
    assert (place / "started").read_text() == "x"
    assert not {file.name for file in place.iterdir()} & {"trained", "unwound"}


@pytest.mark.scan
def test_an_evaluation_before_the_training_yields_nothing(place: Path) -> None:
    report = ran(place, CHECKED_FIRST)
    assert {result.loader for result in report.results} == {"train_dataloader", "val_dataloader"}
    assert failed(report) == [("DG101", "train_dataloader")]
    assert not {file.name for file in place.iterdir()} & {"trained", "validated"}


@pytest.mark.scan
def test_a_script_that_asks_for_no_batch_has_its_global_loaders(place: Path) -> None:
    assert failed(ran(place, "loaders = {'train': bad()}")) == [("DG101", "train")]
    with pytest.raises(UsageError, match=r"train.py ended without a DataLoader"):
        ran(place, "print('nothing')")


@pytest.mark.scan
def test_what_a_script_raises_is_said_of_the_script(place: Path) -> None:
    report = ran(place, "import torch\ntorch.load('model.pt')\ntrain_loader = bad()\nnext(iter(train_loader))")
    (finding,) = report.failed[0].findings
    assert finding.message.startswith("running the script raised FileNotFoundError")
    assert finding.evidence["hint"].startswith("this file does not exist")


@pytest.mark.scan
def test_spawned_workers_of_a_script_without_a_main_guard_are_a_finding_whatever_is_selected(place: Path) -> None:
    loader = "DataLoader([1, 2], num_workers=1, multiprocessing_context='spawn')"
    report = ran(place, f"train_loader = {loader}\nfor batch in train_loader: note('trained')")
    assert failed(report) == [("DG104", "train_loader")]
    (finding,) = report.failed[0].findings
    assert finding.message.endswith("they import the script, which starts workers itself")
    assert "__name__ == '__main__'" in finding.evidence["fix here"]


@pytest.mark.scan
def test_threads_that_a_script_leaves_are_mentioned(place: Path) -> None:
    script = """
    import threading
    threading.Thread(target=threading.Event().wait, daemon=True).start()
    train_loader = bad()
    next(iter(train_loader))
    """
    report = ran(place, script)
    assert failed(report) == [("DG101", "train_loader")]
    assert "it leaves threads running" in report.notes[-1]


RANKS = """
import os
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.utils.data import DistributedSampler

tells_epoch = False

def rank(number, ranks):
    dist.init_process_group("nccl", rank=number, world_size=ranks)
    dist.barrier()
    dataset = bad().dataset
    train_loader = DataLoader(dataset, 4, num_workers=2, sampler=DistributedSampler(dataset))
    assert len(train_loader.sampler) < len(dataset)
    if tells_epoch:
        train_loader.sampler.set_epoch(0)
    for batch in train_loader:
        note("trained")
"""
STARTS = {
    "mp.spawn": "if __name__ == '__main__': mp.spawn(rank, (2,), nprocs=2)",
    "processes": """
if __name__ == '__main__':
    ranks = [mp.Process(target=rank, args=(number, 2)) for number in range(2)]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join()
""",
    "torchrun": "tells_epoch = True; rank(int(os.environ['RANK']), int(os.environ['WORLD_SIZE']))",
}


@pytest.mark.scan
@pytest.mark.parametrize("start", STARTS)
def test_only_rank_zero_of_a_script_runs(place: Path, start: str) -> None:
    (place / "train.py").write_text(PRELUDE + RANKS + STARTS[start])
    words = ["torchrun", "--nproc-per-node", "2", "train.py"] if start == "torchrun" else ["train.py"]
    report = scan(script_spelling(words[0], words[1:]), Settings(select=("DG001", "DG101", "DG202", "DG204")))
    assert failed(report) == [("DG101", "train_loader")]
    untold = "train.py had not called set_epoch of the DistributedSampler of train_loader before its first epoch"
    assert any(untold in note for note in report.notes) == (start != "torchrun")
    sharing = next(result for result in report.results if result.code == "DG202")
    assert "runs on ranks only if asked: --ranks 2" in str(sharing.reason)
    assert not (place / "trained").exists()


STEP = """
model, held_out = torch.nn.Linear(1, 1), [torch.full((1,), float(number)) for number in range(17)]
train_set = held_out + held_out[:5]
"""
FRAMEWORKS = {
    "accelerate": """
accelerator = accelerate.Accelerator(cpu=True)
loader, held_out_loader = DataLoader(train_set, 4, shuffle=True), DataLoader(held_out, 4)
model, train_loader, val_loader = accelerator.prepare(model, loader, held_out_loader)
for batch in train_loader:
    note("trained")
""",
    "lightning": """
class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.model = model

    training_step = validation_step = lambda self, batch, number: note("trained")
    configure_optimizers = lambda self: torch.optim.SGD(self.parameters(), 0.1)

quiet = dict.fromkeys(["logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"], False)
trainer = lightning.Trainer(accelerator="cpu", devices=2, strategy="ddp", **quiet)
train_loader, val_loader = DataLoader(train_set, 4, shuffle=True), DataLoader(held_out, 4)
trainer.fit(Module(), train_loader, val_loader)
""",
    "ignite": """
import ignite.distributed as idist

def training(rank):
    train_loader = idist.auto_dataloader(train_set, batch_size=4, shuffle=True)
    val_loader = idist.auto_dataloader(held_out, batch_size=4)
    for batch in train_loader:
        note("trained")

with idist.Parallel(backend="gloo") as parallel:
    parallel.run(training)
""",
    "transformers": """
rows, held_out_rows = ([{"x": number} for number in numbers] for numbers in (train_set, held_out))
settings = transformers.TrainingArguments(
    "out", report_to=[], use_cpu=True, per_device_train_batch_size=4, per_device_eval_batch_size=4
)
trainer = transformers.Trainer(model, settings, train_dataset=rows, eval_dataset=held_out_rows)
trainer.train()
note("trained")
""",
}


@pytest.mark.scan
@pytest.mark.parametrize("library", todays(FRAMEWORKS, turns=2))
def test_ranks_of_a_script_read_what_a_framework_makes_of_its_loaders(place: Path, library: str) -> None:
    pytest.importorskip(library)
    (place / "train.py").write_text(PRELUDE + f"import torch, {library}\n" + STEP + FRAMEWORKS[library])
    report = scan(script_spelling("train.py", ()), Settings(select=("DG202", "DG203", "DG210"), ranks=2))
    results = {(result.code, result.loader.removesuffix("_loader")): result for result in report.results}
    assert {loader for _, loader in results} == {"train", "val"}, results
    padded = results["DG210", "val"]
    if library in ("lightning", "ignite"):
        assert list(report.failed) == [padded], report.failed
    else:  # what the loader holds says which samples its own loop drops
        assert not report.failed, report.failed
        assert "'remainder' of what is iterated" in str(padded.reason), padded
    for code in ("DG202", "DG203"):
        assert results[code, "train"].exercised["ranks"] == 2, results[code, "train"]
    assert not (place / "trained").exists()


SPAWNED = """
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.utils.data import DistributedSampler

def training(rank, ranks):
    dist.init_process_group("nccl", rank=rank, world_size=ranks)
    dataset = good().dataset
    sampler = DistributedSampler(dataset, num_replicas=ranks, rank=rank)
    if rank == 0:
        val_loader = DataLoader(dataset, 4)
    for batch in DataLoader(dataset, 4, sampler=sampler):
        note("trained")

if __name__ == "__main__":
    mp.spawn(training, (2,), nprocs=2)
"""


@pytest.mark.scan
@pytest.mark.parametrize(
    ("ranks", "reasons"),
    [
        (2, {"train": "", "val_loader": "not tested: the script makes no loader 'val_loader' on rank 1"}),
        (3, dict.fromkeys(["train", "val_loader"], "not tested: the script starts 2 ranks, not 3: --ranks 2")),
    ],
)
def test_each_rank_runs_the_script_that_starts_it(place: Path, ranks: int, reasons: dict[str, str]) -> None:
    (place / "train.py").write_text(PRELUDE + SPAWNED)
    report = scan(script_spelling("train.py", ()), Settings(select=("DG203",), ranks=ranks))
    assert {result.loader: result.reason or "" for result in report.results} == reasons
    assert not (place / "trained").exists()


@pytest.mark.scan
def test_a_launcher_that_starts_one_process_runs_its_script(place: Path) -> None:
    pytest.importorskip("accelerate")
    (place / "train.py").write_text(PRELUDE + "for batch in bad():\n    note('trained')\n")
    words = ["launch", "--cpu", "--num_processes", "1", "train.py"]
    assert failed(scan(script_spelling("accelerate", words), Settings(select=("DG101",)))) == [("DG101", "train")]
    assert not (place / "trained").exists()


STEPS = """
import torch
weights = torch.nn.Parameter(torch.zeros(3))
optimizer = torch.optim.SGD([weights], 0.1)

def get_batch():
    return torch.randn(3)

for _ in range(5):
    (weights * get_batch()).sum().backward()
    optimizer.step()
    note("trained")
"""


@pytest.mark.scan
def test_a_training_without_a_loader_is_stopped_before_its_first_step(place: Path) -> None:
    with pytest.raises(
        UsageError, match=r"trains at .*train.py:\d+ without a DataLoader.*dataguard scan train:get_batch"
    ):
        ran(place, STEPS)
    assert not (place / "trained").exists()
    assert failed(ran(place, "train_loader = bad()\n" + STEPS)) == [("DG101", "train_loader")]
    assert not (place / "trained").exists()


@pytest.mark.scan
def test_a_trainer_that_evaluates_after_its_first_step_makes_that_loader_before(place: Path) -> None:
    pytest.importorskip("transformers")
    script = """
    import torch, transformers
    rows = [{"x": torch.full((1,), float(number))} for number in range(16)]
    settings = transformers.TrainingArguments("out", report_to=[], use_cpu=True, eval_strategy="steps", eval_steps=1)
    held_out = {"easy": rows[:4], "hard": rows[4:8]}
    transformers.Trainer(torch.nn.Linear(1, 1), settings, train_dataset=rows, eval_dataset=held_out).train()
    note("trained")
    """
    report = ran(place, script, codes=("DG001", "DG301"))
    assert {result.loader for result in report.results} >= {"train", "val_easy", "val_hard"}
    assert not failed(report)
    assert not (place / "trained").exists()


@pytest.mark.scan
def test_a_script_that_raises_has_the_loaders_that_it_had(place: Path) -> None:
    report = ran(place, "train_loader = bad()\nraise FileNotFoundError('weights.pth')")
    assert failed(report) == [("DG101", "train_loader")]
    assert "train.py raised FileNotFoundError: weights.pth: its loaders are scanned as they were then" in report.notes
    assert failed(ran(place, "raise ValueError('early')")) == [("DG001", "train")]


@pytest.mark.scan
def test_a_module_of_a_package_is_a_script_too(place: Path) -> None:
    (place / "pkg").mkdir()
    (place / "pkg" / "data.py").write_text("from sample_datasets.dg101_cloned_worker_rng import bad\n")
    (place / "pkg" / "train.py").write_text("from .data import bad\ntrain_loader = bad()\n")
    report = scan(script_spelling("-m pkg.train", ["--x"]), Settings(select=("DG101",)))
    assert failed(report) == [("DG101", "train_loader")]
    assert report.failed[0].findings[0].repro == "dataguard run --select DG101 -m pkg.train --x"
    with pytest.raises(UsageError, match=r"run it as `dataguard run -m pkg.train`"):
        scan(script_spelling("pkg/train.py", []), Settings(select=("DG101",)))


def test_a_notebook_is_no_script() -> None:
    with pytest.raises(UsageError, match=r"call `dataguard.check\(loader\)`"):
        require_findable([script_spelling("x.ipynb", [])], [])


def test_spellings_of_scripts_are_read_as_they_were_written(tmp_path: Path) -> None:
    spelling = script_spelling("my train.py", ["--name", "a b"])
    assert script_of(spelling) == ["my train.py", "--name", "a b"]
    assert script_of("pkg.run:make") == []
    assert script_of(script_spelling("-m pkg.train", ["--x"])) == ["-m pkg.train", "--x"]
    (tmp_path / "train.py").touch()
    with pytest.raises(UsageError, match=r"did you mean '.*/train.py'"):
        require_findable([script_spelling(str(tmp_path / "trian.py"), [])], [])


def test_loaders_have_the_names_of_variables_keys_and_attributes() -> None:
    one, two, three, four = (DataLoader[Any]([1]) for _ in range(4))  # type: ignore[arg-type]

    class Holder:
        def __init__(self) -> None:
            self.valid = three

    spaces: list[dict[str, Any]] = [
        {"train": one},
        {"loader": one, "loaders": {"val": two}, "self": Holder(), "train": four},
    ]
    names = {"train": one, "val": two, "valid": three, "train2": four}
    assert _named(spaces, [("train", one)]) == names
    assert _named([], [("train", one)]) == {"train": one}
    assert _named([], [("val", one), ("val", two), ("val", one)]) == {"val": one, "val2": two}


@pytest.mark.parametrize(
    ("functions", "evaluates"),
    [(["__iter__", "train", "main"], False), (["validate", "fit", "main"], True), (["main"], False)],
)
def test_the_innermost_function_says_what_the_loader_is_for(functions: list[str], evaluates: bool) -> None:
    assert _evaluates(functions) == evaluates
