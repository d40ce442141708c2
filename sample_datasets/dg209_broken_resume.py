"""DG209 broken-resume: a restored loader does not continue where it was interrupted."""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterator
from itertools import islice
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, Sampler, default_collate

from sample_datasets._parts import Pictures, brighten, picture, share

State = dict[str, Any]


class Resumable(DataLoader[Any]):
    """A loader of pictures that skips the batches of its epoch which were seen before it was interrupted."""

    def __init__(self, **settings: Any) -> None:
        self.seen = 0
        self.start = 0
        self.epoch = 0
        super().__init__(Pictures(40), batch_size=4, generator=torch.Generator(), **settings)

    def set_epoch(self, epoch: int) -> None:
        """Tell the epoch, from which its order follows."""
        self.epoch = epoch

    def __iter__(self) -> Any:
        assert self.generator is not None
        self.generator.manual_seed(self.epoch)
        skipped, self.start = self.start, 0
        self.seen = skipped
        for batch in islice(super().__iter__(), skipped, None):
            self.seen += 1
            yield batch
        self.seen = 0

    def state_dict(self) -> State:
        """What it takes to go on."""
        return {"epoch": self.epoch, "seen": self.seen}  # culprit

    def load_state_dict(self, state: State) -> None:
        """Go on from there."""
        self.epoch = state["epoch"]
        self.start = state["seen"]


class Forgetful(Resumable):
    """One that does not use its state."""

    def load_state_dict(self, state: State) -> None:  # culprit
        self.epoch = state["epoch"]  # culprit


def bad() -> DataLoader[Any]:
    """The epoch starts over."""
    return Forgetful(shuffle=True, num_workers=2)


class Ahead(Resumable):
    """One that counts a batch too many."""

    def state_dict(self) -> State:
        return {"epoch": self.epoch, "seen": self.seen + (self.seen > 0)}  # culprit


def bad_ahead() -> DataLoader[Any]:
    """A batch is left out at each restart."""
    return Ahead(shuffle=True, num_workers=2)


class Once(Resumable):
    """One that counts from zero after each restart, although it begins later."""

    def state_dict(self) -> State:
        return {"epoch": self.epoch, "seen": self.seen - self.begun}  # culprit

    def load_state_dict(self, state: State) -> None:
        super().load_state_dict(state)
        self.begun = state["seen"]

    begun = 0


def bad_second_time() -> DataLoader[Any]:
    """The first restart of an epoch is right, and the second one goes back."""
    return Once(shuffle=True)


class Unordered(Resumable):
    """One whose order comes from a generator that runs on, of which its state tells nothing."""

    def __iter__(self) -> Any:
        skipped, self.start = self.start, 0
        self.seen = skipped
        for batch in islice(DataLoader.__iter__(self), skipped, None):
            self.seen += 1
            yield batch
        self.seen = 0


def bad_order() -> DataLoader[Any]:
    """In the second epoch, the order after a restart is that of a first one."""
    return Unordered(shuffle=True)


class ByNumber(Resumable):
    """One whose state holds a table by whole numbers, which JSON turns into texts."""

    def state_dict(self) -> State:
        return {"epoch": self.epoch, "seen": {0: self.seen}}  # culprit

    def load_state_dict(self, state: State) -> None:
        self.epoch = state["epoch"]
        self.start = state["seen"].get(0, 0)  # culprit


def bad_json() -> DataLoader[Any]:
    """The state is taken by JSON, and comes back as another one."""
    return ByNumber(shuffle=True)


class Unpicklable(Resumable):
    """One whose state holds a function that was made on the spot."""

    def state_dict(self) -> State:
        return {**super().state_dict(), "order": lambda: self.epoch}  # culprit


def bad_unpicklable() -> DataLoader[Any]:
    """The state cannot be saved."""
    return Unpicklable(shuffle=True)


class Stream(IterableDataset[tuple[Tensor, int]]):
    """Forty pictures, of which each worker reads every n-th."""

    def __iter__(self) -> Iterator[tuple[Tensor, int]]:
        return ((picture(number), number) for number in share(range(40)))


def stateful(dataset: Any, **settings: Any) -> DataLoader[Any]:
    """torchdata's loader, which keeps count in its workers."""
    from torchdata.stateful_dataloader import StatefulDataLoader

    loader: DataLoader[Any] = StatefulDataLoader(dataset, batch_size=4, **settings)
    return loader


class Started(Stream):
    """A stream that counts the samples of its whole life, and not of one pass."""

    def __init__(self) -> None:
        self.done = 0

    def __iter__(self) -> Iterator[tuple[Tensor, int]]:
        start = self.done
        for number in share(range(start, 40)):  # culprit
            self.done += 1
            yield picture(number), number
        self.done = 0

    def state_dict(self) -> State:
        """Where each worker is, in samples of its own."""
        return {"done": self.done}  # culprit

    def load_state_dict(self, state: State) -> None:
        """Take the samples of a worker for those of all."""
        self.done = state["done"]  # culprit


def bad_stream() -> DataLoader[Any]:
    """Each of two workers counts its own samples, and skips as many of all."""
    return stateful(Started(), num_workers=2)


class Manual(Resumable):
    """Puts its batches together itself, as torch would: nobody else sees its samples."""

    def __init__(self, skipped: int) -> None:
        self.skipped = skipped
        super().__init__(shuffle=True)

    def __iter__(self) -> Any:
        order = torch.randperm(40, generator=torch.Generator().manual_seed(self.epoch)).tolist()
        self.seen, self.start = self.start, 0
        for place in range(4 * self.seen, 40, 4):
            self.seen += 1
            yield default_collate([self.dataset[index] for index in order[place : place + 4]])
        self.seen = 0

    def load_state_dict(self, state: State) -> None:
        self.epoch = state["epoch"]
        self.start = state["seen"] + self.skipped  # culprit


def bad_manual() -> DataLoader[Any]:
    """A loader with an `__iter__` of its own leaves out the batch after the interruption."""
    return Manual(skipped=1)


def good_manual() -> DataLoader[Any]:
    """The same, counting right."""
    return Manual(skipped=0)


def good() -> DataLoader[Any]:
    """The epoch and the place in it are all that the order follows from."""
    return Resumable(shuffle=True, num_workers=2)


def good_stateful() -> DataLoader[Any]:
    """torchdata's loader over a shuffled dataset."""
    return stateful(Pictures(40), shuffle=True, num_workers=2)


def good_stateful_stream() -> DataLoader[Any]:
    """torchdata's loader over a stream without a state, which it reads up to the place."""
    return stateful(Stream(), num_workers=2)


class Counted(Stream):
    """A stream that counts what it has yielded, in each process that reads it, and goes on after that."""

    def __init__(self) -> None:
        self.done = 0
        self.start = 0

    def __iter__(self) -> Iterator[tuple[Tensor, int]]:
        self.done, self.start = self.start, 0
        for number in islice(share(range(40)), self.done, None):
            self.done += 1
            yield picture(number), number

    def state_dict(self) -> State:
        """Where this process is, in samples of its own."""
        return {"done": self.done}  # culprit

    def load_state_dict(self, state: State) -> None:
        """Go on from there in the next pass."""
        self.start = state["done"]


def good_counted() -> DataLoader[Any]:
    """Each worker goes on after its own samples."""
    return stateful(Counted(), num_workers=2)


def good_augmented() -> DataLoader[Any]:
    """Samples come in the same order, augmented by other numbers."""
    return stateful(Pictures(40, brighten), shuffle=True, num_workers=2)


def good_plain() -> DataLoader[Any]:
    """torch's own loader has no state."""
    return DataLoader(Pictures(40), batch_size=4, shuffle=True)


class Packed(IterableDataset[Tensor]):
    """Windows of ten numbers, cut from texts of seven; `keeps` what is left of the last text in its state."""

    def __init__(self, *, keeps: bool) -> None:
        self.keeps = keeps
        self.state: State = {"text": 0, "rest": []}
        self.is_restored = False

    def __iter__(self) -> Iterator[Tensor]:
        if not self.is_restored:
            self.state = {"text": 0, "rest": []}
        self.is_restored = False
        rest = list(self.state["rest"])
        for text in range(self.state["text"], 60):
            rest += [text * 100 + number for number in range(7)]
            if len(rest) >= 10:
                window, rest = rest[:10], rest[10:]
                self.state = {"text": text + 1, "rest": list(rest)}
                yield torch.tensor(window)

    def state_dict(self) -> State:
        """Which text comes next, and what is left of the one before."""
        return self.state if self.keeps else {"text": self.state["text"], "rest": []}  # culprit

    def load_state_dict(self, state: State) -> None:
        """Go on from there, once."""
        self.state, self.is_restored = state, True


def bad_lost_buffer() -> DataLoader[Any]:
    """What is left of the last text is lost, so that all later windows are others."""
    return stateful(Packed(keeps=False))


def good_buffer() -> DataLoader[Any]:
    """What is left of the last text is in the state."""
    return stateful(Packed(keeps=True))


class Lazy(Packed):
    """Restores its state when it is iterated."""

    def __iter__(self) -> Iterator[Tensor]:
        if self.is_restored:
            self.state = self.state["texts"][self.state["text"]]  # culprit
        return super().__iter__()


def bad_lazy() -> DataLoader[Any]:
    """The state is accepted, and found wanting in the first iteration."""
    return stateful(Lazy(keeps=True))


class Brightened(Packed):
    """Windows under random noise."""

    def __iter__(self) -> Iterator[Tensor]:
        return (window + torch.rand(10) for window in super().__iter__())


def good_buffer_of_noise() -> DataLoader[Any]:
    """The state is complete, and each sample is drawn anew."""
    return stateful(Brightened(keeps=True))


class Continued(Sampler[int]):
    """A shuffling sampler with a state: its epoch, and how many indices it has yielded of that."""

    def __init__(self) -> None:
        self.epoch = 0
        self.position = 0
        self.is_restored = False

    def set_epoch(self, epoch: int) -> None:
        """Tell the epoch, from which its order follows."""
        self.epoch = epoch

    def __len__(self) -> int:
        return 40

    def order(self) -> list[int]:
        """The order of this epoch."""
        return torch.randperm(40, generator=torch.Generator().manual_seed(self.epoch)).tolist()

    def __iter__(self) -> Iterator[int]:
        self.position = self.position if self.is_restored else 0
        self.is_restored = False
        for index in self.order()[self.position :]:
            self.position += 1
            yield index

    def state_dict(self) -> State:
        """Where it is."""
        return {"epoch": self.epoch, "position": self.position}  # culprit

    def load_state_dict(self, state: State) -> None:
        """Go on from there, once."""
        self.epoch, self.position = state["epoch"], state["position"]
        self.is_restored = True


def sampled(sampler: Sampler[int], **settings: Any) -> DataLoader[Any]:
    """Pictures in batches of four, in the order of a sampler."""
    return DataLoader(Pictures(40), batch_size=4, sampler=sampler, **settings)


def bad_prefetched() -> DataLoader[Any]:
    """Workers have been sent batches already that training has not seen: these are counted, and lost."""
    return sampled(Continued(), num_workers=2)


def good_sampler() -> DataLoader[Any]:
    """Without workers, nothing is prefetched."""
    return sampled(Continued())


class RunningOn(Continued):
    """One whose order is drawn from a generator that runs on, and is not in its state."""

    def __init__(self) -> None:
        super().__init__()
        self.generator = torch.Generator().manual_seed(0)

    def order(self) -> list[int]:
        """The next order."""
        return torch.randperm(40, generator=self.generator).tolist()


def bad_permutation() -> DataLoader[Any]:
    """The position is right, and the order of a second epoch is that of a first one."""
    return sampled(RunningOn())


class Remembering(RunningOn):
    """The same, with the state of the generator from which the order was drawn."""

    def order(self) -> list[int]:
        """The next order, and what it was drawn from."""
        self.drawn_from = self.generator.get_state()
        return super().order()

    def state_dict(self) -> State:
        """Where it is, in which order."""
        return {**super().state_dict(), "generator": self.drawn_from}

    def load_state_dict(self, state: State) -> None:
        """Go on in the same order."""
        super().load_state_dict(state)
        self.generator.set_state(state["generator"])


def good_generator() -> DataLoader[Any]:
    """The order runs on, and the state says from where."""
    return sampled(Remembering())


class Named(Continued):
    """One whose order follows from its epoch and from the `hash` of a name, which is another one in each process."""

    def order(self) -> list[int]:
        """The order of this epoch."""
        return random.Random(hash("train") + self.epoch).sample(range(40), 40)  # culprit


def bad_new_process() -> DataLoader[Any]:
    """In the process that saved it, the state is enough."""
    return sampled(Named())


class Checksummed(Continued):
    """One whose order follows from a checksum of a name; a set of names only says which there are."""

    NAMES = frozenset(("train", "val"))

    def order(self) -> list[int]:
        """The order of this epoch."""
        assert "train" in self.NAMES
        return random.Random(zlib.crc32(b"train") + self.epoch).sample(range(40), 40)


def good_checksum() -> DataLoader[Any]:
    """A checksum is the same in all processes."""
    return sampled(Checksummed())


class KeptSeed(Continued):
    """One that draws a seed from the global generator, and a `hash`, and keeps it in its state."""

    seed = 0

    def order(self) -> list[int]:
        """The order of this epoch."""
        return random.Random(self.seed).sample(range(40), 40)

    def __iter__(self) -> Iterator[int]:
        if not self.is_restored:
            self.seed = hash("train") ^ random.getrandbits(31)
        return super().__iter__()

    def state_dict(self) -> State:
        """Where it is, in which order."""
        return {**super().state_dict(), "seed": self.seed}

    def load_state_dict(self, state: State) -> None:
        """Go on in the same order."""
        super().load_state_dict(state)
        self.seed = state["seed"]


def good_saved_seed() -> DataLoader[Any]:
    """What differs in each process is saved."""
    return sampled(KeptSeed())


class PerEpoch(Continued):
    """One with the state of checkpoints at the end of epochs."""

    def state_dict(self) -> State:
        """The epoch alone."""
        return {"epoch": self.epoch}

    def load_state_dict(self, state: State) -> None:
        """Begin the epoch."""
        self.epoch = state["epoch"]


def good_per_epoch() -> DataLoader[Any]:
    """The state holds no position: training saves it between epochs."""
    return sampled(PerEpoch(), num_workers=2)


def bad_state_in_workers() -> DataLoader[Any]:
    """The dataset of the main process, whose state is saved, is never read."""
    return DataLoader(Counted(), batch_size=4, num_workers=2)


def good_state_of_stream() -> DataLoader[Any]:
    """Without workers, the stream that is read is the one whose state is saved."""
    return DataLoader(Counted(), batch_size=4)


class FromIndex(Sampler[int]):
    """A shuffling sampler that a resumed run gives the number of samples to leave out; `is_once`: of one epoch."""

    def __init__(self, *, is_once: bool) -> None:
        self.epoch = 0
        self.start_index = 0
        self.is_once = is_once

    def set_epoch(self, epoch: int) -> None:
        """Tell the epoch, from which its order follows."""
        self.epoch = epoch

    def __len__(self) -> int:
        return 40 - self.start_index

    def __iter__(self) -> Iterator[int]:
        start = self.start_index
        if self.is_once:
            self.start_index = 0
        order = torch.randperm(40, generator=torch.Generator().manual_seed(self.epoch))
        for index in order[start:]:  # culprit
            yield int(index)


def bad_start_index() -> DataLoader[Any]:
    """All epochs after a restart lack their first samples."""
    return sampled(FromIndex(is_once=False), num_workers=2)


def good_start_index() -> DataLoader[Any]:
    """The start is that of one epoch."""
    return sampled(FromIndex(is_once=True), num_workers=2)


class Consumed(Sampler[list[int]]):
    """A batch sampler by the samples of the whole training, as large language models are trained with.

    The seed of the order is the epoch or, if it `drifts`, the number of samples.
    """

    def __init__(self, consumed_samples: int, *, drifts: bool) -> None:
        self.samples = consumed_samples
        self.drifts = drifts

    def __len__(self) -> int:
        return 10

    def __iter__(self) -> Iterator[list[int]]:
        epoch, start = divmod(self.samples, 40)
        generator = torch.Generator().manual_seed(self.samples if self.drifts else epoch)
        order = torch.randperm(40, generator=generator).tolist()
        for place in range(start, 40, 4):  # culprit
            self.samples += 4
            yield order[place : place + 4]


def bad_consumed_samples() -> DataLoader[Any]:
    """A restart in an epoch continues in another order: some samples come again, others never."""
    return DataLoader(Pictures(40), batch_sampler=Consumed(consumed_samples=0, drifts=True))


def good_consumed_samples() -> DataLoader[Any]:
    """The order is that of the epoch, wherever it is continued."""
    return DataLoader(Pictures(40), batch_sampler=Consumed(consumed_samples=0, drifts=False))


class Part(Sampler[int]):
    """The samples from one index to another: a split."""

    def __init__(self, start_index: int, end_index: int) -> None:
        self.start_index = start_index
        self.end_index = end_index

    def __len__(self) -> int:
        return self.end_index - self.start_index

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.start_index, self.end_index))


def good_part() -> DataLoader[Any]:
    """The start of a split is that of every epoch."""
    return sampled(Part(0, 40))


def bad_skip_argument(skip_batches: int = 0) -> DataLoader[Any]:
    """A resumed run makes its loader with the number of batches to leave out, and keeps that for all epochs."""
    order = torch.arange(40)[4 * skip_batches :]
    return sampled(Listed(order.tolist()))


class Listed(Sampler[int]):
    """Indices that are listed beforehand."""

    def __init__(self, indices: list[int]) -> None:
        self.indices = indices

    def __len__(self) -> int:
        return len(self.indices)

    def __iter__(self) -> Iterator[int]:
        return iter(self.indices)  # culprit
