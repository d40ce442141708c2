"""The leaves of samples and batches of any structure: path, type, shape and digest of each, and their memory.

`iter_leaves` enters containers, and `describe` makes a leaf into a record. A sample may have thousands of leaves and an
array may take a large part of the memory, so plain values take a short way, and large arrays are read in pieces.
"""

from __future__ import annotations

import dataclasses
import math
import numbers
import sys
import types
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Set
from datetime import date, time, timedelta
from enum import Enum
from functools import lru_cache
from itertools import islice
from pathlib import PurePath
from typing import Any
from uuid import UUID

import numpy as np
import torch
from xxhash import xxh3_64, xxh3_64_digest

from dataguard.lab.core.object_graph import is_handle
from dataguard.lab.core.records import FEWEST_VALUES, LeafRecord

MAX_DEPTH = 12
"""Deeper containers are leaves: one may contain itself."""
MAX_LEAVES = 4096
"""Most leaves of a sample or batch that are recorded: a record has to stay small beside what it describes."""
CHANNELS = (3, 4)
"""How many channels an image with colours has: RGB, or with alpha."""
_FLAGS = {-1, 0, 1}
"""Planes with several of these values are not colours but, for example, an empty game board."""
_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.ModuleType)
"""Objects with attributes that are no content of a sample."""
_VALUES = (PurePath, date, time, timedelta, Enum, UUID, range, slice, torch.dtype, torch.device)
"""Types whose objects are identified by their repr."""
_SUMMABLE = (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128)
"""The dtypes that torch can sum on a CPU."""
_IN_NUMPY = {*_SUMMABLE, torch.int64, torch.int32, torch.uint8, torch.bool} - {torch.bfloat16}
"""The usual dtypes of tensors that numpy has as well."""
_ARRAYS = (torch.Tensor, np.ndarray)
"""What holds numbers in memory."""
_LEAVES = {type(None), bool, int, float, str, bytes, torch.Tensor}
"""Types that are never entered."""
VALUES_AT_ONCE = 1 << 20
"""Most values that are converted or tested at once: a sample may take a large part of the memory."""
_MOST_ELEMENTS = 1 << 33
"""An array of more elements is a view of fewer: no memory holds it."""
LONGEST_SHOWN = 60
"""The longest string that is shown in a report: what fits beside the words of a line."""
MOST_FIELDS = 16
"""A list of more plain scalars than this is one leaf (token ids, not a tuple of fields)."""


def leaves_of(value: Any, *, digests: bool = True) -> tuple[LeafRecord, ...]:
    """Every leaf of a sample or batch, in order of appearance; containers are entered, tensors and the like are not.

    Without `digests`, those of large leaves are empty, which takes a fraction of the time.
    """
    return tuple(describe(path, leaf, digests=digests) for path, leaf in islice(iter_leaves(value), MAX_LEAVES))


def iter_leaves(
    value: Any, path: str = "", depth: int = 0, above: tuple[int, ...] = (), atomic: tuple[type, ...] = ()
) -> Iterator[tuple[str, Any]]:
    """Yield `(path, leaf)` pairs. Paths read like Python: `['image']`, `[1].boxes`, `` for a lone leaf.

    Objects of the types in `atomic` are not entered.
    """
    # Its `__class__` may lie: then it is no array at all.
    if isinstance(value, _ARRAYS) and not issubclass(type(value), _ARRAYS):
        value = type(value)
    closed = depth >= MAX_DEPTH or id(value) in above or isinstance(value, atomic)
    children = None if closed else _children(value)
    if children is None:
        yield path, value
        return
    below = (*above, id(value))
    for step, child in children:
        if type(child) in _LEAVES:  # most are: thousands of them take a third of the time
            yield path + step, child
        else:
            yield from iter_leaves(child, path + step, depth + 1, below, atomic)


def path_to_itself(value: Any, path: str = "", above: tuple[int, ...] = ()) -> str | None:
    """Where a sample contains a container that it is inside of, which no recursive function gets to the end of."""
    if id(value) in above:
        return path
    children = _children(value) if len(above) < MAX_DEPTH else None
    below = (*above, id(value))
    inner = (path_to_itself(child, path + step, below) for step, child in children or ())
    return next((inner_path for inner_path in inner if inner_path is not None), None)


def _children(value: Any) -> list[tuple[str, Any]] | None:
    """The parts of a container, each with its path step, or None for a leaf."""
    if isinstance(value, np.void) and value.dtype.names:
        return [(f"[{name!r}]", value[name]) for name in value.dtype.names]
    if value is None or isinstance(value, str | bytes | bytearray | numbers.Number | torch.Tensor | np.generic | type):
        return None
    if isinstance(value, np.ndarray):
        return _array_children(value)
    if isinstance(value, Mapping):
        return [(f"[{_shown_key(key, place)}]", item) for place, (key, item) in enumerate(value.items())]
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return [(f".{name}", item) for name, item in zip(value._fields, value, strict=False)]
    if isinstance(value, list | tuple | deque):
        return None if _is_long_scalars(value) else [(f"[{i}]", item) for i, item in enumerate(value)]
    if isinstance(value, (Set, *_VALUES)):
        return None
    if dataclasses.is_dataclass(value):
        return [(f".{item.name}", getattr(value, item.name, None)) for item in dataclasses.fields(value)]
    if is_pillow(value) or is_handle(value) or isinstance(value, _FUNCTIONS):
        return None
    state = _state(value)
    return [(f".{name}", item) for name, item in state.items()] if state else None


def _shown_key(key: Any, place: int) -> str:
    """The key; an object whose repr is its address, another one in each process, by its type and its place."""
    own: Any = type(key).__repr__
    return f"<{type(key).__name__} {place}>" if own is object.__repr__ else repr(key)


def _array_children(value: np.ndarray) -> list[tuple[str, Any]] | None:
    """The fields of a structured array and the items of an array of objects; None for plain numbers."""
    if value.dtype.names:
        return [(f"[{name!r}]", value[name]) for name in value.dtype.names]
    return [(f"[{i}]", item) for i, item in enumerate(value.flat)] if value.dtype == object else None


def _is_long_scalars(value: list[Any] | tuple[Any, ...] | deque[Any]) -> bool:
    return len(value) > MOST_FIELDS and all(isinstance(item, str | bytes | numbers.Number) for item in value)


def is_pillow(value: Any) -> bool:
    """Whether this is a Pillow image."""
    pillow = sys.modules.get("PIL.Image")  # imported only if the user's code did
    return pillow is not None and isinstance(value, pillow.Image)


def array_of(value: Any) -> np.ndarray:
    """The values of an image, array or tensor, without its container."""
    if isinstance(value, torch.Tensor):
        plain = value.detach().cpu().as_subclass(torch.Tensor)
        return np.asarray((plain.float() if plain.dtype == torch.bfloat16 else plain).numpy())
    return np.asarray(value)


def numbers_of(value: Any) -> Any:
    """The columns of numbers of a table of pandas; anything else as it is."""
    return value.select_dtypes("number") if hasattr(type(value), "select_dtypes") else value


def _state(value: Any) -> dict[str, Any]:
    """The attributes of an object of an unknown class (attrs classes, PyG data, BatchEncoding)."""
    state = dict(getattr(value, "__dict__", {}))
    for cls in type(value).__mro__:
        slots = cls.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if hasattr(value, name) and name not in ("__dict__", "__weakref__"):
                state[name] = getattr(value, name)
    return state


def describe(path: str, value: Any, *, digests: bool = True) -> LeafRecord:
    """One leaf with its path, type, shape and digest."""
    try:
        if isinstance(value, _ARRAYS) and _elements(value) > _MOST_ELEMENTS:
            return LeafRecord(path, type(value).__name__, str(value.dtype), tuple(value.shape), b"")
        return _describe(path, value, digests)
    except Exception:  # noqa: BLE001 - a tensor type that cannot be read is our limitation, not a fault of the loader
        return LeafRecord(path, type(value).__name__, None, None, b"")


def _elements(array: Any) -> int:
    return int(array.numel() if isinstance(array, torch.Tensor) else array.size)


def _describe(path: str, value: Any, digests: bool) -> LeafRecord:
    kind = type(value).__name__
    if isinstance(value, torch.Tensor):
        return _tensor_leaf(path, kind, value, digests)
    if isinstance(value, np.ndarray | np.generic):
        array = np.asarray(value)
        dtype = _name(array.dtype)
        nan, inf, mask = _non_finite_array(array, path) if array.dtype.kind in "fc" else (0, 0, False)
        if not digests:
            return LeafRecord(path, kind, dtype, array.shape, b"", nan, inf, mask)
        content = np.ascontiguousarray(array).data if array.dtype.kind not in "MmOV" else array.tobytes()
        digest = _digest(dtype, array.shape, content)
        return LeafRecord(path, kind, dtype, array.shape, digest, nan, inf, mask, constant=_is_constant(array))
    if is_pillow(value):
        nan, inf, mask = _non_finite(torch.from_numpy(np.array(value)), path) if value.mode == "F" else (0, 0, False)
        content, pixels = value.tobytes(), math.prod(value.size)
        same = value.mode != "1" and content == content[: len(content) // max(pixels, 1)] * pixels
        constant = pixels >= FEWEST_VALUES and same
        digest = _digest(value.mode, value.size, content) if digests else b""
        return LeafRecord(path, "PIL.Image", value.mode, value.size, digest, nan, inf, mask, constant=constant)
    if isinstance(value, float | complex) and not isinstance(value, bool):
        nan, inf = (math.isnan(value), math.isinf(value)) if isinstance(value, float) else (False, False)
        return LeafRecord(path, kind, None, None, _digest(kind, (), repr(value).encode()), int(nan), int(inf))
    if isinstance(value, list | tuple | deque):
        nan = sum(isinstance(item, float) and math.isnan(item) for item in value)
        inf = sum(isinstance(item, float) and math.isinf(item) for item in value)
        return LeafRecord(path, kind, None, (len(value),), _digest(kind, (), repr(value).encode()), nan, inf)
    if isinstance(value, Set):
        return LeafRecord(path, kind, None, (len(value),), _digest(kind, (), repr(sorted(map(repr, value))).encode()))
    plain = value is None or isinstance(value, (str, bytes, bytearray, numbers.Number, *_VALUES))
    # The repr of an opaque object may contain its address, which would look random: only its type counts.
    short = (
        len(value) <= LONGEST_SHOWN if isinstance(value, str) else isinstance(value, int) and value.bit_length() <= 64
    )
    shown = repr(value) if short else None
    return LeafRecord(path, kind, None, None, _digest(kind, (), repr(value).encode() if plain else b""), shown=shown)


_name = lru_cache(str)
"""The name of a numpy dtype, which takes numpy longer than all else that is done with a small array."""


def _tensor_leaf(path: str, kind: str, tensor: torch.Tensor, digests: bool) -> LeafRecord:
    dtype = str(tensor.dtype).removeprefix("torch.")
    device = None if tensor.device.type == "cpu" else str(tensor.device)
    if tensor.device.type == "meta":  # it has no content
        return LeafRecord(
            path, kind, dtype, tuple(tensor.shape), _digest(dtype, tuple(tensor.shape), b""), device=device
        )
    dense = tensor.detach()
    if dense.is_nested:
        shape: tuple[int, ...] = (dense.size(0),)
        dense = torch.cat([part.reshape(-1) for part in dense.unbind()])
    else:
        shape = tuple(dense.shape)
    if dense.layout is not torch.strided:
        dense = dense.to_dense()
    dense = dense.cpu().as_subclass(torch.Tensor)
    if dense.is_quantized:
        dense = dense.int_repr()
    dense = dense.resolve_conj().resolve_neg().contiguous()
    nan, inf, mask = _non_finite(dense, path) if dense.is_floating_point() or dense.is_complex() else (0, 0, False)
    if not digests:
        return LeafRecord(path, kind, dtype, shape, b"", nan, inf, mask, device=device)
    content = dense if dense.dtype in _IN_NUMPY or not dense.numel() else dense.reshape(-1).view(torch.uint8)
    digest, constant = _digest(dtype, shape, content.numpy() if content.numel() else b""), _is_constant(dense)
    return LeafRecord(path, kind, dtype, shape, digest, nan, inf, mask, device=device, constant=constant)


def _is_constant(array: Any) -> bool:
    """Whether a tensor or array of some size holds a single value, or an image a single colour.

    A few values suffice to rule out most arrays: an array of one colour has no more values than channels.
    """
    if math.prod(array.shape) < FEWEST_VALUES:
        return False
    flat = array.reshape(-1)
    try:
        few = set(flat[:: len(flat) // FEWEST_VALUES].tolist())
        if len(few) > max(CHANNELS) or (len(few) > 1 and few <= _FLAGS):
            return False
        return any(all(map(_is_single, parts)) for parts in _channels(array))
    except (RuntimeError, TypeError):  # types that cannot be compared
        return False


def _is_single(part: Any) -> bool:
    """Whether all values are equal; those of a large part are not copied."""
    if math.prod(part.shape) > VALUES_AT_ONCE:
        return bool(part.min() == part.max())
    return bool((part == part.reshape(-1)[0]).all())


def _channels(array: Any) -> Iterator[list[Any]]:
    """An array as a whole, and by channel along each axis that may hold channels."""
    yield [array]
    axes = {array.ndim - 3, array.ndim - 1} if array.ndim in (3, 4) else set()
    for axis in sorted(axes):
        if array.shape[axis] in CHANNELS:
            yield [array[(slice(None),) * axis + (channel,)] for channel in range(array.shape[axis])]


def _non_finite_array(array: np.ndarray, path: str) -> tuple[int, int, bool]:
    with np.errstate(all="ignore"):
        if np.isfinite(array.sum()):
            return 0, 0, False
    flat = array.reshape(-1)
    pieces = (
        torch.from_numpy(flat[start : start + VALUES_AT_ONCE].copy()) for start in range(0, len(flat), VALUES_AT_ONCE)
    )
    return _counted_non_finite(pieces, path)


def _non_finite(tensor: torch.Tensor, path: str) -> tuple[int, int, bool]:
    # A finite sum proves that all values are finite; it may also overflow, and then the values are tested.
    if tensor.dtype in _SUMMABLE and math.isfinite(abs(tensor.sum().item())):
        return 0, 0, False
    return _counted_non_finite(tensor.reshape(-1).split(VALUES_AT_ONCE), path)


def _counted_non_finite(pieces: Iterable[torch.Tensor], path: str) -> tuple[int, int, bool]:
    """Count NaN and Inf, and recognize an additive attention mask, which is 0 and -inf by design."""
    nan = inf = minus = zeros = others = 0
    for part in pieces:
        # Few operations know 8-bit floats.
        piece = part if part.dtype in _SUMMABLE or part.is_complex() else part.float()
        finite = torch.isfinite(piece)
        nan += int(torch.isnan(piece).sum())
        inf += int(torch.isinf(piece).sum())
        minus += 0 if piece.is_complex() else int((piece[~finite] < 0).sum())
        nonzero = int(piece[finite].count_nonzero())
        others += nonzero
        zeros += int(finite.sum()) - nonzero
    only_zero = zeros > 0 and others == 0  # the logarithm of silence contains no 0
    return nan, inf, 0 < inf == minus and nan == 0 and (only_zero or "mask" in path.lower())


def _digest(dtype: str, shape: tuple[int, ...], content: Any) -> bytes:
    digest = xxh3_64(f"{dtype}{shape}".encode())
    digest.update(content)
    return digest.digest()


MOST_HELD = 1 << 27
"""Bytes of samples from which on an observation holds no more of them than it needs."""


def keep(sample: Any, kept: list[Any], fewest: int, most: int) -> None:
    """Add a sample to those `kept`, until there are `most` of them, or `fewest` if they are large."""
    if len(kept) < fewest or (len(kept) < most and bytes_of(kept) < MOST_HELD):
        kept.append(sample)


def bytes_of(value: Any) -> int:
    """The size of the arrays and tensors of a sample in bytes."""
    leaves = [leaf for _, leaf in iter_leaves(value)]
    tensors = sum(leaf.numel() * leaf.element_size() for leaf in leaves if isinstance(leaf, torch.Tensor))
    return tensors + sum(leaf.nbytes for leaf in leaves if isinstance(leaf, np.ndarray))


def shared_bytes(batch: Any) -> int:
    """Bytes of shared memory needed to send this batch to the main process.

    Each distinct CPU storage is sent in full, however small the view, and rounded up to a page of 4096 bytes; with the
    strategy "file_system", a reference count of 64 bytes precedes it. numpy arrays go through a pipe and need none
    (measured on torch 2.15).
    """
    header = 64 if torch.multiprocessing.get_sharing_strategy() == "file_system" else 0
    storages = {}
    for _, leaf in iter_leaves(batch):
        for part in _strided_parts(leaf):
            storage = part.untyped_storage()
            storages[storage.data_ptr()] = storage.nbytes()
    return sum(-(-(size + header) // 4096) * 4096 for size in storages.values() if size)


def _strided_parts(leaf: Any) -> list[torch.Tensor]:
    """The plain CPU tensors that hold a leaf's content."""
    if not isinstance(leaf, torch.Tensor) or leaf.device.type != "cpu":
        return []
    if leaf.layout is torch.sparse_coo:
        return [leaf._indices(), leaf._values()]
    if leaf.is_nested:
        return list(leaf.unbind())
    return [leaf] if leaf.layout is torch.strided else []


def rows_of(batch: Any) -> tuple[bytes, ...]:
    """The digests of the samples in a batch, as rows of all its arrays; none if these are of several lengths."""
    leaves = [leaf for _, leaf in iter_leaves(batch) if isinstance(leaf, torch.Tensor | np.ndarray) and leaf.ndim]
    lengths = {len(leaf) for leaf in leaves}
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    if len(lengths) != 1 or any(tensor.device.type != "cpu" or tensor.layout != torch.strided for tensor in tensors):
        return ()
    arrays = [np.ascontiguousarray(array_of(leaf)) for leaf in leaves]
    if any(array.dtype.hasobject for array in arrays):
        return ()
    return tuple(xxh3_64_digest(b"".join(array[row].tobytes() for array in arrays)) for row in range(*lengths))
