"""What identifies samples of two splits, and what is recorded of a sample that cannot be read."""

from __future__ import annotations

from array import array
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from PIL import Image
from torch.utils.data import ConcatDataset, Dataset, Subset, TensorDataset
from torch.utils.data._utils.fetch import _MapDatasetFetcher

from dataguard.core.model import Status
from dataguard.engine import scan
from dataguard.lab.core.instrument import Fetch, Process
from dataguard.lab.core.leaves import leaves_of
from dataguard.lab.core.records import BatchRecord
from dataguard.lab.process.incidents import read_spools
from dataguard.lab.splits.index_contents import CONTENT, DISTINCT_SHARE, find_columns
from dataguard.lab.splits.sample_pairs import NearDuplicates, near_duplicates, thumbnails_of
from dataguard.lab.splits.split_overlap import LEAST_SPREAD, _candidate, _name_stem
from dataguard.lab.spy.recording import Records
from dataguard.lab.spy.sample_ledger import ContentHashes, hash_of, is_rich, read_hashes
from dataguard.lab.spy.skip_unreadable import UNREAD, SkippingBatches, SkippingItems, SkipUnreadable, UnreadableLog
from dataguard.lab.spy.worker_spy import Plan, Watcher, watch_fetcher
from dataguard.settings.settings import Settings
from dataguard.stats.coincidence import is_shared


class Files(Dataset[Any]):
    def __init__(self, paths: list[Path], root: Path | None = None) -> None:
        self.samples = [(path, number % 2) for number, path in enumerate(paths)]
        self.root = root

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> str:
        return Path(self.samples[index][0]).read_text()


class Wrapped(Dataset[Any]):
    def __init__(self, inner: Dataset[Any], length: int) -> None:
        self.inner = inner
        self.length = length

    def __len__(self) -> int:
        return self.length


@pytest.fixture
def paths(tmp_path: Path) -> list[Path]:
    made = [tmp_path / f"{number}.txt" for number in range(6)]
    for number, path in enumerate(made):
        path.write_text(f"file {number}" * 2000)
    return made


def columns(dataset: Any, files: int = 100) -> dict[str, list[int]]:
    return {name: list(column) for name, column in find_columns(dataset, range(len(dataset)), files)[0].items()}


def test_paths_are_identified_by_name_and_file_content(paths: list[Path], tmp_path: Path) -> None:
    copy = tmp_path / "copy.txt"
    copy.write_text(paths[0].read_text())
    one, two = columns(Files(paths)), columns(Files([copy, *paths[1:]]))
    names, content = "the names in samples[*][0]", "the content of the files in samples[*][0]"
    assert set(one) == set(two) == {names, content}
    assert one[content] == two[content]
    assert one[names][1:] == two[names][1:]
    assert one[names][0] != two[names][0]
    assert set(columns(Files(paths), files=5)) == {names}
    relative = Files([Path(path.name) for path in paths], tmp_path)
    assert columns(relative)[content] == one[content]


def grey(path: Path, pixels: np.ndarray, scale: float = 1.0, **options: Any) -> str:
    """Save an image, scaled, and return its path."""
    image = Image.fromarray(pixels.astype(np.uint8))
    image.resize((round(image.width * scale), round(image.height * scale))).save(path, **options)
    return str(path)


def test_a_photograph_that_is_saved_again_matches_only_itself(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    fields = [np.kron(rng.integers(0, 256, (9, 9)), np.ones((12, 12))) for _ in range(30)]
    train = [grey(tmp_path / f"{number}.png", field) for number, field in enumerate(fields[:20])]
    saved_again = [grey(tmp_path / f"{number}.jpg", fields[number], 0.5, quality=50) for number in (3, 7)]
    val = [grey(tmp_path / f"{number}.png", field) for number, field in enumerate(fields[20:], start=20)]
    earlier, own = thumbnails_of(train, 20), thumbnails_of([*val, *saved_again], 20)
    assert near_duplicates(earlier, own) == NearDuplicates(2, 12, train[3], saved_again[0])
    assert near_duplicates(earlier, thumbnails_of(val, 20)) is None
    assert near_duplicates(earlier, earlier) is None  # one file is no copy of itself


def test_images_that_are_all_similar_are_not_reported(tmp_path: Path) -> None:
    field = np.kron(np.random.default_rng(1).integers(0, 256, (9, 9)), np.ones((12, 12)))
    frames = [grey(tmp_path / f"{number}.png", field.clip(number, 255)) for number in range(12)]
    assert near_duplicates(thumbnails_of(frames[:6], 20), thumbnails_of(frames[6:], 20)) is None
    plain = [grey(tmp_path / f"plain{number}.png", np.full((40, 40), number)) for number in range(4)]
    assert not thumbnails_of([*plain, str(tmp_path / "none.png")], 20).names


def test_a_long_text_is_no_file() -> None:
    texts = Wrapped(TensorDataset(torch.zeros(2)), 2)
    vars(texts)["texts"] = ["never " * 900, "again\0" * 900]
    assert set(columns(texts)) == {"the names in texts"}


def test_a_subset_has_what_its_dataset_has(paths: list[Path]) -> None:
    whole = columns(Files(paths))
    part = columns(Wrapped(Subset(Files(paths), [4, 1]), 2))
    assert part["the indices of Files[6]"] == [4, 1]
    for name, column in whole.items():
        assert part[name] == [column[4], column[1]]
    both = columns(ConcatDataset([Files(paths[:2]), Files(paths[2:])]))
    assert both == whole


def test_rows_are_identified_by_content_and_labels_identify_nothing() -> None:
    images = torch.rand(10, 3, 4, 4)
    (name,) = columns(TensorDataset(images, torch.arange(10) % 2))
    assert name == f"{CONTENT} tensors[0]"
    shifted = TensorDataset(torch.cat([images[5:], torch.rand(5, 3, 4, 4)]), torch.arange(10))
    assert columns(shifted)[name][:5] == columns(TensorDataset(images))[name][5:]


def test_what_raises_when_it_is_looked_at_holds_nothing() -> None:
    class Odd(Dataset[Any]):
        def __init__(self) -> None:
            self.iloc = self.columns = None

        def __len__(self) -> int:
            return 3

    odd = Wrapped(Odd(), 3)
    odd.names = Odd()  # type: ignore[attr-defined]
    assert columns(odd) == {}


@given(arrays(np.uint8, st.integers(64, 300)), st.integers(0, 63), st.integers(1, 255))
def test_a_hash_changes_with_any_byte(content: np.ndarray, place: int, change: int) -> None:
    other = content.copy()
    other[place] ^= change
    assert hash_of((content, 1)) == hash_of({"image": content.copy()})
    assert hash_of(content) != hash_of(other)


def test_hashes_are_kept_by_index(tmp_path: Path) -> None:
    samples = [torch.rand(5, 5) for _ in range(4)]
    for worker, fetch in enumerate((Fetch(0, 0, {}, [3, -1]), Fetch(0, 0, {}, [None, 0]))):
        ContentHashes().start(Process(tmp_path, worker)).at_samples(fetch, samples[2 * worker :][:2])
    assert read_hashes([tmp_path]).by_index() == {
        3: hash_of(samples[0]),
        -1: hash_of(samples[1]),
        0: hash_of(samples[3]),
    }
    assert hash_of((1, "text", torch.zeros(2))) is None


def test_an_empty_picture_a_row_and_a_short_text_are_no_content() -> None:
    rng = np.random.default_rng(0)
    assert not is_rich(np.zeros(10_000, np.uint8))
    assert not is_rich(rng.normal(size=8).view(np.uint8))
    assert not is_rich(np.frombuffer(b"thank you" + bytes(119), np.uint8))
    assert is_rich(rng.integers(0, 2, 28 * 28, dtype=np.uint8))


@pytest.mark.parametrize(
    ("train", "val", "beyond"),
    [
        (range(90), range(75, 95), True),  # 15 of 20
        (range(90), range(88, 108), False),  # 2 of 20
        ([*range(45), *range(45)], range(25, 45), False),  # whatever is read is read twice within a split
        (range(4), range(4), False),  # a table of all that there is
        (range(90), [], False),
    ],
)
def test_rows_that_two_splits_share_are_no_chance_where_hardly_any_repeats(train: Any, val: Any, beyond: bool) -> None:
    assert is_shared(train, val) is beyond


def test_numbers_that_repeat_within_a_split_tell_nothing() -> None:
    assert _candidate("", {0: 5, 1: 6}, {7: 6, 8: 9}).pairs == [(1, 7)]
    assert _candidate("", dict.fromkeys(range(10), 1), {0: 1, 1: 2}).pairs == ()
    assert _candidate("", {}, {0: 1}).pairs == ()


def test_numbers_that_repeat_are_compared_where_many_do() -> None:
    oversampled = {place: place % 5 for place in range(15)}
    assert _candidate("", oversampled, {0: 4, 1: 9}, LEAST_SPREAD, DISTINCT_SHARE).pairs == [(14, 0)]
    assert (
        _candidate(
            "", {**oversampled, **dict.fromkeys(range(15, 20), 0)}, {0: 0, 1: 9}, LEAST_SPREAD, DISTINCT_SHARE
        ).pairs
        == []
    )
    assert _candidate("", {0: 5, 1: 6}, {7: 6, 8: 9}, LEAST_SPREAD, DISTINCT_SHARE).pairs == ()
    repeated = {row: row % 45 for row in range(64)}
    pairs = _candidate("", repeated, repeated, LEAST_SPREAD, DISTINCT_SHARE).pairs
    assert [index for _, index in pairs] == list(range(64)), "each sample counts that is in both, and not each content"


@pytest.mark.parametrize(
    ("one", "two", "same"),
    [
        ("train", "val", True),
        ("trainDataLoader", "test_loader", True),
        ("fold0_train", "fold1_val", False),
        ("cifar_train", "cifar_test", True),
        ("a.train", "b.val", False),
    ],
)
def test_names_tell_folds_and_datasets(one: str, two: str, same: bool) -> None:
    assert (_name_stem(one) == _name_stem(two)) == same


class Unsteady(Dataset[Any]):
    def __init__(self, path: Path) -> None:
        self.path = path

    def __getitem__(self, index: int) -> int:
        name = self.path
        if index == 2:
            raise ValueError(f"{name.name} is damaged")
        if index == 3:
            open("/nowhere/at/all")  # noqa: PTH123, SIM115
        return index

    def __getitems__(self, indices: list[int]) -> list[int]:
        return [self[index] for index in indices]


def test_what_cannot_be_read_is_noted_with_its_file(tmp_path: Path) -> None:
    path = tmp_path / "data.bin"
    path.touch()
    skipping = SkippingBatches(Unsteady(path), tmp_path, 0, lambda: 7)
    assert skipping.__getitems__([1, 2, 3, 4]) == [1, UNREAD, UNREAD, 4]
    assert SkippingItems(Unsteady(path), tmp_path, None, lambda: 0)[2] is UNREAD
    log = UnreadableLog(tmp_path)
    found = [(one.worker, one.batch, one.index, one.reason, one.file) for one in log.new()]
    assert found == [
        (0, 7, 2, "ValueError: data.bin is damaged", str(path)),
        (0, 7, 3, "FileNotFoundError: [Errno 2] No such file or directory: '/nowhere/at/all'", "/nowhere/at/all"),
        (None, 0, 2, "ValueError: data.bin is damaged", str(path)),
    ]
    assert list(log.new()) == []


def test_a_mixture_that_fails_is_no_sample_that_fails(tmp_path: Path) -> None:
    class Mixed(Unsteady):
        def __getitems__(self, indices: list[int]) -> list[int]:
            if len(indices) > 1:
                raise RuntimeError("not together")
            return indices

    with pytest.raises(RuntimeError, match="not together"):
        SkippingBatches(Mixed(tmp_path), tmp_path, 0, lambda: 0).__getitems__([1, 4])


def test_batches_lose_what_could_not_be_read(tmp_path: Path) -> None:
    collated: list[list[int]] = []
    fetcher = _MapDatasetFetcher(Unsteady(tmp_path), True, collated.append, False)
    watch_fetcher(Watcher(Plan(tmp_path, (SkipUnreadable(), Records())), None), fetcher, iterable=False)
    for batch in ([1, 2, 4], [2, 3], [5, 6]):
        fetcher.fetch(batch)
    assert collated == [[1, 4], [5, 6]]
    kept = [(one.batch, one.indices) for one in read_spools(tmp_path) if isinstance(one, BatchRecord)]
    assert kept == [(0, (1, 4)), (2, (5, 6))]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.complex64])
def test_leaves_without_digests_count_the_same(dtype: torch.dtype) -> None:
    values = torch.ones(300, dtype=dtype)
    values[7] = float("nan")
    values[[8, 9]] = float("inf")
    large = torch.full((4,), 3e38)
    for sample in (values, values.real.float().numpy(), large, large.numpy()):
        (full,), (light,) = leaves_of(sample), leaves_of(sample, digests=False)
        assert (light.nan, light.inf, light.shape, light.dtype) == (full.nan, full.inf, full.shape, full.dtype)
        assert (full.nan, full.inf) == ((1, 2) if len(sample) == 300 else (0, 0))
        assert (light.digest, len(full.digest)) == (b"", 8)


def test_an_array_of_indices_may_be_empty() -> None:
    assert find_columns(TensorDataset(torch.rand(3, 20)), array("q"), 10) == ({}, [])


@pytest.mark.scan
def test_splits_drawn_apart_do_not_meet_by_the_seed_of_the_scan() -> None:
    report = scan("tests.loaders.seeded_apart:splits", Settings(select=("DG514",)))
    assert [result.loader for result in report.results if result.status is Status.FAILED] == []
    report = scan("tests.loaders.seeded_apart:splits", Settings(select=("DG514",), seed=0))
    assert [result.loader for result in report.results if result.status is Status.FAILED] != []
