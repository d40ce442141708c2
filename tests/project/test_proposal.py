"""What `dataguard init` proposes, from the source of a project alone."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from dataguard.project.proposal import Proposal, proposals

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
    return proposals(folder, arguments)


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
    assert '"train": make_train()' in (best.file or "")
    assert not best.unfinished


def test_what_only_the_user_knows_is_left_open(tmp_path: Path) -> None:
    (best,) = offered(tmp_path, **{"src/pkg/__init__": "", "src/pkg/data": NEEDY})
    assert best.pythonpath == ("src",)
    assert best.unfinished
    assert 'build(cfg=..., split="train")' in (best.file or "")


def test_without_loaders_there_is_nothing_to_propose(tmp_path: Path) -> None:
    assert offered(tmp_path, train="print(1)\nfor x in []: pass", broken="def (") == []
