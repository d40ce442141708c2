"""The functions of libraries that are known to read: their source, and which of its rows, frames, keys or members.

No library is imported for it. What a function reads is unknown (None) where its arguments do not say it; a function
that is not listed here, and opens files in native code, is not seen at all.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import numpy as np

from dataguard.lab.decoding.decoders import DECODERS, Gives
from dataguard.lab.provenance.open_sources import OpenSources, key_text, path_of
from dataguard.lab.rows.origins import Read

MOST_ROWS = 4096
"""Rows of one read that are named; of more, such as a piece of sound or the bytes of a packed image, the first is."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a known function: the object, if it is a method, the other arguments, and what it returned."""

    own: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    result: Any = None

    def given(self, position: int, *names: str) -> Any:
        """An argument by its position or one of its names."""
        if len(self.args) > position:
            return self.args[position]
        return next((self.kwargs[name] for name in names if name in self.kwargs), None)


class Returns(Enum):
    """What becomes of that which a function returns."""

    VALUES = "values of a sample, which can be exchanged"
    CONTENT = "bytes, or an object that reads them, which something else decodes"
    PIECES = "an iterator of such objects, not all of which are used"
    RECORD = "rows of a table, and not only numbers: they are not exchanged"
    TABLE = "a table, whose rows other functions return"
    SOURCE = "an object that reads; or the object itself, if the function is its constructor"


ReadBy = Callable[[OpenSources, Call], Read | None]
"""Says what a call has read."""


@dataclass(frozen=True, slots=True)
class KnownFunction:
    """A function, or a method of the class `owner`, that reads from a source.

    `rowwise`: what it returns has rows, and is not an image. `prior`: what is read is known before the call only, such
    as the position in a video. `filled`: the position of an argument that the values are written to.
    """

    module: str
    owner: str
    name: str
    read: ReadBy
    returns: Returns = Returns.VALUES
    rowwise: bool = False
    prior: bool = False
    filled: int | None = None


def rows_of(selection: Any, count: int) -> tuple[int, ...]:
    """The numbers of rows that the first part of a selection chooses from so many; none for all of them."""
    first = selection[0] if isinstance(selection, tuple) and selection else selection
    if first is None or first is Ellipsis or (isinstance(selection, tuple) and not selection):
        return ()
    try:
        if isinstance(first, slice | range):
            chosen = range(count)[first] if isinstance(first, slice) else first
            return tuple(chosen) if len(chosen) <= MOST_ROWS else (chosen[0],)
        numbers = np.atleast_1d(np.arange(count)[first])
    except (IndexError, TypeError, ValueError):
        return ()
    return tuple(numbers.tolist()) if numbers.ndim == 1 and len(numbers) <= MOST_ROWS else ()


def rows_along(selection: Any, shape: Sequence[int]) -> tuple[int, tuple[int, ...], tuple[Any, ...]]:
    """The first axis of which a selection does not choose all, the rows along it, and what it chooses of later axes.

    The first axis, if it chooses all of every axis.
    """
    parts = selection if isinstance(selection, tuple) else (selection,)
    dots = next((number for number, part in enumerate(parts) if part is Ellipsis), None)
    if dots is not None:
        left_out = (slice(None),) * (len(shape) - len(parts) + 1)
        parts = (*parts[:dots], *left_out, *parts[dots + 1 :])
    if not any(part is None for part in parts):
        for axis, (part, count) in enumerate(zip(parts, shape, strict=False)):
            if not isinstance(part, slice) or range(count)[part] != range(count):
                return axis, rows_of(part, count), parts[axis + 1 :]
    return 0, rows_of(parts, shape[0]) if parts else (), parts[1:]


# Files and content


def _file(position: int = 0, *names: str) -> ReadBy:
    """A function that takes a path, an open file, or content that was read before."""

    def read(sources: OpenSources, call: Call) -> Read | None:
        known = sources.read_of_file(call.given(position, *names))
        return None if known is None else known.read

    return read


def _numpy_file(sources: OpenSources, call: Call) -> Read | None:
    """`np.load`: members of an archive and parts of a mapped file are read from what it returns."""
    read = _file(0, "file")(sources, call)
    if type(call.result).__name__ == "NpzFile":
        sources.opened(call.result, read)
        return None
    return None if isinstance(call.result, np.memmap) else read


def _plain_values(sources: OpenSources, call: Call) -> Read | None:
    """`np.fromfile`: numbers from a position on."""
    read = _file(0, "file")(sources, call)
    offset, count = call.given(4, "offset") or 0, call.given(2, "count")
    whole = not offset and count in (None, -1)
    at = call.given(0, "file")
    if read is None or whole or hasattr(at, "read"):  # of an open file, the position is not known
        return None if read is None else Read(read.source)
    return Read(read.source, (int(offset) // call.result.dtype.itemsize,))


def _page(sources: OpenSources, call: Call) -> Read | None:
    """Pages of a TIFF file."""
    read = _file(0, "files")(sources, call)
    key = call.given(1, "selection", "key") if call.own is None else None
    return read if read is None or key is None else Read(read.source, rows_of(key, 1 << 20))


def _own_page(sources: OpenSources, call: Call) -> Read | None:
    path = path_of(getattr(call.own.parent.filehandle, "path", None))
    return None if path is None else Read(path, (int(call.own.index),))


# Archives


def _member(sources: OpenSources, call: Call) -> Read | None:
    """A member of an archive, which knows its own file."""
    archive, member = call.own, call.given(0, "name", "member", "key")
    if (call.given(1, "mode") or "r") != "r" and hasattr(archive, "namelist"):
        return None
    file = next((getattr(archive, name) for name in ("filename", "name") if getattr(archive, name, None)), None)
    path = path_of(file) or path_of(getattr(getattr(archive, "zip", None), "filename", None))
    opened = Read(path) if path else sources.read_of_object(archive)
    name = (
        member
        if isinstance(member, str)
        else next((getattr(member, name) for name in ("filename", "name") if getattr(member, name, None)), None)
    )
    return None if opened is None or name is None else Read(f"{opened.source}::{name}")


# Arrays in files


def _hdf5(sources: OpenSources, call: Call) -> Read | None:
    del sources
    array, path = call.own, path_of(call.own.file.filename)
    axis, rows, inner = rows_along(call.given(0, "args"), array.shape) if array.shape else (0, (), ())
    part = "" if all(isinstance(one, slice) and one == slice(None) for one in inner) else repr(inner)
    return None if path is None else Read(f"{path}::{array.name}", rows, part=part, axis=axis)


def _hdf5_filled(sources: OpenSources, call: Call) -> Read | None:
    del sources
    array, selection = call.own, call.given(1, "source_sel")
    path = path_of(array.file.filename)
    axis, rows, _ = rows_along(selection, array.shape)
    return None if path is None else Read(f"{path}::{array.name}", rows, axis=axis)


def _zarr(sources: OpenSources, call: Call) -> Read | None:
    array, selection = call.own, call.given(0, "selection")
    array = getattr(array, "array", array)  # of `oindex` and `vindex`
    store = getattr(array, "store", None)
    folder = path_of(next((found for name in ("root", "path", "dir") if (found := getattr(store, name, None))), None))
    known = Read(folder) if folder else sources.read_of_object(array)
    if known is None:
        return None
    name = f"::{array.path}" if folder and array.path else ""
    axis, rows, _ = rows_along(selection, array.shape) if array.shape else (0, (), ())
    return Read(f"{known.source}{name}", rows, axis=axis)


def _mapped(sources: OpenSources, call: Call) -> Read | None:
    """A mapped array. A view of one is left out: what was read from the file are the rows of the view."""
    del sources
    array, path = call.own, path_of(call.own.filename)
    if path is None or isinstance(array.base, np.ndarray) or not array.ndim:
        return None
    axis, rows, _ = rows_along(call.given(0, "index"), array.shape)
    return Read(path, rows, axis=axis)


# Databases


def _transaction(sources: OpenSources, call: Call) -> Read | None:
    """What a database, or something that was opened from one, opens."""
    path = path_of(call.own.path()) if hasattr(call.own, "path") else None
    return Read(path) if path else sources.read_of_object(call.own)


def _keyed(sources: OpenSources, call: Call) -> Read | None:
    """The value of a key in lmdb."""
    read, key = sources.read_of_object(call.own), call.given(0, "key")
    return None if read is None or key is None or call.result is None else Read(read.source, (key_text(key),))


def _at_cursor(sources: OpenSources, call: Call) -> Read | None:
    """The value where a cursor stands."""
    read = sources.read_of_object(call.own)
    return None if read is None else Read(read.source, (key_text(call.own.key()),))


def _query(sources: OpenSources, call: Call) -> Read | None:
    """A query of SQL and its parameters. `PRAGMA database_list` of SQLite and DuckDB says which file it is."""
    text, parameters = call.given(0, "sql", "query"), call.given(1, "parameters")
    if not isinstance(text, str) or text.split(None, 1)[0].upper() not in ("SELECT", "WITH"):
        return None
    connection = getattr(call.own, "connection", call.own)
    file = connection.cursor().execute("PRAGMA database_list").fetchall()[0][-1]
    path = path_of(file) if file else None
    known = Read(path) if path else sources.read_of_object(connection)
    if known is None:
        return None
    keys = parameters.values() if isinstance(parameters, Mapping) else parameters or ()
    read = Read(f"{known.source}::{' '.join(text.split())}", tuple(map(key_text, keys)))
    sources.opened(call.result, read)
    return read


def _fetched(sources: OpenSources, call: Call) -> Read | None:
    return sources.read_of_object(call.own)


# Tables in memory, which have no file: their source is their name in the dataset


def _located(sources: OpenSources, call: Call) -> Read | None:
    """`.iloc` and `.loc` of pandas."""
    table, key = call.own.obj, call.given(0, "key")
    read = sources.read_of_object(table)
    if read is None:
        return None
    if call.own.name == "iloc":
        return Read(read.source, rows_of(key, len(table)))
    label = key[0] if isinstance(key, tuple) and table.index.nlevels == 1 else key
    if isinstance(label, slice):
        return Read(read.source, rows_of(table.index.slice_indexer(label.start, label.stop, label.step), len(table)))
    many = isinstance(label, list | np.ndarray) or type(label).__name__ in ("Index", "Series")
    if many and np.asarray(label).dtype == bool:
        return Read(read.source, rows_of(np.asarray(label), len(table)))
    return Read(
        read.source, rows_of(table.index.get_indexer_for(label) if many else table.index.get_loc(label), len(table))
    )


def _table(sources: OpenSources, call: Call) -> Read | None:
    """Rows of a table of polars or pyarrow by number; a column of one has the source of the table."""
    read, key = sources.read_of_object(call.own), call.given(0, "key", "item", "index", "indices", "i")
    if read is None or read.rows or key is None:
        return None
    if isinstance(key, str) or (isinstance(key, list) and key and isinstance(key[0], str)):
        sources.opened(call.result, read)
        return None
    if type(call.own).__name__ == "Table" and isinstance(key, int) and type(call.result).__name__ == "ChunkedArray":
        sources.opened(call.result, read)
        return None
    key = key.to_numpy() if hasattr(key, "to_numpy") else key
    return Read(read.source, rows_of(key, len(call.own)))


def _sliced(sources: OpenSources, call: Call) -> Read | None:
    read = sources.read_of_object(call.own)
    offset, length = call.given(0, "offset") or 0, call.given(1, "length")
    if read is None or read.rows:
        return None
    count = len(call.own)
    first = offset + count if offset < 0 else offset
    return Read(read.source, rows_of(slice(first, None if length is None else first + length), count))


def _dataset_rows(sources: OpenSources, call: Call) -> Read | None:
    """Rows of a `datasets.Dataset`: those of its table, also after a selection or shuffling, which renumbers them."""
    dataset, key = call.own, call.given(0, "key", "keys")
    if isinstance(key, str):
        return None
    tables = [table for block in getattr(dataset._data, "blocks", [[dataset._data]]) for table in block]
    file = path_of(getattr(tables[0], "path", None)) if len(tables) == 1 else None
    # A selection shares its table with others, such as the other part of a split, wherever it is held.
    shared = dataset._indices is not None and not file
    read = Read(file) if file else Read(_table_in_memory(dataset)) if shared else sources.read_of_object(dataset)
    if read is None:
        return None
    numbers = key if isinstance(key, int) else list(key) if isinstance(key, Iterable) else key
    rows = rows_of(numbers, len(dataset))
    if dataset._indices is not None:
        rows = tuple(dataset._indices.column(0)[row].as_py() for row in rows)
    return Read(read.source, rows)


def _table_in_memory(dataset: Any) -> str:
    """A name for the table of a `datasets.Dataset`, which is the same for all that choose rows from it."""
    buffers = dataset._data.column(0).chunk(0).buffers()
    return f"table at {next(buffer.address for buffer in reversed(buffers) if buffer is not None):x}"


# Videos and sound


def _opened(sources: OpenSources, call: Call) -> Read | None:
    """A constructor, or `open`, that takes a file."""
    known = sources.read_of_file(call.given(0, "uri", "filename", "source", "file", "f"))
    return None if known is None else known.read


def _frame_at(step: int) -> ReadBy:
    """The frame that `cv2.VideoCapture` reads next (0), or has grabbed (-1)."""

    def read(sources: OpenSources, call: Call) -> Read | None:
        video = sources.read_of_object(call.own)
        return None if video is None else Read(video.source, (int(call.own.get(1)) + step,))  # CAP_PROP_POS_FRAMES

    return read


def _frames(*names: str) -> ReadBy:
    """Frames by number, of decord and torchcodec."""

    def read(sources: OpenSources, call: Call) -> Read | None:
        video, key = sources.read_of_object(call.own), call.given(0, *names)
        if video is None or key is None:
            return None
        key = key if isinstance(key, int | slice) else [int(one) for one in key]
        return Read(video.source, rows_of(key, len(call.own)))

    return read


def _frame_range(sources: OpenSources, call: Call) -> Read | None:
    video = sources.read_of_object(call.own)
    start, stop, step = call.given(0, "start"), call.given(1, "stop"), call.given(2, "step") or 1
    return None if video is None else Read(video.source, rows_of(slice(start, stop, step), len(call.own)))


def _played(sources: OpenSources, call: Call) -> Read | None:
    """Frames or samples of sound by time, as text of seconds."""
    video, start = sources.read_of_object(call.own), call.given(0, "seconds", "start_seconds")
    starts = () if start is None else np.atleast_1d(np.asarray(start, float)).tolist()
    return None if video is None else Read(video.source, tuple(f"{one:.6f} s" for one in starts))


def _next_frame(sources: OpenSources, call: Call) -> Read | None:
    """The next frame that decord decodes: its reader does not say which that is."""
    return sources.read_of_object(call.own)


def _pieces(sources: OpenSources, call: Call) -> Read | None:
    """The file of a container of PyAV; each piece of it adds its time stamp, see `piece_of`."""
    container = getattr(getattr(call.own, "stream", None), "container", call.own)
    path = path_of(container)
    return Read(path) if path else sources.read_of_object(container)


def piece_of(read: Read, piece: Any) -> Read:
    """The read of a frame that a container of PyAV has decoded."""
    stamp = getattr(piece, "pts", None)
    return Read(read.source, () if stamp is None else (int(stamp),))


def _own_content(sources: OpenSources, call: Call) -> Read | None:
    """A method of something that was returned before, such as a frame."""
    known = sources.read_of_file(call.own)
    return None if known is None else known.read


def _sound(sources: OpenSources, call: Call) -> Read | None:
    """`soundfile.read`: all frames, or those from a position on."""
    read = _file(0, "file")(sources, call)
    frames, start, stop = call.given(1, "frames"), call.given(2, "start") or 0, call.given(3, "stop")
    if read is None or (not start and stop is None and frames in (None, -1)):
        return read
    return Read(read.source, (int(start),)) if start >= 0 else Read(read.source)


def _sound_at(sources: OpenSources, call: Call) -> Read | None:
    """The position of an open sound file."""
    read = sources.read_of_object(call.own)
    path = path_of(call.own) if hasattr(call.own, "name") else path_of(getattr(call.own, "_i_opened_the_file", None))
    source = path or (None if read is None else read.source)
    return None if source is None else Read(source, (int(call.own.tell()),))


def _torchaudio(sources: OpenSources, call: Call) -> Read | None:
    read = _file(0, "uri", "filepath")(sources, call)
    offset, count = call.given(1, "frame_offset") or 0, call.given(2, "num_frames")
    return read if read is None or (not offset and count in (None, -1)) else Read(read.source, (int(offset),))


def _images() -> tuple[KnownFunction, ...]:
    kinds = (Gives.PILLOW, Gives.PIXELS)
    return tuple(
        KnownFunction(decoder.module, decoder.owner, decoder.name, _file(0, decoder.file))
        for decoder in DECODERS
        if decoder.gives in kinds and (decoder.module, decoder.name) != ("tifffile", "imread")
    )


def _methods(
    module: str, owner: str, names: str, read: ReadBy, returns: Returns = Returns.VALUES
) -> tuple[KnownFunction, ...]:
    return tuple(KnownFunction(module, owner, name, read, returns) for name in names.split())


def _of_class(module: str, owner: str, names: str, read: ReadBy, rowwise: bool = True) -> tuple[KnownFunction, ...]:
    return tuple(replace(reader, rowwise=rowwise) for reader in _methods(module, owner, names, read))


_SELECTIONS = "__getitem__ get_basic_selection get_orthogonal_selection get_coordinate_selection"
_TABLES = {
    "pandas": "read_csv read_table read_excel read_json read_pickle read_parquet read_feather read_orc",
    "polars": "read_csv read_parquet read_ipc read_ndjson",
    "pyarrow.parquet": "read_table",
    "pyarrow.feather": "read_table",
    "pyarrow.csv": "read_csv",
    "pyarrow.json": "read_json",
}
"""Functions that read whole tables."""
_FRAMES = "__getitem__ get_frame_at get_frames_at"
READERS: tuple[KnownFunction, ...] = (
    *_images(),
    KnownFunction("torchvision.io", "", "read_file", _file(0, "path"), Returns.CONTENT),
    KnownFunction("tifffile", "", "imread", _page),
    KnownFunction("tifffile", "TiffPage", "asarray", _own_page),
    KnownFunction("numpy", "", "load", _numpy_file, rowwise=True),
    KnownFunction("numpy", "", "loadtxt", _file(0, "fname"), rowwise=True),
    KnownFunction("numpy", "", "genfromtxt", _file(0, "fname"), rowwise=True),
    KnownFunction("numpy", "", "fromfile", _plain_values),
    KnownFunction("numpy", "", "frombuffer", _file(0, "buffer")),
    KnownFunction("torch", "", "frombuffer", _file(0, "buffer")),
    KnownFunction("torch", "", "load", _file(0, "f"), rowwise=True),
    KnownFunction("safetensors.torch", "", "load_file", _file(0, "filename")),
    KnownFunction("_pickle", "", "loads", _file(0)),
    KnownFunction("_pickle", "", "load", _file(0, "file")),
    KnownFunction("numpy.lib.npyio", "NpzFile", "__getitem__", _member, rowwise=True),
    KnownFunction("zipfile", "ZipFile", "open", _member, Returns.CONTENT),
    KnownFunction("zipfile", "ZipFile", "read", _member, Returns.CONTENT),
    KnownFunction("tarfile", "TarFile", "extractfile", _member, Returns.CONTENT),
    KnownFunction("h5py._hl.dataset", "Dataset", "__getitem__", _hdf5, rowwise=True),
    KnownFunction("h5py._hl.dataset", "Dataset", "read_direct", _hdf5_filled, rowwise=True, filled=0),
    *_of_class("zarr.core.array", "Array", _SELECTIONS, _zarr),
    *_of_class("zarr.core.indexing", "OIndex", "__getitem__", _zarr),
    *_of_class("zarr.core.indexing", "VIndex", "__getitem__", _zarr),
    *_of_class("zarr.core", "Array", _SELECTIONS, _zarr),  # zarr 2
    KnownFunction("numpy", "memmap", "__getitem__", _mapped, rowwise=True),
    *_methods("lmdb", "Environment", "begin", _transaction, Returns.SOURCE),
    *_methods("lmdb", "Transaction", "cursor", _transaction, Returns.SOURCE),
    *_methods("lmdb", "Transaction", "get", _keyed, Returns.CONTENT),
    *_methods("lmdb", "Cursor", "get", _keyed, Returns.CONTENT),
    *_methods("lmdb", "Cursor", "item value", _at_cursor, Returns.CONTENT),
    *_methods("sqlite3", "Connection", "execute", _query, Returns.RECORD),
    *_methods("sqlite3", "Cursor", "execute", _query, Returns.RECORD),
    *_methods("sqlite3", "Cursor", "fetchone fetchall fetchmany __next__", _fetched, Returns.CONTENT),
    *_methods("_duckdb", "DuckDBPyConnection", "execute", _query, Returns.RECORD),
    *(
        KnownFunction(
            module,
            "",
            name,
            _file(0, "path", "source", "where", "filepath_or_buffer", "io", "path_or_buf"),
            Returns.TABLE,
        )
        for module, names in _TABLES.items()
        for name in names.split()
    ),
    KnownFunction("pandas.core.indexing", "_LocationIndexer", "__getitem__", _located, Returns.RECORD),
    *_methods("polars", "DataFrame", "__getitem__ row", _table, Returns.RECORD),
    *_methods("polars", "Series", "__getitem__", _table, Returns.RECORD),
    *_methods("polars", "DataFrame", "slice", _sliced, Returns.RECORD),
    *_methods("pyarrow.lib", "_Tabular", "__getitem__ column take", _table, Returns.RECORD),
    *_methods("pyarrow.lib", "Table", "slice", _sliced, Returns.RECORD),
    *_methods("pyarrow.lib", "ChunkedArray", "__getitem__ take", _table, Returns.RECORD),
    *_methods("pyarrow.lib", "ChunkedArray", "slice", _sliced, Returns.RECORD),
    *_of_class("datasets.arrow_dataset", "Dataset", "__getitem__ __getitems__", _dataset_rows),
    *_methods("cv2", "VideoCapture", "__init__ open", _opened, Returns.SOURCE),
    KnownFunction("cv2", "VideoCapture", "read", _frame_at(0), prior=True),
    KnownFunction("cv2", "VideoCapture", "retrieve", _frame_at(-1), prior=True),
    *_methods("decord.video_reader", "VideoReader", "__init__", _opened, Returns.SOURCE),
    *_of_class("decord.video_reader", "VideoReader", "__getitem__ get_batch", _frames("idx", "indices")),
    *_of_class("decord.video_reader", "VideoReader", "next", _next_frame),
    *_of_class("decord._ffi.ndarray", "NDArrayBase", "asnumpy", _own_content),
    KnownFunction("av.container.input", "InputContainer", "decode", _pieces, Returns.PIECES),
    KnownFunction("av.packet", "Packet", "decode", _pieces, Returns.PIECES),
    *_methods("av.video.frame", "VideoFrame", "reformat to_rgb", _own_content, Returns.CONTENT),
    *_methods("av.video.frame", "VideoFrame", "to_ndarray to_image", _own_content),
    *_methods("av.audio.frame", "AudioFrame", "to_ndarray", _own_content),
    *_methods("torchcodec.decoders", "VideoDecoder", "__init__", _opened, Returns.SOURCE),
    *_methods("torchcodec.decoders", "AudioDecoder", "__init__", _opened, Returns.SOURCE),
    *_of_class(
        "torchcodec.decoders",
        "VideoDecoder",
        "__getitem__ get_frame_at get_frames_at",
        _frames("key", "index", "indices"),
    ),
    *_of_class("torchcodec.decoders", "VideoDecoder", "get_frames_in_range", _frame_range),
    *_methods("torchcodec.decoders", "VideoDecoder", "get_frame_played_at get_frames_played_in_range", _played),
    *_of_class("torchcodec.decoders", "VideoDecoder", "get_frames_played_at", _played),
    *_methods("torchcodec.decoders", "AudioDecoder", "get_all_samples get_samples_played_in_range", _played),
    *_methods("torchcodec.decoders", "VideoDecoder", "get_all_frames", _played),
    KnownFunction("soundfile", "", "read", _sound),
    KnownFunction("soundfile", "SoundFile", "__init__", _opened, Returns.SOURCE),
    KnownFunction("soundfile", "SoundFile", "read", _sound_at, prior=True),
    KnownFunction("torchaudio", "", "load", _torchaudio),
    KnownFunction("scipy.io.wavfile", "", "read", _file(0, "filename")),
    KnownFunction("wave", "Wave_read", "__init__", _opened, Returns.SOURCE),
    KnownFunction("wave", "Wave_read", "readframes", _sound_at, Returns.CONTENT, prior=True),
)


def function_of(reader: KnownFunction) -> tuple[Any, Any]:
    """The owner of a known function and the function itself, of a module that is imported; else None."""
    owner: Any = sys.modules.get(reader.module)
    owner = getattr(owner, reader.owner, None) if reader.owner else owner
    if not reader.owner:
        return owner, getattr(owner, reader.name, None)
    function = vars(owner).get(reader.name) if isinstance(owner, type) else None
    return owner, getattr(function, "__func__", function)
