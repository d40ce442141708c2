"""Libraries that read shards, chunks and columns."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, TensorDataset

from tests.ecosystem.data import made, scene

Loaders = dict[str, Any]


def jpeg(number: int) -> bytes:
    """A scene as JPEG."""
    stream = io.BytesIO()
    scene(number, (64, 64))[0].save(stream, "JPEG", quality=95)
    return stream.getvalue()


def shards() -> str:
    """Four tar files of sixteen images each."""

    def make(folder: Path) -> None:
        import webdataset

        for shard in range(4):
            with webdataset.TarWriter(str(folder / f"{shard}.tar")) as writer:
                for number in range(16 * shard, 16 * shard + 16):
                    writer.write({"__key__": f"{number:06}", "jpg": jpeg(number), "cls": number % 3})

    return str(made("shards", make) / "{0..3}.tar")


def webdataset_loaders() -> Loaders:
    """A `WebDataset` under a `WebLoader`, batched in the workers."""
    import webdataset
    from torchvision.transforms import v2

    def stream(**options: Any) -> Any:
        return webdataset.WebDataset(shards(), nodesplitter=webdataset.split_by_node, **options)

    finish = v2.Compose([v2.ToImage(), v2.ToDtype(torch.float32, scale=True)])
    augment = v2.Compose([v2.RandomHorizontalFlip(), finish])
    train = stream(shardshuffle=4).shuffle(16).decode("pil").to_tuple("jpg", "cls").map_tuple(augment).batched(8)
    val = stream(shardshuffle=False).decode("pil").to_tuple("jpg", "cls").map_tuple(finish).batched(8)
    return {
        "train": webdataset.WebLoader(train, batch_size=None, num_workers=2),
        "val": webdataset.WebLoader(val, batch_size=None, num_workers=2),
    }


class Numbers(Dataset[Tensor]):
    """Numbered vectors."""

    def __len__(self) -> int:
        return 96

    def __getitem__(self, index: int) -> Tensor:
        return torch.arange(4.0) + 4 * index


def torchdata_loaders() -> Loaders:
    """torchdata's `StatefulDataLoader`."""
    from torchdata.stateful_dataloader import StatefulDataLoader

    return {"train": StatefulDataLoader(Numbers(), batch_size=8, shuffle=True, num_workers=2)}


def streaming_loaders() -> Loaders:
    """MosaicML's `StreamingDataset` over shards written by `MDSWriter`."""
    from streaming import MDSWriter, StreamingDataLoader, StreamingDataset

    def make(folder: Path) -> None:
        with MDSWriter(out=str(folder / "mds"), columns={"x": "ndarray:float32:8", "class": "int"}) as out:
            for number in range(96):
                out.write({"x": np.arange(8, dtype=np.float32) + number, "class": number % 3})

    dataset = StreamingDataset(local=str(made("mds", make) / "mds"), shuffle=True, batch_size=8)
    return {"train": StreamingDataLoader(dataset, batch_size=8, num_workers=2)}


def litdata_loaders() -> Loaders:
    """Lightning's `StreamingDataset` over chunks written by `optimize`."""
    from litdata import StreamingDataLoader, StreamingDataset
    from litdata.streaming.writer import BinaryWriter

    def make(folder: Path) -> None:
        writer = BinaryWriter(str(folder), chunk_size=16)
        for number in range(96):
            writer[number] = {"x": np.arange(8, dtype=np.float32) + number, "class": number % 3}
        writer.done()
        writer.merge()

    folder = str(made("chunks", make))
    return {
        "train": StreamingDataLoader(StreamingDataset(folder, shuffle=True), batch_size=8, num_workers=2),
        "val": StreamingDataLoader(StreamingDataset(folder), batch_size=8, num_workers=2),
    }


class LazyHDF5(Dataset[Any]):
    """A file of HDF5, opened by the worker on its first read, as h5py's FAQ on several processes asks for."""

    def __init__(self, path: Path) -> None:
        import h5py

        self.path, self.file = path, None
        with h5py.File(path) as file:
            self.length = len(file["x"])

    def __len__(self) -> int:
        return int(self.length)

    def __getitem__(self, index: int) -> Any:
        import h5py

        if self.file is None:
            self.file = h5py.File(self.path)
        return torch.from_numpy(self.file["x"][index]), int(self.file["y"][index])


def h5py_loaders() -> Loaders:
    """One file of HDF5."""

    def make(folder: Path) -> None:
        import h5py

        with h5py.File(folder / "data.h5", "w") as file:
            file["x"] = np.random.default_rng(0).normal(size=(96, 16)).astype(np.float32)
            file["y"] = np.arange(96) % 3

    return {"train": DataLoader(LazyHDF5(made("hdf5", make) / "data.h5"), batch_size=8, shuffle=True, num_workers=2)}


class ZarrRows(Dataset[Tensor]):
    """Rows of a zarr array."""

    def __init__(self, path: Path) -> None:
        import zarr

        self.array = zarr.open_array(str(path), mode="r")

    def __len__(self) -> int:
        return int(self.array.shape[0])

    def __getitem__(self, index: int) -> Tensor:
        return torch.from_numpy(np.asarray(self.array[index]))


def zarr_loaders() -> Loaders:
    """A chunked array of zarr."""

    def make(folder: Path) -> None:
        import zarr

        array = zarr.open_array(str(folder / "x.zarr"), mode="w", shape=(96, 16), chunks=(16, 16), dtype="float32")
        array[:] = np.random.default_rng(0).normal(size=(96, 16))

    return {"train": DataLoader(ZarrRows(made("zarr", make) / "x.zarr"), batch_size=8, shuffle=True, num_workers=2)}


def tensordict_loaders() -> Loaders:
    """A memory-mapped `TensorDict`, which fetches whole batches by `__getitems__`."""
    from tensordict import TensorDict

    data = TensorDict({"x": torch.randn(96, 16), "y": torch.arange(96) % 3}, batch_size=[96])
    return {"train": DataLoader(data, batch_size=8, shuffle=True, num_workers=2, collate_fn=same)}


def same(batch: Any) -> Any:
    """The batch, which the dataset has made already."""
    return batch


def tensors(count: int = 96, start: int = 0) -> TensorDataset:
    """Vectors with one of three classes."""
    generator = torch.Generator().manual_seed(start)
    return TensorDataset(torch.randn(count, 16, generator=generator), torch.arange(count) % 3)
