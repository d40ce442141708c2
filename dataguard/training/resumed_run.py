"""Whether a training that was stopped and started again continues where its checkpoint was saved (DG209).

`Progress` follows one loader over the epochs of a run, and writes a small file when a checkpoint is saved: the
position, the samples that the epoch has had, and digests of the batches around it. A later run that finds this file
compares what it receives with it.
"""

from __future__ import annotations

import base64
import json
import os
import zlib
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch.distributed as dist
from torch import Tensor
from torch.optim.optimizer import register_optimizer_step_post_hook
from xxhash import xxh3_64_hexdigest

from dataguard.core.model import Finding, without_empty
from dataguard.lab.core.leaves import array_of
from dataguard.machine.units import counted
from dataguard.training.batch_values import arrays_of

KEPT_BATCHES = 64
"""How many batches at the beginning of the epoch, before a checkpoint, and after it, have their digests in the file."""
VARIED_SHARE = 0.5
"""The share of batches that differ in a leaf from which on it identifies them."""
FEWEST_REPEATED = 3
"""Samples that a distributed sampler adds to an epoch come twice; more than two of them say that the order differs."""
MOST_INDICES = 1 << 24
"""Datasets with more samples are compared by batches alone: the file has one bit for each sample."""
INDICES = "indices"
"""What the digest of the indices of a batch is called, beside those of its leaves."""
VERSION = 1

Digests = dict[str, str]
"""The digests of one batch: of its indices if they are known, and of each leaf."""


@dataclass(slots=True)
class Checkpoint:
    """What the file holds: after how many batches of which epoch a checkpoint was saved, and what came around it.

    `planned` is the number of batches of an epoch, if the loader says so; `steps` is how many optimizer steps this
    epoch has had; `seen` are the indices of its samples, and `repeats` whether some of them came twice.
    """

    epoch: int
    batch: int
    planned: int | None
    steps: int
    first: list[Digests]
    last: list[Digests]
    seen: list[int] | None
    repeats: bool
    after: list[Digests] = field(default_factory=list)

    def write(self, path: Path) -> None:
        """Write the file in one step, so that a run that is stopped meanwhile leaves the one before."""
        content = {"version": VERSION, **asdict(self), "seen": None if self.seen is None else _packed(self.seen)}
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(f"{path.name}.{os.getpid()}.tmp")
        unfinished.write_text(json.dumps(content), encoding="utf-8")
        unfinished.replace(path)

    @classmethod
    def read(cls, path: Path) -> Checkpoint | None:
        """What an earlier run wrote; None without such a file, or if another version of dataguard wrote it."""
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        if content.pop("version") != VERSION:
            return None
        seen = content.pop("seen")
        return cls(**content, seen=None if seen is None else _unpacked(seen))


def _packed(seen: Sequence[int]) -> str:
    bits = np.zeros(max(seen, default=0) + 1, dtype=bool)
    bits[list(seen)] = True
    return base64.b64encode(zlib.compress(np.packbits(bits).tobytes())).decode()


def _unpacked(text: str) -> list[int]:
    bits = np.unpackbits(np.frombuffer(zlib.decompress(base64.b64decode(text)), dtype=np.uint8))
    return [int(index) for index in np.flatnonzero(bits)]


class _Steps:
    """Counts the steps of all optimizers of this process: a batch after which none follows is not trained on."""

    def __init__(self) -> None:
        self.taken = 0
        self._follows = False

    def follow(self) -> None:
        """Count from now on."""
        if not self._follows:
            register_optimizer_step_post_hook(self._step)
            self._follows = True

    def _step(self, *_: Any) -> None:
        self.taken += 1


STEPS = _Steps()


class _Fetched(NamedTuple):
    """A batch of one pass, `now`, by its digests and indices; `planned` is the length of the pass."""

    now: object
    digests: Digests
    indices: Sequence[Any] | None
    planned: int | None


class Progress:
    """Where one loader is in a run, and what an earlier run, if any, left about it at `path`."""

    def __init__(self, path: Path) -> None:
        STEPS.follow()
        rank = dist.get_rank() if dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1 else None
        self.path = path.with_name(f"{path.name}.json" if rank is None else f"{path.name}.rank{rank}.json")
        self.before = Checkpoint.read(self.path)
        """The checkpoint that this run is to continue from."""
        self.compared = 0
        """How many batches were compared with what an earlier run left."""
        self.checkpoints = 0
        self._saved: Checkpoint | None = None
        self._fetched: deque[_Fetched] = deque()
        """What a wrapper has fetched, and the loop has not received yet."""
        self._fetching: object = None
        self._is_aligned = self._is_read = False
        self._pass: object = None
        self._passes = 0
        self._delivered = self._repeated = 0
        self._starts_over = self._is_skipping = self._is_judged = False
        self._place: int | None = None
        """Which of the batches around the checkpoint came first, if a second one is to confirm it."""
        self._begin_epoch(self.before.epoch if self.before else 0)

    def _begin_epoch(self, epoch: int) -> None:
        self._epoch, self._batch, self._steps_before = epoch, 0, STEPS.taken
        self._first: list[Digests] = []
        self._last: list[Digests] = []
        self._seen: set[int] | None = set()
        self._repeats = False
        self._planned: int | None = None
        self._ended = False

    def _continue(self, before: Checkpoint) -> None:
        self._batch, self._steps_before = before.batch, STEPS.taken - before.steps
        self._first, self._last = list(before.first), list(before.last)
        self._seen = None if before.seen is None else set(before.seen)
        self._repeats = before.repeats

    def see(self, now: object, batch: Any, indices: Sequence[Any] | None, planned: int | None) -> Finding | None:
        """Follow a batch that the loop is about to receive; the finding, if it is not the one that was to come."""
        return self._receive(_Fetched(now, digests_of(batch, indices), indices, planned))

    def fetch(self, now: object, batch: Any, indices: Sequence[Any] | None, planned: int | None) -> None:
        """Keep a batch that a wrapper fetches, and that the loop may receive later, as with accelerate's loaders."""
        if now is not self._fetching:
            self._fetching = now
            self._fetched.clear()
            self._is_aligned = self._is_read = False
        self._fetched.append(_Fetched(now, digests_of(batch, indices), indices, planned))

    def hand(self, batch: Any) -> Finding | None:
        """Follow the batch that a wrapper gives to the loop: the next one that it fetched, after what it skips."""
        if not self._fetched:
            return None
        if not self._is_aligned:
            given = digests_of(batch, None)
            places = (
                number for number, one in enumerate(self._fetched) if given and given.items() <= one.digests.items()
            )
            for _ in range(next(places, 0)):
                self._fetched.popleft()
            self._is_aligned = True
        received = self._fetched.popleft()
        finding = self._receive(received)
        ended = self._is_read and not self._fetched
        return finding or (self._judge_end(received.now) if ended else None)

    def _receive(self, fetched: _Fetched) -> Finding | None:
        if fetched.now is not self._pass:
            self._begin_pass(fetched.now, fetched.digests, fetched.planned)
        finding = self._compared(fetched.digests, fetched.indices)
        self._follow(fetched.digests, fetched.indices)
        return finding

    def _begin_pass(self, now: object, digests: Digests, planned: int | None) -> None:
        self._passes += 1
        self._pass, self._delivered = now, 0
        before = self.before if self._passes == 1 else None
        if before is None:
            self._begin_epoch(self._epoch + (self._passes > 1))
        elif before.batch:
            self._starts_over = bool(before.first) and same(digests, before.first[0], before.first)
            if not self._starts_over:
                self._continue(before)
        self._planned = before.planned if before and before.batch and before.planned else planned

    def _compared(self, digests: Digests, indices: Sequence[Any] | None) -> Finding | None:
        before = self.before
        if before is None or self._passes > 1 or not before.batch or self._is_judged:
            return None
        self.compared += 1
        place = self._delivered
        if self._starts_over:
            return self._over(before, digests, place)
        if self._is_skipping:  # the loop has left out what came before the checkpoint
            return None
        fault = self._misplaced(before, digests, place)
        if fault:
            return self._finding(before, fault)
        if indices is not None and before.seen is not None and self._seen is not None and not before.repeats:
            self._repeated += len(self._seen.intersection(before.seen, _whole(indices)))
            if self._repeated >= FEWEST_REPEATED:
                words = "continues in another order: "
                again = f"{self._repeated} of the samples in {counted(place + 1, 'batches')} came before already"
                return self._finding(before, words + again)
        return None

    def _misplaced(self, before: Checkpoint, digests: Digests, place: int) -> str | None:
        """Where the first batches are among those around the checkpoint, if not right after it.

        Equal indices say so at once. A leaf such as a few labels may be equal by chance: a second batch confirms it.
        """
        around = [*before.last, *before.after]
        if place == 0:
            places = [number for number, other in enumerate(around) if same(digests, other, around)]
            self._place = places[0] if len(places) == 1 and places[0] != len(before.last) else None
            confirmed = self._place is not None and INDICES in digests and INDICES in around[self._place]
        else:
            following, self._place = self._place, None if place > 1 else self._place
            known = place == 1 and following is not None and following + 1 < len(around)
            confirmed = known and same(digests, around[(following or 0) + 1], around)
        if not confirmed or self._place is None:
            return None
        ahead = self._place - len(before.last)
        return f"skips {counted(ahead, 'batches')}" if ahead > 0 else f"repeats {counted(-ahead, 'batches')}"

    def _over(self, before: Checkpoint, digests: Digests, place: int) -> Finding | None:
        """Whether an epoch that is read from its beginning is trained on, and not only skipped up to the checkpoint."""
        known = place < min(before.batch, len(before.first))
        if known and not same(digests, before.first[place], before.first):
            self._starts_over = False
            if INDICES in digests and INDICES in before.first[place]:
                return self._finding(before, f"starts over, in another order after {counted(place, 'batches')}")
            self._continue(before)  # the first batch was equal by chance
            return None
        is_certain = (known and place > 0) or place > 1 or INDICES in digests
        if place and is_certain and before.steps and STEPS.taken > self._steps_before:
            return self._finding(before, "starts over")
        if place >= before.batch:
            self._starts_over = False
            self._is_skipping = True
        return None

    def _finding(self, before: Checkpoint, fault: str) -> Finding:
        self._is_judged = True
        saved = f"a checkpoint was saved after {counted(before.batch, 'batches')} of epoch {before.epoch}"
        evidence = {"record": str(self.path), "a new run": "delete the record, or name another one"}
        return Finding(f"{saved}, and the resumed run {fault}", without_empty(evidence))

    def _follow(self, digests: Digests, indices: Sequence[Any] | None) -> None:
        self._delivered += 1
        self._batch += 1
        if self._batch <= KEPT_BATCHES:
            self._first.append(digests)
        self._last = [*self._last, digests][-KEPT_BATCHES:]
        numbers = None if indices is None or self._seen is None else _whole(indices)
        if numbers is None or self._seen is None or len(numbers) != len(indices or ()):
            self._seen = None
        else:
            self._repeats |= len(set(numbers)) < len(numbers) or not self._seen.isdisjoint(numbers)
            self._seen.update(numbers)
        saved = self._saved
        if saved is not None and len(saved.after) < KEPT_BATCHES and not self._ended:
            saved.after.append(digests)
            if len(saved.after).bit_count() == 1:  # after 1, 2, 4 ... batches, so that the file is seldom written
                saved.write(self.path)

    def save(self) -> None:
        """A checkpoint is saved now: write where this run is."""
        position = (self._epoch + 1, 0) if self._ended else (self._epoch, self._batch)
        seen = None if self._seen is None else sorted(self._seen)
        steps = STEPS.taken - self._steps_before
        whole = self._planned or (self.before.planned if self.before else None)
        first, last = ([], []) if self._ended else (list(self._first), list(self._last))
        self._saved = Checkpoint(
            *position, whole, steps, first, last, [] if self._ended else seen, self._repeats and not self._ended
        )
        self._saved.write(self.path)
        self.checkpoints += 1

    def end(self, now: object) -> Finding | None:
        """Judge the length of an epoch that was read to its end, once the loop has received its last batch."""
        if self._fetched and self._fetched[0].now is now:
            self._is_read = True
            return None
        return self._judge_end(now)

    def _judge_end(self, now: object) -> Finding | None:
        if now is not self._pass:
            return None
        self._ended = True
        before = self.before
        if before is None or before.planned is None or not before.batch or self._is_judged:
            return None
        if self._passes == 1:
            left = before.planned - before.batch
            if self._delivered in (left, before.planned):  # or all of them: the loop leaves out the first ones
                return None
            return self._finding(before, f"yields {counted(self._delivered, 'batches')} of the {left} that were left")
        if self._passes == 2 and self._delivered < before.planned:
            return self._finding(
                before, f"yields {self._delivered} of {before.planned} batches in the epoch after that, too"
            )
        return None


def digests_of(batch: Any, indices: Sequence[Any] | None) -> Digests:
    """The digests of a batch, by path; those of tensors on a device are not read."""
    digests = {} if indices is None else {INDICES: xxh3_64_hexdigest(repr(list(indices)).encode())}
    for path, leaf in arrays_of(batch):
        if not isinstance(leaf, Tensor) or (leaf.device.type == "cpu" and not leaf.is_sparse):
            values = np.ascontiguousarray(array_of(leaf))
            if values.dtype.kind in "fiubU":
                digests[path] = xxh3_64_hexdigest(values.tobytes())
    return digests


def same(one: Mapping[str, str], other: Mapping[str, str], among: Sequence[Mapping[str, str]]) -> bool:
    """Whether two batches are the same: by their indices if both are known, else by a leaf that identifies batches."""
    if INDICES in one and INDICES in other:
        return one[INDICES] == other[INDICES]
    return any(one[path] == other.get(path) and _identifies(path, among) for path in one if path != INDICES)


def _identifies(path: str, among: Sequence[Mapping[str, str]]) -> bool:
    digests = [one[path] for one in among if path in one]
    return len(set(digests)) > VARIED_SHARE * len(digests)


def _whole(indices: Sequence[Any]) -> list[int]:
    """The indices that are numbers of samples."""
    return [index for index in indices if type(index) is int and 0 <= index < MOST_INDICES]
