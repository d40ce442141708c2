"""What is proposed for projects of many forms, from their source alone."""

from __future__ import annotations

import ast
from pathlib import Path
from textwrap import dedent

import pytest

from dataguard.project.proposal import Proposal, propose

DATA = """
    from torch.utils.data import DataLoader

    class Config:
        size = 3

    def build_loader(cfg, split):
        return DataLoader(range(cfg.size), shuffle=split == "train")

    def make_loaders(root="data"):
        train = DataLoader(range(3))
        val = DataLoader(range(3))
        return {"train": train, "val": val}
"""


def proposed(folder: Path, files: dict[str, str], *arguments: str) -> Proposal | None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(dedent(text))
    return propose(folder, arguments)


def body(found: Proposal | None) -> str:
    """The function that was written, without its imports and its docstring."""
    assert found is not None
    assert found.file is not None
    (function,) = (node for node in ast.parse(found.file).body if isinstance(node, ast.FunctionDef))
    return "\n".join(map(ast.unparse, function.body))


def test_the_caller_of_a_factory_shows_how_it_is_called(tmp_path: Path) -> None:
    script = """
        import argparse
        from imgcls.data import Config, build_loader
        from imgcls.net import Net

        def train(cfg, device, epochs=3):
            model = Net().to(device)
            train_loader = build_loader(cfg, "train")
            val_loader = build_loader(cfg, split="val")
            train_loader, model = prepare(train_loader, model)
            for epoch in range(epochs):
                for batch in train_loader:
                    model(batch)

        def main():
            parser = argparse.ArgumentParser()
            parser.add_argument("--size", type=int, default=8)
            parser.add_argument("--output", required=True)
            args = parser.parse_args()
            config = Config()
            config.size = args.size
            train(config, "cuda")

        if __name__ == "__main__":
            main()
    """
    files = {"src/imgcls/__init__.py": "", "src/imgcls/data.py": DATA, "train.py": script}
    found = proposed(tmp_path, files)
    assert found is not None
    assert (found.target, found.pythonpath, found.unfinished) == ("dataguard_loaders:loaders", ("src",), False)
    assert "\nfrom imgcls.data import Config, build_loader\n" in (found.file or "")
    assert body(found) == dedent("""\
        parser = argparse.ArgumentParser()
        parser.add_argument('--size', type=int, default=8)
        args = parser.parse_args([])
        config = Config()
        config.size = args.size
        cfg = config
        train_loader = build_loader(cfg, 'train')
        val_loader = build_loader(cfg, split='val')
        return {'train': train_loader, 'val': val_loader}""")
    assert "parse_args(['--output', 'x'])" in body(propose(tmp_path, ["--output", "x"]))


def test_blocks_are_reduced_to_what_loaders_need(tmp_path: Path) -> None:
    script = """
        import sys
        import torch
        from torch.utils.data import DataLoader as Loader, DataLoader
        from data import Images, collate

        def main(root="data"):
            torch.distributed.init_process_group("nccl")
            try:
                images = Images(root)
                print(len(images))
            except OSError:
                sys.exit("no data")
            options = {"collate_fn": collate}
            if torch.cuda.is_available():
                model = Net()
                options.update(pin_memory=True)
            with torch.no_grad():
                loader = DataLoader(images, **options)
            if root == "data":
                val_loader = DataLoader(images)
            loader = accelerate(loader)

        main()
    """
    assert body(proposed(tmp_path, {"train.py": script.replace("        main()\n", ""), "data.py": ""})) == dedent("""\
        loader = None
        val_loader = None
        root = 'data'
        try:
            images = Images(root)
        except OSError:
            raise
        options = {'collate_fn': collate}
        if torch.cuda.is_available():
            options.update(pin_memory=True)
        with torch.no_grad():
            loader = DataLoader(images, **options)
        if root == 'data':
            val_loader = DataLoader(images)
        return {'loader': loader, 'val': val_loader}""")


@pytest.mark.parametrize(
    ("files", "target", "pythonpath"),
    [
        (
            {"pkg/__init__.py": "", "pkg/data.py": DATA.replace("def build_loader(cfg", "def _build(cfg")},
            "pkg.data:make_loaders",
            (),
        ),
        (
            {
                "src/pkg/__init__.py": "",
                "src/pkg/data.py": DATA,
                "src/pkg/train.py": "from .data import make_loaders\ndef main():\n    loaders = make_loaders()\n",
            },
            "pkg.data:make_loaders",
            ("src",),
        ),
        ({"a/pkg/data.py": DATA, "a/run.py": "from pkg.data import make_loaders"}, "pkg.data:make_loaders", ("a",)),
        (
            {"dm.py": "class Data(LightningDataModule):\n    def train_dataloader(self):\n        return DataLoader()"},
            "dm:Data",
            (),
        ),
    ],
    ids=["function", "called in a package", "namespace package", "data module"],
)
def test_what_needs_no_arguments_is_the_target(
    tmp_path: Path, files: dict[str, str], target: str, pythonpath: tuple[str, ...]
) -> None:
    found = proposed(tmp_path, files)
    assert found is not None
    assert (found.target, found.pythonpath, found.file) == (target, pythonpath, None)


def test_several_factories_are_one_target(tmp_path: Path) -> None:
    made = "from torch.utils.data import DataLoader\n"
    for name in ("train", "val"):
        made += f"def make_{name}_loader():\n    return DataLoader(range(3))\n"
    assert body(proposed(tmp_path, {"data.py": made})) == (
        "return {'train': make_train_loader(), 'val': make_val_loader()}"
    )


def test_what_only_the_user_knows_is_left_open(tmp_path: Path) -> None:
    data = DATA.replace("make_loaders(root=", "_make(root=")
    found = proposed(tmp_path, {"data.py": data})
    assert found is not None
    assert found.unfinished
    assert body(found) == (
        "return {'train': build_loader(cfg=..., split='train'), 'val': build_loader(cfg=..., split='val')}"
    )


REQUIRING = """
    import argparse
    from torch.utils.data import DataLoader

    if __name__ == "__main__":
        parser = argparse.ArgumentParser()
        parser.add_argument("data")
        args = parser.parse_args()
        loader = DataLoader(args.data)
"""


def test_arguments_that_a_script_requires_are_left_open(tmp_path: Path) -> None:
    found = proposed(tmp_path, {"train.py": REQUIRING})
    assert found is not None
    assert found.unfinished
    assert "args = parser.parse_args(['...'])" in body(found)
    assert "args = parser.parse_args(['here'])" in body(propose(tmp_path, ["here"]))


@pytest.mark.parametrize(
    "text",
    [
        "loader = DataLoader(range(3))\nfor batch in loader:\n    pass",
        "class Trainer:\n    def run(self):\n        self.loader = DataLoader(self.data)\n\n"
        "if __name__ == '__main__':\n    Trainer().run()",
        "@hydra.main(config_path='.')\ndef main(cfg):\n    loader = DataLoader(cfg.data)\n\n"
        "if __name__ == '__main__':\n    main()",
        "def main():\n    while True:\n        data = more()\n        break\n    loader = DataLoader(data)\n\n"
        "if __name__ == '__main__':\n    main()",
    ],
    ids=["at the top level", "in an object", "hydra", "while"],
)
def test_loaders_that_cannot_be_taken_out_need_their_script(tmp_path: Path, text: str) -> None:
    found = proposed(tmp_path, {"train.py": f"import hydra\nfrom torch.utils.data import DataLoader\n{text}\n"})
    assert found is not None
    assert (found.script, found.file, found.target) == (Path("train.py"), None, "")


def test_without_loaders_there_is_nothing_to_propose(tmp_path: Path) -> None:
    broken = "def f(:\n"
    files = {"model.py": "class Net: pass", "broken.py": broken, ".venv/lib/x.py": DATA, "tests/test_x.py": DATA}
    assert proposed(tmp_path, files) is None
