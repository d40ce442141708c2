"""Headers of image files, files written without a library, and files that are replaced while samples are read."""

from __future__ import annotations

import io
import subprocess
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from torchvision.io import decode_image

from dataguard.core.model import Status
from dataguard.engine import scan
from dataguard.lab.decoding.file_substitution import IMAGES, DecodedFile, EnoughFiles, FileSubstitution
from dataguard.lab.decoding.image_files import (
    as_rgb,
    decoded,
    in_format_of,
    png,
    read_header,
    reordered_palette,
    tiff,
    with_orientation,
)
from dataguard.lab.files.file_survey import (
    Bypassed,
    ImageReader,
    MediaFile,
    SampleFiles,
    _without_preparation,
    image_leaf,
)
from dataguard.lab.process.isolation import isolated
from dataguard.settings.settings import Settings
from tests.loaders.kinds import KINDS, interlaced

COLOURS = np.random.default_rng(0).integers(0, 256, (20, 30, 3)).astype(np.uint8)
DEEP = np.random.default_rng(1).integers(0, 65536, (20, 30)).astype(np.uint16)


def saved(image: Image.Image, form: str, **options: object) -> bytes:
    file = io.BytesIO()
    image.save(file, form, **options)
    return file.getvalue()


PHOTOGRAPH = Image.fromarray(COLOURS)


@pytest.mark.parametrize(
    ("content", "form", "pixels", "bits"),
    [
        (saved(PHOTOGRAPH, "JPEG"), "JPEG", "RGB", 8),
        (saved(PHOTOGRAPH, "JPEG", progressive=True), "JPEG", "RGB", 8),
        (saved(PHOTOGRAPH, "JPEG")[:700], "JPEG", "RGB", 8),
        (saved(PHOTOGRAPH.convert("CMYK"), "JPEG"), "JPEG", "CMYK", 8),
        (saved(PHOTOGRAPH.convert("L"), "JPEG"), "JPEG", "grey", 8),
        (saved(PHOTOGRAPH, "PNG"), "PNG", "RGB", 8),
        (interlaced(COLOURS), "PNG", "RGB", 8),
        (saved(PHOTOGRAPH.convert("RGBA"), "PNG"), "PNG", "RGB with alpha", 8),
        (saved(PHOTOGRAPH.convert("LA"), "PNG"), "PNG", "grey with alpha", 8),
        (saved(PHOTOGRAPH.convert("P"), "PNG"), "PNG", "palette", 8),
        (saved(PHOTOGRAPH.convert("1"), "PNG"), "PNG", "grey", 8),
        (saved(Image.fromarray(DEEP), "PNG"), "PNG", "grey", 16),
        (saved(Image.fromarray(DEEP), "TIFF"), "TIFF", "grey", 16),
        (saved(PHOTOGRAPH, "TIFF"), "TIFF", "RGB", 8),
        (saved(Image.fromarray(DEEP.astype(np.float32)), "TIFF"), "TIFF", "grey", 0),
        (saved(PHOTOGRAPH, "WEBP"), "WebP", "RGB", 8),
        (saved(PHOTOGRAPH, "WEBP", lossless=True), "WebP", "RGB", 8),
        (saved(PHOTOGRAPH.convert("RGBA"), "WEBP", exif=Image.Exif()), "WebP", "RGB", 8),
        (saved(PHOTOGRAPH, "GIF"), "GIF", "palette", 8),
        (saved(PHOTOGRAPH, "BMP"), "BMP", "RGB", 8),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_header_says_what_a_file_is(content: bytes, form: str, pixels: str, bits: int) -> None:
    header = read_header(content)
    assert header is not None
    assert (header.format, header.size, header.bits) == (form, (30, 20), bits)
    assert header.pixels == pixels
    assert not header.rotated


def test_rows_of_an_interlaced_file_come_in_their_order() -> None:
    assert (np.asarray(Image.open(io.BytesIO(interlaced(COLOURS)))) == COLOURS).all()


@pytest.mark.scan
def test_files_of_every_kind_are_observed() -> None:
    checks = ("DG001", "DG505", "DG508", "DG509", "DG510")
    # On a busy machine, fewer files are read in the share of the usual budget.
    report = scan("tests.loaders.kinds:loaders", Settings(select=checks, budget=600))
    results = {(result.loader, result.code): result for result in report.results}
    failed = {place for place, result in results.items() if result.findings}
    assert failed == {("stored", "DG508"), ("stored", "DG510")}
    assert results["opencv", "DG510"].exercised == {"files": 2 * len(KINDS) + 8, "modes": 5}
    for loader in ("pillow", "opencv"):
        assert "channels RGB, scale 1/255" in str(results[loader, "DG505"].reason)
    assert {
        finding.message.partition(" (")[2].partition(")")[0] for finding in results["stored", "DG510"].findings
    } == {*("CMYK", "grey", "palette", "RGB with alpha")}
    assert "7 of 26 files need rotation" in results["stored", "DG508"].findings[0].message
    assert results["deep", "DG509"].exercised["16-bit files"] == 8


@pytest.mark.scan
def test_photographs_of_other_packages_are_observed() -> None:
    for package in ("skimage", "sklearn"):
        pytest.importorskip(package)
    report = scan("tests.loaders.photographs:loaders", Settings(select=("DG001", "DG5")))
    failed = {(result.loader, result.code) for result in report.results if result.findings}
    assert failed == {("orientation_ignored", "DG508"), ("bgr", "DG505"), ("divided_twice", "DG506")}
    found = {result.code: result for result in report.results if result.loader == "orientation_applied"}
    assert found["DG508"].exercised == {"files": 24, "orientations": 1}
    assert "mean [0.485, 0.456, 0.406]" in str(found["DG505"].reason)


@pytest.mark.scan
def test_files_that_are_rewritten_for_every_loader_are_the_same_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANEW", str(tmp_path))
    report = scan("tests.loaders.anew:loaders", Settings(select=("DG001", "DG504", "DG506", "DG508", "DG509", "DG510")))
    failed = {(result.loader, result.code) for result in report.results if result.findings}
    assert failed == {
        ("stored", "DG508"),
        ("numbers", "DG510"),
        ("white", "DG509"),
        ("blank", "DG509"),
        ("shallow", "DG506"),
    }
    assert not report.count(Status.INCONCLUSIVE)


@pytest.mark.parametrize("content", [b"", b"\xff\xd8", b"\x89PNG\r\n\x1a\n", b"II*\0", b"no image at all", bytes(64)])
def test_what_is_no_image_has_no_header(content: bytes) -> None:
    assert read_header(content) is None
    assert with_orientation(content, 6) is None


@pytest.mark.parametrize("form", ["JPEG", "PNG", "TIFF", "WEBP"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_an_orientation_is_read_and_written(form: str, orientation: int) -> None:
    exif = Image.Exif()
    exif[274] = orientation
    content = (
        saved(PHOTOGRAPH, form, exif=exif) if form != "TIFF" else saved(PHOTOGRAPH, form, tiffinfo={274: orientation})
    )
    header = read_header(content)
    assert header is not None
    assert (header.orientation, header.rotated) == (orientation, orientation != 1)
    other = with_orientation(content, 9 - orientation)
    assert other is not None
    image = Image.open(io.BytesIO(other))
    assert image.getexif()[274] == 9 - orientation
    if form != "TIFF":  # which Pillow rotates by itself
        assert (np.asarray(image) == np.asarray(Image.open(io.BytesIO(content)))).all()


def test_a_photograph_without_one_is_given_an_orientation() -> None:
    content = with_orientation(saved(PHOTOGRAPH, "JPEG"), 6)
    assert content is not None
    assert Image.open(io.BytesIO(content)).getexif()[274] == 6
    upright = cv2.imdecode(np.frombuffer(content, np.uint8), cv2.IMREAD_COLOR)
    assert upright is not None
    assert upright.shape == (30, 20, 3)
    assert with_orientation(saved(PHOTOGRAPH, "PNG"), 6) is None


def test_an_orientation_may_be_left_over() -> None:
    exif = Image.Exif()
    exif[274] = 6
    exif[0x8769] = {0xA002: 20, 0xA003: 30}
    header = read_header(saved(PHOTOGRAPH, "JPEG", exif=exif))
    assert header is not None
    assert (header.orientation, header.stale, header.rotated) == (6, True, False)


@pytest.mark.parametrize(
    "pixels", [COLOURS, COLOURS[..., 0], DEEP, np.dstack([DEEP] * 3), np.dstack([COLOURS, COLOURS[..., 0]])]
)
def test_files_written_without_a_library_hold_their_pixels(pixels: np.ndarray) -> None:
    contents = [png(pixels), *([tiff(pixels)] if pixels.ndim == 2 or pixels.shape[2] == 3 else [])]
    for content in contents:
        found = decoded(content)
        assert found is not None
        assert np.array_equal(found, pixels)
        assert read_header(in_format_of(content, pixels)) == read_header(content)
    if pixels.dtype == np.uint8 or pixels.ndim == 2:
        assert (np.asarray(Image.open(io.BytesIO(png(pixels)))) == pixels).all()


def test_a_reordered_palette_looks_the_same() -> None:
    content = saved(PHOTOGRAPH.convert("P"), "PNG")
    palette = reordered_palette(content)
    assert palette is not None
    one, other = (Image.open(io.BytesIO(file)) for file in (palette.original, palette.reversed))
    assert (np.asarray(one.convert("RGB")) == np.asarray(Image.open(io.BytesIO(content)).convert("RGB"))).all()
    assert (np.asarray(one.convert("RGB")) == np.asarray(other.convert("RGB"))).all()
    assert (np.asarray(one) != np.asarray(other)).all()
    assert palette.used == len(np.unique(np.asarray(one)))
    assert reordered_palette(saved(PHOTOGRAPH, "PNG")) is None
    assert as_rgb(b"nothing") is None


@pytest.mark.scan
@pytest.mark.filterwarnings("ignore:The image decoding:DeprecationWarning")
def test_a_file_is_substituted_however_it_is_passed(tmp_path: Path) -> None:
    torch.set_num_threads(1)
    content, other = png(COLOURS), png(255 - COLOURS)
    path = tmp_path / "user" / "image.png"
    path.parent.mkdir()
    path.write_bytes(content)
    buffer = np.frombuffer(content, np.uint8)

    def run() -> tuple[list[bool], int, bool]:
        substitution = FileSubstitution(tmp_path, IMAGES)
        substitution.install()
        substitution.substitute(str(path.resolve()), content, other)
        seen = [
            np.asarray(Image.open(path)),
            np.asarray(Image.open(io.BytesIO(content))),
            np.asarray(Image.open(path.open("rb"))),
            cv2.imread(str(path))[..., ::-1],  # type: ignore[index]
            cv2.imdecode(buf=buffer, flags=cv2.IMREAD_COLOR)[..., ::-1],  # type: ignore[index]
            decode_image(str(path)).permute(1, 2, 0).numpy(),
            decode_image(torch.from_numpy(buffer.copy())).permute(1, 2, 0).numpy(),
            decoded(path.read_bytes()),
        ]
        substitution.enough = 1
        try:
            cv2.imread(str(path))
        except EnoughFiles:
            cv2.imread(str(path))  # as a dataset does that catches everything and reads on: it is not stopped again
            replaced = [bool((one == 255 - COLOURS).all()) for one in seen]
            return replaced, len(substitution.files), substitution.substituted
        return [], 0, False

    replaced, files, substituted = isolated(run, tmp_path, timeout=60, allowed=120)
    assert replaced == [True] * 8
    assert files >= 1
    assert substituted


class Opened(Dataset):
    """A photograph that another process opens too, while it is read for the first few times."""

    def __init__(self, folder: Path, times: int) -> None:
        self.path, self.reads, self.times = folder / "image.png", folder / "reads", times

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> np.ndarray:
        with self.reads.open("a") as reads:
            reads.write(".")
        if self.reads.stat().st_size <= self.times:
            subprocess.run(["cat", self.path], stdout=subprocess.DEVNULL, check=True)
        return np.asarray(Image.open(self.path))


@pytest.mark.scan
@pytest.mark.parametrize(("times", "bypassed"), [(2, False), (100, True)])
def test_only_a_file_that_is_opened_each_time_bypasses_its_decoder(tmp_path: Path, times: int, bypassed: bool) -> None:
    torch.set_num_threads(1)
    content, other = png(COLOURS), png(255 - COLOURS)
    header = read_header(content)
    assert header is not None
    (tmp_path / "user").mkdir()
    dataset = Opened(tmp_path / "user", times)
    dataset.path.write_bytes(content)

    def run() -> bool:
        reader = ImageReader(lambda: DataLoader(dataset), tmp_path, (), IMAGES, image_leaf)
        try:
            reader.read_swapped(MediaFile(0, 0, str(dataset.path), header), content, other)
        except Bypassed:
            return True
        return False

    assert isolated(run, tmp_path, timeout=60, allowed=120) is bypassed


@pytest.mark.parametrize(("counts", "left"), [((9, 2, 2, 1), 3), ((2, 2, 3), 3), ((9, 2), 2), ((0, 0, 0), 3)])
def test_what_the_first_sample_reads_for_all_is_no_file_of_its_own(counts: tuple[int, ...], left: int) -> None:
    samples = [
        SampleFiles(index, tuple(DecodedFile(read_header(b""), f"{index}_{number}.png") for number in range(count)))
        for index, count in enumerate(counts)
    ]
    assert _without_preparation(samples) == samples[-left:]
