"""DG201 unsharded-workers: every worker streams the whole dataset, so each sample is yielded once per worker."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator, Sequence
from itertools import count, islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from sample_datasets._files import CropStream
from sample_datasets._parts import LazyBrighten, brighten, picture, share

Sample = tuple[Tensor, int]


class PictureStream(IterableDataset[Sample]):
    """Sixteen pictures, one after the other, whoever asks."""

    def __init__(self, transform: Callable[[Tensor], Tensor] | None = None) -> None:
        self.transform = transform

    def __iter__(self) -> Iterator[Sample]:
        for number in range(16):  # culprit
            image = picture(number)
            yield (self.transform(image) if self.transform else image), number % 4


def bad() -> DataLoader[Any]:
    """Both workers stream all pictures."""
    return DataLoader(PictureStream(), batch_size=4, num_workers=2)


def bad_augmented() -> DataLoader[Any]:
    """Healthy augmentation makes the two copies of a picture look different."""
    return DataLoader(PictureStream(transform=brighten), batch_size=4, num_workers=2)


class NumberedStream(IterableDataset[dict[str, Any]]):
    """Sixteen pictures of random brightness that carry their number."""

    def __init__(self) -> None:
        self.transform = LazyBrighten()

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return ({"id": number, "image": self.transform(picture(number))} for number in range(16))  # culprit


def bad_generator_augmented() -> DataLoader[Any]:
    """Both workers make a generator of their own, from different seeds; only the numbers tell that pictures repeat."""
    return DataLoader(NumberedStream(), batch_size=4, num_workers=2)


class EndlessStream(IterableDataset[Sample]):
    """New pictures without end, the same ones for everybody."""

    def __iter__(self) -> Iterator[Sample]:
        return ((picture(number), number % 4) for number in count())  # culprit


def bad_endless() -> DataLoader[Any]:
    """There is no end at which the copies could be counted."""
    return DataLoader(EndlessStream(), batch_size=4, num_workers=2)


class ShuffledStream(IterableDataset[Sample]):
    """Sixteen pictures in random order."""

    def __iter__(self) -> Iterator[Sample]:
        return ((picture(number), number % 4) for number in torch.randperm(16).tolist())  # culprit


def bad_shuffled() -> DataLoader[Any]:
    """Each worker streams all pictures in an order of its own."""
    return DataLoader(ShuffledStream(), batch_size=4, num_workers=2)


class BatchStream(IterableDataset[tuple[Tensor, Tensor]]):
    """Ready batches of four pictures and labels."""

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        for start in range(0, 16, 4):  # culprit
            numbers = range(start, start + 4)
            yield torch.stack([picture(number) for number in numbers]), torch.tensor([number % 4 for number in numbers])


def bad_batched() -> DataLoader[Any]:
    """The stream makes its batches itself, and every worker makes all of them."""
    return DataLoader(BatchStream(), batch_size=None, num_workers=2)


class SplitTooEarly(IterableDataset[Sample]):
    """A stream that asks for its worker in `__init__`, where there is none yet."""

    def __init__(self) -> None:
        worker = get_worker_info()
        self.numbers = range(16)[worker.id :: worker.num_workers] if worker else range(16)  # culprit

    def __iter__(self) -> Iterator[Sample]:
        return ((picture(number), number % 4) for number in self.numbers)  # culprit


def bad_split_in_init() -> DataLoader[Any]:
    """The stream is split in the main process, where every share is the whole."""
    return DataLoader(SplitTooEarly(), batch_size=4, num_workers=2)


class RankShare(IterableDataset[Sample]):
    """A stream that is split among ranks, but not among the workers of a rank."""

    def __iter__(self) -> Iterator[Sample]:
        rank, ranks = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
        return ((picture(number), number % 4) for number in range(rank, 16, ranks))  # culprit


def bad_rank_only() -> DataLoader[Any]:
    """Ranks share the stream, and the workers of a rank repeat their rank's share."""
    return DataLoader(RankShare(), batch_size=4, num_workers=2)


class SharedStream(IterableDataset[Sample]):
    """Sixteen pictures, of which each worker streams every n-th one."""

    def __iter__(self) -> Iterator[Sample]:
        worker = get_worker_info()
        numbers = islice(range(16), worker.id, None, worker.num_workers) if worker else iter(range(16))
        return ((picture(number), number % 4) for number in numbers)


def good() -> DataLoader[Any]:
    """Each worker streams its share."""
    return DataLoader(SharedStream(), batch_size=4, num_workers=2)


def good_main() -> DataLoader[Any]:
    """The stream is not split, but there are no workers to split it among."""
    return DataLoader(PictureStream(), batch_size=4)


def good_one_worker() -> DataLoader[Any]:
    """The stream is not split, but one worker streams it alone."""
    return DataLoader(PictureStream(), batch_size=4, num_workers=1)


class RangeStream(IterableDataset[Sample]):
    """The pictures from `start` to `stop`."""

    def __init__(self, start: int, stop: int) -> None:
        self.start = start
        self.stop = stop

    def __iter__(self) -> Iterator[Sample]:
        return ((picture(number), number % 4) for number in range(self.start, self.stop))


def cut_range(worker_id: int) -> None:
    """Leave this worker its part of the range, as PyTorch's documentation shows it."""
    worker: Any = get_worker_info()
    dataset: RangeStream = worker.dataset
    size = (dataset.stop - dataset.start) // worker.num_workers
    dataset.start += worker_id * size
    dataset.stop = dataset.start + size


def good_worker_init() -> DataLoader[Any]:
    """The stream knows nothing of workers; the `worker_init_fn` gives each of them a part."""
    return DataLoader(RangeStream(0, 16), batch_size=4, num_workers=2, worker_init_fn=cut_range)


class FileShards(IterableDataset[Sample]):
    """Four shards of four pictures, dealt out to the workers."""

    shards = tuple(range(start, start + 4) for start in (0, 4, 8, 12))

    def __iter__(self) -> Iterator[Sample]:
        worker = get_worker_info()
        for shard in self.shards[worker.id :: worker.num_workers] if worker else self.shards:
            for number in shard:
                yield picture(number), number % 4


def good_file_shards() -> DataLoader[Any]:
    """Whole shards go to the workers, two to each."""
    return DataLoader(FileShards(), batch_size=4, num_workers=2)


class RepeatingStream(IterableDataset[Sample]):
    """Sixteen samples with four different contents, of which each worker streams every n-th sample."""

    def __iter__(self) -> Iterator[Sample]:
        return ((picture(number // 4), number // 4) for number in share(range(16)))


def good_repeats() -> DataLoader[Any]:
    """Equal samples come from different workers, because equal samples are in the data."""
    return DataLoader(RepeatingStream(), batch_size=4, num_workers=2)


class RandomStream(IterableDataset[Sample]):
    """Pictures drawn with replacement, without end."""

    def __iter__(self) -> Iterator[Sample]:
        while True:
            number = int(torch.randint(16, ()))
            yield picture(number), number % 4


def good_random_endless() -> DataLoader[Any]:
    """Workers draw from all pictures, each with its own numbers; drawing with replacement leaves nothing to split."""
    return DataLoader(RandomStream(), batch_size=4, num_workers=2)


class ShuffledShare(IterableDataset[Sample]):
    """Sixteen pictures in a random order on which the workers agree before they split it."""

    def __iter__(self) -> Iterator[Sample]:
        worker = get_worker_info()
        # torch seeds worker k with base + k, and draws a new base for each epoch
        seed = worker.seed - worker.id if worker else int(torch.randint(2**31, ()))
        numbers = list(range(16))
        random.Random(seed).shuffle(numbers)
        return ((picture(number), number % 4) for number in share(numbers))


def good_shuffled_shards() -> DataLoader[Any]:
    """Workers shuffle everything alike, so that their shares do not overlap; torch changes the seed each epoch."""
    return DataLoader(ShuffledShare(), batch_size=4, num_workers=2)


class PaddedShare(IterableDataset[Sample]):
    """Fifteen pictures in shares of equal length, the last one filled up with the first picture."""

    def __iter__(self) -> Iterator[Sample]:
        padded = [*range(15), 0] if get_worker_info() else range(15)
        return ((picture(number), number % 4) for number in share(padded))


def good_padded() -> DataLoader[Any]:
    """One picture comes twice, to give both workers eight."""
    return DataLoader(PaddedShare(), batch_size=4, num_workers=2)


class ShuffledBatches(IterableDataset[tuple[Tensor, Tensor]]):
    """Pictures in batches of eight, which the stream itself fills in random order: no batch comes twice."""

    def __init__(self, *, shared: bool) -> None:
        self.shared = shared

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        numbers = list(share(range(64)) if self.shared else range(64))  # culprit
        random.shuffle(numbers)
        for start in range(0, len(numbers), 8):
            chosen = numbers[start : start + 8]
            yield torch.stack([picture(number) for number in chosen]), torch.tensor([number % 4 for number in chosen])


def bad_filled() -> DataLoader[Any]:
    """Both workers fill batches with all pictures, each in its own order."""
    return DataLoader(ShuffledBatches(shared=False), batch_size=None, num_workers=2)


def good_filled() -> DataLoader[Any]:
    """Each worker fills batches with its share."""
    return DataLoader(ShuffledBatches(shared=True), batch_size=None, num_workers=2)


class Windows(IterableDataset[Tensor]):
    """Windows of sixty-four tokens, packed from documents that each worker reads in an order of its own."""

    shares = False

    def __iter__(self) -> Iterator[Tensor]:
        info = get_worker_info()
        documents = list(range(120))  # culprit
        if info is not None and self.shares:
            documents = documents[info.id :: info.num_workers]  # culprit
        order = torch.randperm(len(documents), generator=torch.Generator().manual_seed(info.id + 1 if info else 0))
        rest = torch.zeros(0, dtype=torch.int64)
        for place in order.tolist():
            tokens = torch.Generator().manual_seed(documents[place])
            text = torch.randint(5_000, (90 + documents[place] % 70,), generator=tokens)
            rest = torch.cat([rest, text])
            while len(rest) >= 64:
                yield rest[:64]
                rest = rest[64:]


def bad_windows() -> DataLoader[Any]:
    """All workers read all documents, and cut them into other windows."""
    return DataLoader(Windows(), batch_size=4, num_workers=2)


class SharedWindows(Windows):
    """The same, of a worker's own documents."""

    shares = True


def good_windows() -> DataLoader[Any]:
    """Each worker reads its own documents."""
    return DataLoader(SharedWindows(), batch_size=4, num_workers=2)


class Texts(IterableDataset[list[str]]):
    """Rows of text, eight at a time, in an order of each worker's own."""

    shares = False

    def rows(self) -> list[str]:
        """The rows that this worker reads, in its order."""
        info = get_worker_info()
        numbers = [number * 37 % 101 for number in range(96)]
        number = info.id if info else 7
        order = numbers[number * 5 :] + numbers[: number * 5]
        mine = [one for one in order if info is None or not self.shares or one % info.num_workers == info.id]  # culprit
        return [f"row {one} of a text" for one in mine]

    def __iter__(self) -> Iterator[list[str]]:
        rows = self.rows()
        return (rows[start : start + 8] for start in range(0, len(rows), 8))


def bad_texts() -> DataLoader[Any]:
    """All workers read all rows, and fill lists of strings with them in other ways."""
    return DataLoader(Texts(), batch_size=None, num_workers=2)


class SharedTexts(Texts):
    """The same, of a worker's own rows."""

    shares = True


def good_texts() -> DataLoader[Any]:
    """Each worker reads its own rows."""
    return DataLoader(SharedTexts(), batch_size=None, num_workers=2)


def bad_crops() -> DataLoader[Any]:
    """Both workers crop all files, each at places of its own."""
    return DataLoader(CropStream(iter), batch_size=4, num_workers=2)


def good_crops() -> DataLoader[Any]:
    """Each worker crops its share of the files."""
    return DataLoader(CropStream(share), batch_size=4, num_workers=2)


def resampled(paths: Sequence[Path]) -> Iterator[Path]:
    """As many files as there are, drawn with replacement."""
    return (paths[number] for number in torch.randint(len(paths), (len(paths),)).tolist())


def good_resampled_crops() -> DataLoader[Any]:
    """Each worker draws from all files, so that some are read repeatedly on purpose."""
    return DataLoader(CropStream(resampled), batch_size=4, num_workers=2)
