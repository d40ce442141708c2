"""Loaders, classes and files whose names a terminal, a shell or a browser would act on."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils.data import DataLoader, TensorDataset

from tests.hostile.declared import named, passes
from tests.hostile.healthy import Numbers, healthy, in_main, of

TITLE = "\x1b]0;title\x07\x1b[2J\x1bc"
"""Sets the title of a terminal, clears it and resets it."""


@passes()
def name_of_escapes() -> dict[str, DataLoader]:
    return {TITLE: healthy()}


@passes()
def name_of_shell_code() -> dict[str, DataLoader]:
    return {"$(touch hostile); `touch hostile` 'x' \"y\" --select": healthy()}


@passes(slow=True)
def name_of_html() -> dict[str, DataLoader]:
    return {"<script>alert(1)</script>&amp;]]>": healthy()}


@passes()
def name_of_newlines() -> dict[str, DataLoader]:
    return {"train\n::error::words\r\n\u2028\0\t[bold]": healthy()}


@passes()
def name_without_encoding() -> dict[str, DataLoader]:
    return {"\udcff\ud800 \u202etxet\u202c": healthy()}


@passes()
def name_of_ten_megabytes() -> dict[str, DataLoader]:
    return {"train" * 2_000_000: healthy()}


@passes()
def names_alike() -> dict[Any, DataLoader]:
    return {"": healthy(), "a.b": healthy(), 1: healthy(), ("a", 1): healthy()}


@passes(slow=True)
def hundreds_of_names() -> Any:
    return {f"loader{number}": DataLoader(TensorDataset(torch.zeros(2, 3))) for number in range(12)}


class Labelled(Numbers):
    """Has classes of these names."""

    def __init__(self) -> None:
        super().__init__()
        self.classes = [TITLE, "<script>", "a\nb", "$(touch hostile)", "x" * 10_000_000, *map(str, range(11))]
        self.class_to_idx = {name: number for number, name in enumerate(self.classes)}


@passes(select="DG0,DG5")
def labels_of_escapes() -> DataLoader:
    return of(Labelled())


def fail_elsewhere() -> None:
    """Raise in a file and a function whose names are escapes too."""
    exec(compile("def f():\n  raise ValueError('x')\nf()", f"{TITLE}\n<script>.py", "exec"), {})


@named("DG001", "raised ValueError: x")
def file_of_escapes() -> DataLoader:
    return in_main(fail_elsewhere)


@named("DG001", "title")
def exception_class_of_escapes() -> DataLoader:
    return in_main(raise_class)


def raise_class() -> None:
    raise type(TITLE, (Exception,), {})("\n::error::words")
