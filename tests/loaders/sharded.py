"""Streams of public libraries that share their samples out among ranks and workers; files lie where `FOLDER` says."""

from __future__ import annotations

import io
import json
import os
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader

FOLDER = "DATAGUARD_SHARDS"
"""The environment variable that names the folder of the files that `write` makes."""

SHARDS, EACH = 8, 12


def write(folder: Path) -> None:
    """Write tar files and JSON lines of numbered samples."""
    for shard in range(SHARDS):
        numbers = range(EACH * shard, EACH * shard + EACH)
        lines = (json.dumps({"id": number, "text": f"row {number}"}) for number in numbers)
        (folder / f"{shard}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
        with tarfile.open(folder / f"{shard}.tar", "w") as tar:
            for number in numbers:
                array = io.BytesIO()
                np.save(array, np.full(4, number, dtype=np.float32))
                for suffix, content in (("npy", array.getvalue()), ("cls", str(number % 4).encode())):
                    entry = tarfile.TarInfo(f"{number:05d}.{suffix}")
                    entry.size = len(content)
                    tar.addfile(entry, io.BytesIO(content))


def _files(suffix: str, count: int = SHARDS) -> list[str]:
    return [str(Path(os.environ[FOLDER]) / f"{shard}.{suffix}") for shard in range(count)]


def _web(count: int = SHARDS, **settings: Any) -> Any:
    """A WebDataset of arrays and labels."""
    import webdataset

    shards = {"shardshuffle": False, "nodesplitter": webdataset.split_by_node, **settings}
    return webdataset.WebDataset(_files("tar", count), **shards).decode().to_tuple("npy", "cls")


def web() -> DataLoader[Any]:
    """Tar files, shared out among ranks and workers."""
    return DataLoader(_web(), batch_size=4, num_workers=2)


def web_shuffled() -> DataLoader[Any]:
    """The same with shuffled files, through a buffer."""
    return DataLoader(_web(shardshuffle=SHARDS, seed=1).shuffle(20), batch_size=4, num_workers=2)


def web_batched() -> DataLoader[Any]:
    """The same with batches that the stream makes."""
    return DataLoader(_web().batched(4), batch_size=None, num_workers=2)


def web_resampled() -> DataLoader[Any]:
    """Files drawn again and again, in epochs of a fixed length."""
    return DataLoader(_web(resampled=True).with_epoch(24), batch_size=4, num_workers=2)


def web_for_one() -> DataLoader[Any]:
    """The library's own default, which refuses to run on several ranks."""
    import webdataset

    return DataLoader(_web(nodesplitter=webdataset.single_node_only), batch_size=4, num_workers=2)


def web_unsplit() -> DataLoader[Any]:
    """Every rank reads all tar files."""
    return DataLoader(_web(nodesplitter=_all_shards), batch_size=4, num_workers=2)


def _all_shards(source: Any, group: Any = None) -> Any:
    return source


def web_uneven() -> DataLoader[Any]:
    """Five tar files for two ranks."""
    return DataLoader(_web(5), batch_size=4, num_workers=2)


def rows(rank: int, world_size: int) -> DataLoader[Any]:
    """Hugging Face rows, shared out by `split_dataset_by_node`."""
    from datasets.distributed import split_dataset_by_node

    return DataLoader(split_dataset_by_node(_rows(4), rank, world_size), batch_size=4, num_workers=2)


def rows_by_sample(rank: int, world_size: int) -> DataLoader[Any]:
    """The same where shards do not divide by ranks: samples are shared out."""
    from datasets.distributed import split_dataset_by_node

    return DataLoader(split_dataset_by_node(_rows(3), rank, world_size), batch_size=4, num_workers=1)


def rows_unsplit(rank: int, world_size: int) -> DataLoader[Any]:
    """Every rank reads all rows."""
    return DataLoader(_rows(4), batch_size=4, num_workers=2)


def rows_shuffled() -> DataLoader[Any]:
    """Rows through a buffer that is seeded."""
    return DataLoader(_rows(4).shuffle(seed=3, buffer_size=10), batch_size=4, num_workers=2)


def rows_stateful(rank: int, world_size: int) -> DataLoader[Any]:
    """Rows that torchdata's loader can go on with."""
    from datasets.distributed import split_dataset_by_node
    from torchdata.stateful_dataloader import StatefulDataLoader

    split = split_dataset_by_node(_rows(4), rank, world_size)
    loader: DataLoader[Any] = StatefulDataLoader(split, batch_size=4, num_workers=2)
    return loader


def _rows(shards: int) -> Any:
    from datasets import Dataset

    numbers = list(range(64))
    rows = Dataset.from_dict({"x": [[float(number)] for number in numbers], "id": numbers})
    return rows.to_iterable_dataset(num_shards=shards).with_format("torch")


def streamed_files() -> DataLoader[Any]:
    """JSON lines, streamed."""
    from datasets import load_dataset

    stream = load_dataset("json", data_files=_files("jsonl"), split="train", streaming=True)
    return DataLoader(stream, batch_size=4, num_workers=2)


def _numbers() -> Any:
    return torch.utils.data.TensorDataset(torch.arange(64.0))


def prepared() -> Any:
    """A loader that accelerate wraps."""
    from accelerate import Accelerator

    return Accelerator(cpu=True).prepare(DataLoader(_numbers(), batch_size=4, shuffle=True, num_workers=2))


def fabric() -> Any:
    """A loader that Lightning wraps."""
    import lightning

    one = lightning.Fabric(accelerator="cpu", devices=1)
    return one.setup_dataloaders(DataLoader(_numbers(), batch_size=4, shuffle=True, num_workers=2))


def mosaic() -> DataLoader[Any]:
    """Shards of MosaicML, which know of ranks by the environment."""
    from streaming import MDSWriter, StreamingDataset

    folder = Path(os.environ[FOLDER]) / "mds"
    if not folder.exists():
        with MDSWriter(out=str(folder), columns={"x": "ndarray", "id": "int"}, size_limit=1024) as out:
            for number in range(64):
                out.write({"x": np.full(4, number, dtype=np.float32), "id": number})
    return DataLoader(StreamingDataset(local=str(folder), shuffle=True, batch_size=4), batch_size=4, num_workers=2)


RIGHT = {
    "web": {
        "web": web,
        "shuffled": web_shuffled,
        "batched": web_batched,
        "resampled": web_resampled,
        "one": web_for_one,
    },
    "rows": {"rows": rows, "by_sample": rows_by_sample, "shuffled": rows_shuffled, "files": streamed_files},
    "stateful": {"stateful": rows_stateful},
    "wrapped": {"prepared": prepared, "fabric": fabric},
}
"""Loaders that do nothing wrong, by library and name."""

RANKED: dict[str, tuple[str, ...]] = {
    "web": ("web", "batched"),
    "rows": ("rows", "by_sample"),
    "stateful": ("stateful",),
    "wrapped": (),
}
"""Those that know of ranks, and whose samples can be told apart."""

WRONG: dict[str, dict[str, Any]] = {"DG202": {"web": web_unsplit, "rows": rows_unsplit}, "DG203": {"web": web_uneven}}
"""Loaders with a defect, by the code of the check that finds it."""

web_right, rows_right, stateful_right, wrapped_right = RIGHT.values()
unsharded, uneven = WRONG.values()
