"""What workers really draw, measured with torch alone.

`python -m tests.support.measurement LIBRARY...` prints a line of JSON. Two workers read the same items over two epochs.
No part of dataguard takes part, so that its verdicts can be compared.
"""

from __future__ import annotations

import json
import os
import sys
from importlib.metadata import version
from typing import Any

import torch
from torch.utils.data import DataLoader

from tests.loaders import random_libraries

ITEMS = 8


def bits(batch: list[Any]) -> bytes:
    """The content of the one sample in a batch."""
    value = batch[0]["x"] if isinstance(batch[0], dict) else batch[0]
    return bytes(torch.as_tensor(value).contiguous().numpy().tobytes())


def draws(loader: DataLoader[Any]) -> list[list[bytes]]:
    """Per epoch, what came out batch by batch: those of even number are worker 0's, the others worker 1's."""
    twice = [[item] for item in range(ITEMS) for _ in range(2)]
    same: DataLoader[bytes] = DataLoader(
        loader.dataset,
        batch_sampler=twice,
        num_workers=2,
        collate_fn=bits,
        worker_init_fn=loader.worker_init_fn,
        persistent_workers=loader.persistent_workers,
    )
    return [list(same) for _ in range(2)]


def truth(loader: DataLoader[Any]) -> dict[str, bool]:
    """Whether workers, and whether epochs, draw the same numbers, by the code of the check that has to tell."""
    first, second = draws(loader)
    if len(set(first[0::2])) == 1:
        raise ValueError("nothing is random: every item came out alike")
    return {"DG101": first[0::2] == first[1::2], "DG102": first == second}


def main() -> None:
    """Measure every loader of the libraries that are named."""
    os.environ["LIBRARIES"] = " ".join(sys.argv[1:])
    torch.set_num_threads(1)  # a fork of a process that computes in several threads may hang
    factories = random_libraries.LOADERS
    table = {name: truth(make()) for name, make in factories.items()}
    sys.stdout.write(f"{', '.join(f'{name} {version(name)}' for name in sys.argv[1:])}\n{json.dumps(table)}\n")


if __name__ == "__main__":
    main()
