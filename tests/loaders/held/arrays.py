"""Files of arrays and tables, through their libraries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from tests.loaders.held.kinds import BYTES, SIZE, VALUES, binary, folder, kind, looked_up, stored


def _saved(path: Path) -> None:
    with path.open("wb") as file:
        np.save(file, np.array(VALUES))


def _several(path: Path) -> None:
    with path.open("wb") as file:
        arrays: Any = {str(index): np.array(VALUES[index]) for index in range(SIZE)}
        np.savez(file, **arrays)


@kind()
def memmap():
    return np.memmap(binary(), mode="r"), looked_up


@kind(anew="shared memory")
def memmap_for_writing():
    path = folder() / "memmap"
    held = np.memmap(path, mode="w+", shape=SIZE, dtype="u1")
    held[:] = VALUES
    return held, looked_up


@kind()
def memmap_copy():
    return np.memmap(binary(), mode="c"), looked_up


@kind()
def mapped_array():
    return np.load(stored("data.npy", _saved), mmap_mode="r"), looked_up


@kind(workers=0)
def lazy_arrays():
    return np.load(stored("data.npz", _several)), lambda held, index: held[str(index)]


@kind()
def tensor_of_array():
    array = np.array(VALUES)
    return (array, torch.from_numpy(array)), lambda held, index: looked_up(held[1], index)


@kind()
def tensor_of_file():
    return torch.from_file(str(binary()), size=SIZE, dtype=torch.uint8), looked_up


@kind(anew="shared memory")
def shared_tensor_of_file():
    path = folder() / "shared"
    path.write_bytes(BYTES)
    return torch.from_file(str(path), shared=True, size=SIZE, dtype=torch.uint8), looked_up


@kind(anew="shared memory")
def shared_tensor():
    return torch.tensor(VALUES).share_memory_(), looked_up


@kind()
def mapped_checkpoint():
    path = stored("data.pt", lambda path: torch.save({"values": torch.tensor(VALUES)}, path))
    return torch.load(path, mmap=True), lambda held, index: held["values"][index]


def _hdf5(path: Path) -> None:
    import h5py

    with h5py.File(path, "w", libver="latest") as file:
        file["values"] = VALUES
        file.swmr_mode = True


@kind(needs="h5py")
def hdf5():
    import h5py

    return h5py.File(stored("data.h5", _hdf5), "r"), lambda held, index: held["values"][index]


@kind(needs="h5py")
def hdf5_dataset():
    import h5py

    return h5py.File(stored("data.h5", _hdf5), "r")["values"], lambda held, index: held[index]


@kind(needs="h5py")
def hdf5_swmr():
    import h5py

    file = h5py.File(stored("swmr.h5", _hdf5), "r", libver="latest", swmr=True)
    return file, lambda file, index: file["values"][index]


@kind(workers=0, needs="h5py")
def hdf5_of_file_object():
    import h5py

    file = stored("object.h5", _hdf5).open("rb")
    return (file, h5py.File(file, "r")), lambda held, index: held[1]["values"][index]


@kind(workers=0, needs="h5py")
def hdf5_for_writing():
    import h5py

    path = folder() / "written.h5"
    file = h5py.File(path, "a")
    if "values" not in file:
        file["values"] = VALUES
    return file, lambda held, index: held["values"][index]


def _zarr(path: Path) -> None:
    import zarr

    values: Any = np.array(VALUES)
    zarr.save(str(path), values)


@kind(workers=0, anew="threads", needs="zarr")
def zarr_array():
    import zarr

    return zarr.open(str(stored("data.zarr", _zarr)), mode="r"), looked_up


def _tensors(path: Path) -> None:
    from safetensors.torch import save_file

    save_file({str(index): torch.tensor([VALUES[index]]) for index in range(SIZE)}, path)


@kind(needs="safetensors")
def safetensors():
    from safetensors import safe_open

    return safe_open(stored("data.safetensors", _tensors), "pt"), lambda held, index: held.get_tensor(str(index))


def _table() -> Any:
    import pyarrow as pa

    return pa.table({"values": VALUES})


def _arrow(path: Path) -> None:
    import pyarrow as pa

    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, _table().schema) as writer:
        writer.write_table(_table())


def _parquet(path: Path) -> None:
    import pyarrow.parquet as pq

    pq.write_table(_table(), path, row_group_size=5)


@kind(anew="threads", needs="pyarrow")
def arrow_memory_map():
    import pyarrow as pa

    source = pa.memory_map(str(stored("data.arrow", _arrow)))
    return (source, pa.ipc.open_file(source).read_all()), lambda held, index: held[1]["values"][index].as_py()


@kind(workers=0, needs="pyarrow")
def parquet_file():
    import pyarrow.parquet as pq

    held = pq.ParquetFile(stored("data.parquet", _parquet), memory_map=False)
    return held, lambda held, index: held.read_row_group(index // 5, use_threads=False)["values"][index % 5].as_py()


@kind(workers=0, needs="pyarrow")
def arrow_dataset():
    import pyarrow.dataset as ds

    held = ds.dataset(stored("data.parquet", _parquet))
    return held, lambda held, index: held.take([index], use_threads=False)["values"][0].as_py()


@kind(anew="threads", needs="pyarrow")
def feather():
    from pyarrow import feather as ft

    path = stored("data.feather", lambda path: ft.write_feather(_table(), str(path), compression="uncompressed"))
    return ft.read_table(path, memory_map=True), lambda held, index: held["values"][index].as_py()


@kind(workers=0, anew="threads", needs="polars")
def polars_frame():
    import polars as pl

    return pl.DataFrame({"values": VALUES}), lambda held, index: held["values"][index]


@kind(workers=0, anew="threads", needs="polars")
def polars_lazy():
    import polars as pl

    held = pl.scan_parquet(stored("data.parquet", _parquet))
    return held, lambda held, index: held.slice(index, 1).collect()["values"][0]
