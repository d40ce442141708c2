"""What arrives at a spawned worker: its content is not copied, unless it shares memory with another part."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from dataguard.lab.reading.open_files import overlapping
from dataguard.lab.reading.spawn_transfer import PickleLimitExceeded, as_if_spawning, send


def received(value: object) -> Any:
    with as_if_spawning():
        return send(value).received()


def test_tensors_and_arrays_are_passed_through() -> None:
    sent = [torch.ones(3), np.ones(3), torch.nn.Parameter(torch.ones(2)), torch.ones(1).expand(10**12)]
    assert all(one is two for one, two in zip(sent, received(sent), strict=True))


def test_an_array_beside_its_tensor_is_a_copy() -> None:
    array = np.arange(4)
    got, tensor = received([array, torch.from_numpy(array)])
    tensor[0] = 7
    assert got.tolist() == [0, 1, 2, 3]


def test_a_view_that_is_pickled_after_the_tensor_that_owns_its_memory_is_garbage() -> None:
    tensor = torch.arange(4)
    first, _ = received([tensor.numpy(), tensor])
    _, last = received([tensor, tensor.numpy()])
    assert first.tolist() == [0, 1, 2, 3]
    assert last.tolist() != [0, 1, 2, 3]
    assert tensor.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("dtype", [bool, "float32", "datetime64[s]", "complex64"])
def test_garbage_of_any_dtype_differs(dtype: str) -> None:
    bytes_ = torch.zeros(64, dtype=torch.uint8)
    _, got = received([bytes_, bytes_.numpy().view(dtype)])
    assert got.dtype == np.dtype(dtype)
    assert bytes(got.tobytes()) != bytes(64)


def test_tensors_keep_the_memory_that_they_share() -> None:
    tensor = torch.arange(4)
    whole, part = received([tensor, tensor[1:]])
    whole[1] = 7
    assert part[0] == 7


def test_what_overlaps() -> None:
    array = np.arange(10)
    leaves = [array[:3], array[3:6], np.arange(3), array[5:], torch.from_numpy(array)[9:], array[::2]]
    assert overlapping(leaves) == [0, 1, 3, 4, 5]
    assert overlapping(leaves[:3]) == []


def test_an_object_that_takes_too_long_is_given_up() -> None:
    with pytest.raises(PickleLimitExceeded):
        send([str(number) for number in range(1_000_000)], deadline=0.0)
