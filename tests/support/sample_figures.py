"""A figure of each kind, with images made here: no library draws them."""

from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Callable

from dataguard.core.figures import Box, Figure, Line, Matrix, Picture, Pictures, Plot, Span, Swatches, Timeline


def png(width: int, height: int, pixel: Callable[[int, int], tuple[int, ...]], channels: int = 3) -> bytes:
    """A PNG of a function of column and row; `channels` is 3, or 4 with alpha."""
    rows = b"".join(b"\0" + bytes(v for x in range(width) for v in pixel(x, y)) for y in range(height))
    head = struct.pack(">IIBBBBB", width, height, 8, 2 if channels == 3 else 6, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )


def scene(shift: int, *, width: int = 160, height: int = 120) -> bytes:
    """A hill under a sky with a sun, moved by `shift` pixels."""

    def pixel(x: int, y: int) -> tuple[int, int, int]:
        if (x + shift - 115) ** 2 + (y - 30) ** 2 < 150:
            return 250, 210, 90
        if y > 70 + ((x + shift) % 80 - 40) ** 2 // 60:
            return 60 + y // 3, 110 + y // 4, 70
        return 120 + y // 2, 170 + y // 3, 230

    return png(width, height, pixel)


def noise(seed: int, *, width: int = 224, height: int = 224) -> bytes:
    """An image that does not compress, as a photograph does not."""
    data = random.Random(seed).randbytes(3 * width * height)
    return png(width, height, lambda x, y: tuple(data[3 * (y * width + x) : 3 * (y * width + x) + 3]))


def contact_sheet() -> Pictures:
    """One item under two workers and two epochs: workers draw the same crop."""
    cells = tuple(tuple(Picture(scene(40 * epoch), "item 17") for epoch in range(3)) for _ in range(2))
    return Pictures(
        "Item 17 under each worker and epoch",
        "Workers 0 and 1 return identical crops in every epoch.",
        ("worker 0", "worker 1"),
        ("epoch 0", "epoch 1", "epoch 2"),
        cells,
    )


def overlays() -> Pictures:
    """An image beside what the model sees, with a mask and boxes that were not flipped with it."""
    mask = png(160, 120, lambda x, y: (220, 30, 120, 130) if y > 70 + (x % 80 - 40) ** 2 // 60 else (0, 0, 0, 0), 4)
    boxes = (Box(0.62, 0.12, 0.83, 0.38, "sun"), Box(0.05, 0.6, 0.5, 0.98, "hill <b>"))
    small = png(24, 24, lambda x, y: (10 * x, 10 * y, 90))
    return Pictures(
        "Original and augmented sample",
        "The image is flipped horizontally, its boxes are not.",
        ("dataset[3]",),
        ("original", "as the model sees it", "thumbnail", "none"),
        ((Picture(scene(0), "", boxes, mask), Picture(scene(80), "flipped", boxes), Picture(small, "24 × 24"), None),),
    )


def swatches() -> Swatches:
    """Recovered statistics beside the expected ones."""
    return Swatches(
        "Normalization",
        "The mean is that of ImageNet in reverse order of channels.",
        ("R", "G", "B"),
        (
            ("mean, recovered", (0.406, 0.456, 0.485)),
            ("mean, ImageNet", (0.485, 0.456, 0.406)),
            ("std, recovered", (0.225, 0.224, 0.229)),
            ("pixel", (0.1, 0.2, float("nan"))),
        ),
    )


def shard_map() -> Matrix:
    """Samples by rank and worker."""
    counts = ((128, 128, 128, 0), (128, 64, 64, 0), (1024, 0, 0, 0), (128, 128, 128, 128))
    ranks, workers = (tuple(f"{name} {number}" for number in range(4)) for name in ("rank", "worker"))
    return Matrix("Samples by rank and worker", "Rank 2 reads everything with one worker.", ranks, workers, counts)


def orders(count: int = 2000) -> Plot:
    """The order of indices in two epochs."""
    shuffled = random.Random(1).sample(range(count), count)
    lines = tuple(
        Line(f"epoch {epoch}", tuple((float(x), float(y)) for x, y in enumerate(order)))
        for epoch, order in enumerate((range(count), shuffled))
    )
    return Plot("Order of indices", "Epoch 0 is sequential, epoch 1 is shuffled.", "position", "index", lines, False)


def memory() -> Plot:
    """Memory of each worker while samples are read."""
    names = ("worker 0", "worker 1", "worker 2", "main process")

    def megabytes(number: int, x: int) -> float:
        return 210.0 + 15 * number + (14 - 4 * number) * x + (x * 7919 * (number + 1)) % 9

    lines = tuple(
        Line(name, tuple((x * 64.0, megabytes(number, x)) for x in range(30))) for number, name in enumerate(names)
    )
    return Plot("Memory of each process", "Workers grow by 66 MB per 1,000 samples.", "samples", "MB", lines)


def sweep() -> Plot:
    """Throughput by number of workers, with spread."""
    points = ((0.0, 130.0), (1.0, 125.0), (2.0, 240.0), (4.0, 420.0), (8.0, 433.0))
    spread = tuple((y * 0.9, y * 1.07) for _, y in points)
    line = Line("train", points, spread)
    return Plot("Throughput", "4 workers are enough.", "workers", "samples per second", (line,))


def timeline() -> Timeline:
    """What each worker did when."""
    lanes = []
    for worker in range(3):
        spans, at = [], 0.02 * worker
        for batch in range(8):
            spans.append(Span(at, at + 0.11 + 0.02 * worker, "read", f"batch {batch * 3 + worker}"))
            spans.append(Span(at + 0.11 + 0.02 * worker, at + 0.15 + 0.02 * worker, "wait"))
            at += 0.15 + 0.02 * worker
        lanes.append((f"worker {worker}", tuple(spans)))
    steps = tuple(Span(0.17 * n + 0.1, 0.17 * n + 0.16, "step") for n in range(8))
    return Timeline("Batches by worker", "Worker 2 is the slowest.", (*lanes, ("main process", steps)))


def every() -> tuple[Figure, ...]:
    """One figure of each kind, and of each form."""
    return contact_sheet(), overlays(), swatches(), shard_map(), orders(), memory(), sweep(), timeline()
