"""DG209 broken-resume: a restored loader does not continue where it was interrupted."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, default_collate

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
        return {"epoch": self.epoch, "seen": self.seen}

    def load_state_dict(self, state: State) -> None:
        """Go on from there."""
        self.epoch = state["epoch"]
        self.start = state["seen"]


class Forgetful(Resumable):
    """One that does not use its state."""

    def load_state_dict(self, state: State) -> None:
        self.epoch = state["epoch"]


def bad() -> DataLoader[Any]:
    """The epoch starts over."""
    return Forgetful(shuffle=True, num_workers=2)


class Ahead(Resumable):
    """One that counts a batch too many."""

    def state_dict(self) -> State:
        return {"epoch": self.epoch, "seen": self.seen + (self.seen > 0)}


def bad_ahead() -> DataLoader[Any]:
    """A batch is left out at each restart."""
    return Ahead(shuffle=True, num_workers=2)


class Once(Resumable):
    """One that counts from zero after each restart, although it begins later."""

    def state_dict(self) -> State:
        return {"epoch": self.epoch, "seen": self.seen - self.begun}

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
        return {"epoch": self.epoch, "seen": {0: self.seen}}

    def load_state_dict(self, state: State) -> None:
        self.epoch = state["epoch"]
        self.start = state["seen"].get(0, 0)


def bad_json() -> DataLoader[Any]:
    """The state is taken by JSON, and comes back as another one."""
    return ByNumber(shuffle=True)


class Unpicklable(Resumable):
    """One whose state holds a function that was made on the spot."""

    def state_dict(self) -> State:
        return {**super().state_dict(), "order": lambda: self.epoch}


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
        for number in share(range(start, 40)):
            self.done += 1
            yield picture(number), number
        self.done = 0

    def state_dict(self) -> State:
        """Where each worker is, in samples of its own."""
        return {"done": self.done}

    def load_state_dict(self, state: State) -> None:
        """Take the samples of a worker for those of all."""
        self.done = state["done"]


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
        self.start = state["seen"] + self.skipped


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
    """A stream that counts the samples of each worker, and goes on after them."""

    def __init__(self) -> None:
        self.done = 0
        self.start = 0

    def __iter__(self) -> Iterator[tuple[Tensor, int]]:
        self.done, self.start = self.start, 0
        for number in islice(share(range(40)), self.done, None):
            self.done += 1
            yield picture(number), number

    def state_dict(self) -> State:
        """Where each worker is, in samples of its own."""
        return {"done": self.done}

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
        return self.state if self.keeps else {"text": self.state["text"], "rest": []}

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
            self.state = self.state["texts"][self.state["text"]]
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
