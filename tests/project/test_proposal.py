"""What `dataguard init` proposes, from the source of a project alone."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from dataguard.project.proposal import Proposal, proposals
from dataguard.project.sources import Project

FACTORY = "from torch.utils.data import DataLoader\ndef make_loaders(): return DataLoader(range(8))\n"
NEEDY = "from torch.utils.data import DataLoader\ndef build(cfg, split): return DataLoader(range(cfg.size))\n"
TRAINING = """
from torch.utils.data import DataLoader

def main():
    loader = DataLoader(range(8))
    for batch in loader:
        loss(batch).backward()

if __name__ == "__main__":
    main()
"""
EVALUATION = TRAINING.replace("loss(batch).backward()", "print(batch)")


def offered(folder: Path, *arguments: str, **files: str) -> list[Proposal]:
    """What a project of these files offers."""
    for name, text in files.items():
        path = folder / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
    return proposals(Project(folder), arguments)


def targets(folder: Path, *arguments: str, **files: str) -> list[str]:
    return [proposal.target for proposal in offered(folder, *arguments, **files)]


def test_a_script_that_trains_comes_before_its_neighbours(tmp_path: Path) -> None:
    files = {
        "eval_knn": EVALUATION,
        "zz": TRAINING,
        "backup/train": TRAINING,
        "inference": EVALUATION,
        "test": TRAINING,
    }
    assert targets(tmp_path, **files)[0] == "run zz.py"
    assert targets(tmp_path, "--data", "a b", train=TRAINING)[0] == "run train.py --data 'a b'"
    assert targets(tmp_path, retrieval=TRAINING)[:2] == [
        "run train.py --data 'a b'".partition(" --")[0],
        "run retrieval.py",
    ]


def test_a_script_may_train_and_make_its_loaders_elsewhere(tmp_path: Path) -> None:
    files = {
        "demo": EVALUATION,
        "lib/engine": "def run(model, loader):\n    for batch in loader: model(batch).backward()",
        "lib/data": NEEDY,
        "main": "from lib.engine import run\nfrom lib.data import build\nrun(None, build(None, 'train'))\n"
        "for epoch in range(3): pass",
    }
    assert targets(tmp_path, **files)[0] == "run main.py"


def test_a_script_may_add_the_folder_of_its_modules(tmp_path: Path) -> None:
    script = "import sys\nsys.path.append('core')\nimport datasets\nfor x in datasets.build(1, 2): x.backward()\n"
    assert targets(tmp_path, **{"core/__init__": "", "core/datasets": NEEDY, "train": script})[0] == "run train.py"


def test_the_main_script_comes_before_one_deeper_in_the_project(tmp_path: Path) -> None:
    main = "from engine import fit\nfrom data import build\nfit(build(None, 'train'))\nfor epoch in range(3): pass"
    engine = "def fit(loader):\n    for batch in loader: batch.backward()"
    files = {"projects/side/main": TRAINING, "scripts/main": main, "engine": engine, "data": NEEDY}
    assert targets(tmp_path, **files)[0] == "run scripts/main.py"


def test_a_trainer_of_the_project_trains_where_it_is_defined(tmp_path: Path) -> None:
    launcher = "import main\nclass Trainer: pass\nif __name__ == '__main__': submit(Trainer())"
    main = "from engine import run\nfrom data import build\nif __name__ == '__main__': run(build(None, 'train'))"
    engine = "def run(loader):\n    for batch in loader: batch.backward()"
    assert targets(tmp_path, launcher=launcher, main=main, engine=engine, data=NEEDY)[0] == "run main.py"


@pytest.mark.parametrize(
    "loader",
    [
        "loader = DataLoader(range(8))\nengine.train(loader)",
        "if True:\n    for epoch in range(3): engine.train(DataLoader(range(8)))",
        "def wrap(dataset, kind=DataLoader): return kind(dataset)\nwith open('x'): engine.train(wrap(range(8)))",
    ],
)
def test_a_script_may_do_its_work_at_its_top_level(tmp_path: Path, loader: str) -> None:
    engine = "def train(loader):\n    for batch in loader: batch.backward()"
    script = f"import engine\nfrom torch.utils.data import DataLoader\n{loader}\n"
    assert targets(tmp_path, work=script, engine=engine, evaluate=EVALUATION)[0] == "run work.py"


def test_a_script_that_trains_may_get_its_loaders_from_elsewhere(tmp_path: Path) -> None:
    other = "import torch, elsewhere\nfor batch in elsewhere.batches(): torch.compile(batch).backward()"
    assert targets(tmp_path, fit=other) == ["run fit.py"]
    assert targets(tmp_path, evaluate=EVALUATION) == ["run fit.py", "run evaluate.py"]
    assert targets(tmp_path, fit=other.replace("torch", "jax")) == ["run evaluate.py"]


@pytest.mark.parametrize("call", ["Trainer(max_epochs=1).fit(None, loader)", "HfTrainer(loader).train()"])
def test_a_trainer_trains_too(tmp_path: Path, call: str) -> None:
    script = f"from torch.utils.data import DataLoader\nloader = DataLoader([1])\nfor _ in range(1): {call}\n"
    assert targets(tmp_path, zz=script, evaluate=EVALUATION)[0] == "run zz.py"


def test_a_function_without_arguments_that_the_training_calls_is_the_target(tmp_path: Path) -> None:
    script = TRAINING.replace("DataLoader(range(8))", "make_loaders()").replace(
        "from torch.utils.data import DataLoader", "from data import make_loaders"
    )
    assert targets(tmp_path, data=FACTORY, train=script) == ["data:make_loaders", "run train.py"]
    assert targets(tmp_path, train=TRAINING) == ["run train.py", "data:make_loaders"]


def test_a_script_of_a_package_is_run_as_a_module(tmp_path: Path) -> None:
    script = "from .data import make_loaders\n" + TRAINING
    assert targets(tmp_path, **{"pkg/__init__": "", "pkg/data": FACTORY, "pkg/train": script})[0] == "run -m pkg.train"


def test_several_factories_are_one_target(tmp_path: Path) -> None:
    two = FACTORY.replace("make_loaders", "make_train") + FACTORY.replace("make_loaders", "make_val")
    best = offered(tmp_path, data=two)[0]
    assert best.target == "dataguard_loaders:loaders"
    assert '"train": make_train,' in (best.file or "")
    assert not best.unfinished


@pytest.mark.parametrize(
    ("files", "best"),
    [
        (
            {"speech/data": FACTORY.replace("make_loaders", "speech_loaders"), "text/data": FACTORY},
            ("speech=speech.data:speech_loaders", "text=text.data:make_loaders"),
        ),
        (
            {"text/small": FACTORY.replace("make_l", "small_l"), "vision/small": FACTORY.replace("make_l", "small_l")},
            ("text.small=text.small:small_loaders", "vision.small=vision.small:small_loaders"),
        ),
        (
            {"text/__init__": "", "text/data": FACTORY, "text/more": FACTORY},
            ("text.data.make_loaders=text.data:make_loaders", "text.more.make_loaders=text.more:make_loaders"),
        ),
    ],
)
def test_the_parts_of_a_monorepo_are_targets_of_their_own(
    tmp_path: Path, files: dict[str, str], best: tuple[str, ...]
) -> None:
    assert offered(tmp_path, **files)[0].targets == best
    assert offered(tmp_path, **files)[0].file is None


def test_what_another_function_returns_is_no_target_of_its_own(tmp_path: Path) -> None:
    both = FACTORY.replace("make_loaders", "make_train") + "def make_loaders(): return make_train(), make_train()\n"
    assert targets(tmp_path, data=both)[0] == "data:make_loaders"


MODULE = """
import lightning
from torch.utils.data import DataLoader
class Weather(lightning.LightningDataModule):
    def train_dataloader(self): return DataLoader(range(8))
"""


@pytest.mark.parametrize("cell", ["# In[1]:", "# In [ ]:", "# %%", "# +"])
def test_a_notebook_comes_after_what_the_package_offers(tmp_path: Path, cell: str) -> None:
    files = {"src/weather/module": MODULE, "notebooks/train": f"{cell}\n{TRAINING}"}
    best, notebook = offered(tmp_path, **files)
    assert (best.target, best.pythonpath) == ("weather.module:Weather", ("src",))
    assert notebook.target == "run notebooks/train.py"
    assert targets(tmp_path, **files, train=TRAINING)[0] == "run train.py"


@pytest.mark.parametrize("script", ["train", "src/weather/train"])
def test_a_script_finds_the_package_of_a_src_layout(tmp_path: Path, script: str) -> None:
    files = {"src/weather/module": MODULE, script: f"from weather.module import Weather\n{TRAINING}"}
    best = offered(tmp_path, **files)[0]
    assert (best.target, best.pythonpath) == (f"run {script}.py", ("src",))


def test_what_only_the_user_knows_is_left_open(tmp_path: Path) -> None:
    (best,) = offered(tmp_path, **{"src/pkg/__init__": "", "src/pkg/data": NEEDY})
    assert best.pythonpath == ("src",)
    assert best.unfinished
    assert 'build(cfg=..., split="train")' in (best.file or "")


def test_without_loaders_there_is_nothing_to_propose(tmp_path: Path) -> None:
    assert offered(tmp_path, train="print(1)\nfor x in []: pass", broken="def (") == []
    assert Project(tmp_path).unparsed == ["broken.py:1"]
