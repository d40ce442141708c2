"""Files of samples by their names: which belong together, and in which order frames are; no loader runs."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from dataguard.lab.provenance.frame_runs import find_frame_runs
from dataguard.lab.provenance.paired_files import find_paired_roles
from dataguard.lab.rows.origins import LeafReads, Read, SampleReads

COUNT = 12


def sampled(root: Path, *names: Sequence[str], varying: str = "") -> list[SampleReads]:
    """Samples that read the files with these names, which are made."""
    for name in (each for one in names for each in one):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    found = []
    for index, files in enumerate(zip(*names, strict=True)):
        reads = tuple(Read(str(root / name)) for name in files)
        drawn = frozenset(read for read in reads if varying and varying in read.source)
        found.append(SampleReads(index, reads, drawn))
    return found


def numbered(form: str, first: int = 0, step: int = 1) -> list[str]:
    """Names with the numbers of the samples."""
    return [form.format(first + step * number) for number in range(COUNT)]


@pytest.mark.parametrize(
    ("one", "other", "right"),
    [
        ("images/{}.png", "masks/{}_mask.png", COUNT),
        ("images/{:04}.JPG", "labels/{}.txt", COUNT),
        ("LR/X2/{:04}x2.png", "HR/{:04}.png", COUNT),
        ("{}_img.png", "{}_gt.png", COUNT),
        ("noisy/book_{0}7_snr{0}_fileid_{0}.wav", "clean/clean_fileid_{}.wav", COUNT),
        ("ep_{}/left/0001.png", "ep_{}/right/0001.png", COUNT),
        ("training/image_2/{:06}_10.png", "training/disp_occ_0/{:06}_10.png", COUNT),
        ("left_{}/a.png", "right_{}/a.png", COUNT),
        ("case_{}_0000.nii.gz", "case_{}_0001.nii.gz", COUNT),
        ("aachen/aachen_{:06}_leftImg8bit.png", "gt/aachen_{:06}_gtFine_labelIds.png", COUNT),
    ],
)
def test_names_that_correspond(tmp_path: Path, one: str, other: str, right: int) -> None:
    (roles,) = find_paired_roles(sampled(tmp_path, numbered(one), numbered(other)))
    assert (roles.right, roles.files, roles.shared) == (right, (COUNT, COUNT), COUNT)
    turned = numbered(other)[1:] + numbered(other)[:1]
    (roles,) = find_paired_roles(sampled(tmp_path, numbered(one), turned))
    assert roles.right == 0
    assert roles.wrong[0].partner == str(tmp_path / numbered(other)[0])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (numbered("trainA/n02381_{}.jpg", 3, 5), numbered("trainB/n02391_{}.jpg", 1, 7)),
        (numbered("{}.png"), numbered("{}.png", 1)),  # two frames of one folder
        (numbered("images/{}.png"), ["captions/all.txt"] * COUNT),
        (numbered("images/{}.png"), [f"classes/{number % 3}.txt" for number in range(COUNT)]),
        (["a/" + name for name in "qwertzuiopas"], ["b/" + name for name in "dfghjklyxcvb"]),
    ],
)
def test_names_that_do_not_correspond(tmp_path: Path, one: list[str], other: list[str]) -> None:
    assert find_paired_roles(sampled(tmp_path, one, other)) == ()


def test_a_partner_that_is_drawn_is_no_role(tmp_path: Path) -> None:
    samples = sampled(tmp_path, numbered("a/{}.png"), numbered("b/{}.png"), varying="/b/")
    assert find_paired_roles(samples) == ()


def test_pairs_that_are_drawn_together_are_roles(tmp_path: Path) -> None:
    before, after = numbered("scene_{}/80_0.png", 3, 5), numbered("scene_{}/80_1.png", 3, 5)
    (roles,) = find_paired_roles(sampled(tmp_path, before, after, varying="/scene_"))
    assert roles.right == COUNT
    (roles,) = find_paired_roles(sampled(tmp_path, before, after[1:] + after[:1], varying="/scene_"))
    assert (roles.right, roles.wrong[0].partner) == (0, str(tmp_path / after[0]))
    assert find_paired_roles(sampled(tmp_path, before, after, varying="/scene_8/80_0")) == (), "drawn one by one"
    frames = sampled(tmp_path, numbered("rgb/{}.png"), numbered("pose/{}.png"), varying=".png")
    assert find_paired_roles(frames) == (), "frames of a clip"
    (roles,) = find_paired_roles([replace(sample, again=sample.reads) for sample in frames])
    assert roles.example == tuple(read.source for read in frames[0].reads), "windows of the same files are drawn"


@pytest.mark.parametrize(("shift", "returning", "repeated"), [(0, True, False), (1, False, True)])
def test_files_that_are_in_several_samples(tmp_path: Path, shift: int, returning: bool, repeated: bool) -> None:
    one, other = numbered("a/{}.png"), numbered("b/{}.png")
    (roles,) = find_paired_roles(sampled(tmp_path, one + one, other + other[shift:] + other[:shift]))
    assert (roles.returning, roles.repeated) == (returning, repeated)


def test_members_of_an_archive(tmp_path: Path) -> None:
    path = tmp_path / "all.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name in numbered("images/{}.png") + numbered("masks/{}.png"):
            archive.writestr(name, "")
    samples = [
        SampleReads(n, tuple(Read(f"{path}::{part}/{n}.png") for part in ("images", "masks"))) for n in range(COUNT)
    ]
    (roles,) = find_paired_roles(samples)
    assert roles.right == COUNT


@pytest.mark.parametrize(
    ("names", "numbers", "text", "words"),
    [
        (["v/frame_1.png", "v/frame_10.png", "v/frame_2.png"], (1, 10, 2), (0, 1, 2), ("frame", "v", True)),
        (["v/2.png", "v/3.png", "v/10.png"], (2, 3, 10), (1, 2, 0), ("", "v", True)),
        (["t_0.5.png", "t_0.25.png", "t_0.75.png"], (0.5, 0.25, 0.75), (1, 0, 2), ("t", "", True)),
        (["ep_1/a.png", "ep_10/a.png", "ep_2/a.png"], (1, 10, 2), (0, 1, 2), ("ep", "", True)),
        (["cam2_frame1.png", "cam2_frame10.png", "cam2_frame2.png"], (1, 10, 2), (0, 1, 2), ("frame", "", True)),
    ],
)
def test_numbered_files(
    tmp_path: Path, names: list[str], numbers: tuple[float, ...], text: tuple[int, ...], words: tuple[str, str, bool]
) -> None:
    (sample,) = sampled(tmp_path / "data", *[[name] for name in names])
    (run,) = find_frame_runs([sample])
    above = run.above[0] if words[1] else ""
    assert (run.numbers, run.text, (run.word, above, run.single)) == (numbers, text, words)


def test_entries_of_a_database_are_named_by_their_keys() -> None:
    places = [*range(1, COUNT), 0]
    samples = [
        SampleReads(number, (Read("/data.mdb", (f"image-{number}",)), Read("/data.mdb", (f"label-{place}",))))
        for number, place in enumerate(places)
    ]
    keys = [f"{kind}-{number}" for kind in ("image", "label") for number in range(COUNT)]
    (roles,) = find_paired_roles(samples, {"/data.mdb": keys})
    assert (roles.right, roles.files, roles.shared) == (0, (COUNT, COUNT), COUNT)
    assert roles.wrong[0].files == ("/data.mdb::image-0", "/data.mdb::label-1")
    assert roles.wrong[0].partner == "/data.mdb::label-0"


def test_positions_of_a_leaf_count_more_than_the_order_of_reading(tmp_path: Path) -> None:
    (sample,) = sampled(tmp_path, ["1.png"], ["10.png"], ["2.png"])
    one, ten, two = sample.reads
    sorted_later = SampleReads(0, sample.reads, leaves=(LeafReads("['clip']", 0, (one, two, ten)),))
    (run,) = find_frame_runs([sorted_later])
    assert (run.leaf, run.numbers) == ("['clip']", (1, 2, 10))
