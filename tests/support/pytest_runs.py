"""Runs of pytest with the plugin, on small real loaders."""

from __future__ import annotations

from importlib.metadata import entry_points
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
INSTALLED = any(point.name == "dataguard_loaders" for point in entry_points(group="pytest11"))
PLUGIN = ("-p", "dataguard.pytest_plugin.plugin")
LOADED = () if INSTALLED else PLUGIN

LOADERS = """
    import os
    from pathlib import Path

    import psutil
    import torch
    from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

    with Path(__file__).with_name("hosts.log").open("a") as log:
        print(os.getpid(), psutil.Process(os.getppid()).ppid(), file=log)


    class Gaps(Dataset):
        def __len__(self):
            return 13

        def __getitem__(self, index):
            if index > 12:
                raise IndexError(index)
            return torch.full((3,), float("nan") if index == 5 else float(index))


    class Stuck(Gaps):
        def __getitem__(self, index):
            while True:
                Path(__file__).with_name("stuck.log").touch()


    def good():
        return DataLoader(TensorDataset(torch.arange(12.0)), batch_size=4)


    def bad():
        return {"train": DataLoader(Gaps(), batch_size=4, shuffle=True), "val": good()}


    class Stream(IterableDataset):
        def __iter__(self):
            return iter(range(100))


    def stream():
        return {"train": DataLoader(Stream(), batch_size=2)}


    def stuck():
        return DataLoader(Stuck(), batch_size=4)


    def named():
        return {"\\x1b[2J$(touch pwned)\\n::error::x": DataLoader(Gaps(), batch_size=4)}


    def raising():
        return DataLoader([1, 2, 3, 4], batch_size=2, collate_fn=lambda samples: samples.lost)


    def needy(folder):
        return good()
"""
OWN_TESTS = """
    def test_sum():
        assert 1 + 1 == 2


    def test_product():
        assert 2 * 2 == 5
"""


def run(place: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return place.runpytest_inprocess(*LOADED, *arguments)


def ids(place: pytest.Pytester, *arguments: str) -> list[str]:
    """The ids that a collection prints, ours without their common prefix."""
    outcome = run(place, "--collect-only", "-q", *arguments)
    assert outcome.ret in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED), outcome.errlines
    return [line.removeprefix("dataguard::") for line in outcome.outlines if "::" in line]


def hosts(place: pytest.Pytester) -> list[tuple[int, int]]:
    """Each process that has imported the loaders, and the one that the reaper above it was started by."""
    log = place.path / "hosts.log"
    return [(int(pid), int(starter)) for pid, starter in map(str.split, log.read_text().splitlines())]
