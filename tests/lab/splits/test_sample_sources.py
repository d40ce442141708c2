"""What samples are read from, spelled by what a dataset lists; and groups that files name."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from torch.utils.data import DataLoader, Dataset

from dataguard.core.model import Status
from dataguard.engine import scan
from dataguard.lab.rows.origins import Read, SampleReads
from dataguard.lab.splits.file_groups import file_groups
from dataguard.lab.splits.sample_sources import PARTS, SampleSources, find_sources
from dataguard.settings.settings import Settings


class Listed(Dataset[Any]):
    """Lists names or numbers, and cannot be read."""

    def __init__(self, names: Sequence[Any]) -> None:
        self.names = list(names)

    def __len__(self) -> int:
        return len(self.names)


def sources(tmp_path: Path, names: Sequence[Any], seen: Sequence[SampleReads]) -> SampleSources:
    indices = array("q", range(len(names)))
    loader: Any = DataLoader(Listed(names))
    return find_sources(loader, tmp_path, indices, seen, None, reading=0, shared_memory=False, most_files=0, seconds=0)


def reads(*paths: str, rows: tuple[int, ...] = ()) -> tuple[Read, ...]:
    return tuple(Read(path, rows, True) for path in paths)


@pytest.mark.parametrize(
    ("names", "path"),
    [
        ([f"/data/{name}.png" for name in "abcdefgh"], "{}"),
        (["a", "bb", "c", "d", "e", "f", "g", "h"], "/data/{}.jpg"),
        ([f"clip{name}" for name in "abcdefgh"], "/data.zip::sound/{}.wav"),
        ([7, 80, 900, 10, 11, 12, 13, 14], "/data/{:05}.npy"),
        ([7, 80, 900, 10, 11, 12, 13, 14], "/data/{}.npy"),
        ([7, 80, 900, 10, 11, 12, 13, 14], "/data.h5::rows[{}]"),
    ],
)
def test_a_column_spells_what_the_others_are_read_from(tmp_path: Path, names: Sequence[Any], path: str) -> None:
    expected = [path.format(name) for name in names]
    seen = [SampleReads(index, reads(expected[index])) for index in (0, 2, 4, 6)]
    found = sources(tmp_path, names, seen)
    assert [found.files[index] for index in range(8)] == [(one,) for one in expected]
    shuffled = sources(tmp_path, names[::-1], [SampleReads(7 - one.index, one.reads) for one in seen])  # type: ignore[operator]
    assert {*map(frozenset, found.columns.values())} == {*map(frozenset, shuffled.columns.values())}


def test_no_column_spells_what_has_another_name(tmp_path: Path) -> None:
    seen = [SampleReads(index, reads(f"/data/{index * 7}x.png")) for index in (1, 2, 4, 6)]
    assert not sources(tmp_path, list("abcdefgh"), seen).columns


def test_noise_that_others_read_too_is_left_out(tmp_path: Path) -> None:
    noise = reads("/noise/1.png")
    seen = [SampleReads(one, (*reads(f"/data/{one}.png"), *noise), frozenset(noise)) for one in (1, 2, 4, 6)]
    assert sources(tmp_path, list("abcdefgh"), seen).files[3] == ("/data/3.png",)


def test_random_frames_identify_no_sample_but_their_folder_does(tmp_path: Path) -> None:
    films = [f"/films/f{name}" for name in "abcdefgh"]
    seen = []
    for index in (1, 2, 4, 6):
        both, *drawn = reads(*(f"{films[index]}/{frame}.png" for frame in (3, 2, 4)))
        seen.append(SampleReads(index, (both, drawn[0]), frozenset(drawn)))
    found = sources(tmp_path, films, seen)
    assert [*found.columns] == [PARTS]
    assert found.files[5] == ("/films/ff",)


def test_random_rows_identify_no_sample_but_their_file_does(tmp_path: Path) -> None:
    films = [f"/films/f{name}.h5" for name in "abcdefgh"]
    seen = []
    for index in (1, 2, 4, 6):
        own, drawn = (Read(f"{films[index]}::/action", (row,), changeable=True) for row in (3, 5))
        seen.append(SampleReads(index, (own,), frozenset((own, drawn))))
    found = sources(tmp_path, films, seen)
    assert ([*found.columns], found.files[5]) == ([PARTS], ("/films/ff.h5",))


def test_a_list_that_is_passed_over_several_times_has_each_sample_once(tmp_path: Path) -> None:
    seen = [SampleReads(index, reads(f"/data/{'abcd'[index % 4]}.png")) for index in (1, 4, 6, 7)]
    assert [*sources(tmp_path, list("abcdabcd"), seen).indices] == list(range(4))
    assert [*sources(tmp_path, list("abcdabdc"), [*seen[:3], SampleReads(7, reads("/data/c.png"))]).indices] == [
        *range(8)
    ]


@pytest.mark.parametrize(
    ("pattern", "group"),
    [
        ("/data/patient_{:03}/slice_{}.png", "patient_007"),
        ("/data/S{:02}_trial{}.npy", "S07"),
        ("/data/wav/id1{:04}/x/{}.wav", "id10007"),
        ("/data/shard_{:03}/{}.png", None),
        ("/data/s{:03}{}.png", None),
        ("/data/{:03}/{}.png", None),
    ],
)
def test_files_name_groups(pattern: str, group: str | None) -> None:
    found = file_groups({index: (pattern.format(index // 4, index % 4),) for index in range(40)})
    assert [one.of[29] for one in found] == ([group] if group else [])


@pytest.mark.scan
@pytest.mark.parametrize("leak", [False, True])
def test_pairs_of_many_styles_are_decided(leak: bool) -> None:
    report = scan(f"tests.loaders.split_pairs:some(leak={str(leak).lower()})", Settings(select=("DG514",)))
    verdicts = {one.loader: one.status for one in report.results if one.loader.endswith("_val")}
    assert len(verdicts) == 7
    assert {*verdicts.values()} == {Status.FAILED if leak else Status.PASSED}, verdicts
