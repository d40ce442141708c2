"""Original images beside what the model sees. Standard library only.

What normalization makes of an image, and its statistics. Standard library only.

What the model sees is shown with a normalization undone: the measured one, so that only the order of channels remains,
or the one that the model expects, so that any other one shows.

The samples that findings name. Standard library only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from dataguard.core.figures import Pictures, Swatches, Undo, View
from dataguard.stats.normalization import KNOWN, Statistics, near_miss, read, recovered

if TYPE_CHECKING:
    from dataguard.core.model import Finding
    from dataguard.lab.core.records import Index, SampleRecord
    from dataguard.lab.images.chart_fit import Fit
    from dataguard.lab.lab import Lab


MOST_PAIRS = 3
"""Draws that are shown."""


def beside_original(lab: Lab, indices: Sequence[Index], view: View, words: str) -> Iterator[Pictures]:
    """Some samples, one in each row; a column for each different draw of the transforms, after the original.

    Without image files there are no originals.
    """
    rows = lab.pictures.shown(*indices, view=view)
    originals = any(row.original for row in rows)
    different = [list({picture.png: picture for picture in row.seen}.values())[:MOST_PAIRS] for row in rows]
    draws = max(map(len, different))
    seen = [f"random state {number}" for number in range(1, draws + 1)] if draws > 1 else ["what the model sees"]
    enlarged = any(row.closeup for row in rows)
    yield Pictures(
        f"{view.leaf} and its original" if originals else view.leaf,
        words,
        tuple(_name(lab, index) for index in indices),
        (*(["original"] if originals else []), *seen, *(["enlarged"] if enlarged else [])),
        tuple(
            (
                *((row.original,) if originals else ()),
                *(*pictures, *[None] * (draws - len(pictures))),
                *((row.closeup,) if enlarged else ()),
            )
            for row, pictures in zip(rows, different, strict=True)
        ),
    )


def _name(lab: Lab, index: Index) -> str:
    if index is None:
        return "a sample"
    return f"index {index}" if lab.facts.kind == "map" else f"sample {index} of the stream"


_COLOURS = {"R": "red", "G": "green", "B": "blue"}


def restored(lab: Lab, findings: Sequence[Finding]) -> Iterator[Pictures]:
    """The original beside what the model sees, with the measured normalization undone."""
    for fit in _fits(lab, findings):
        words = f"The channels are {fit.order}, and shown as if they were RGB."
        yield from _beside(lab, fit, fit.gains, fit.offsets, "its own normalization undone", words)


def as_expected(lab: Lab, findings: Sequence[Finding]) -> Iterator[Pictures]:
    """The original beside what the model sees, with the expected normalization undone."""
    for fit in _fits(lab, findings):
        wanted = _expected(lab, fit)
        numbers = wanted.of(len(fit.gains), bgr=fit.order == "BGR") if wanted else []
        low, high = lab.settings.contract.get("value_range", (0, 1))
        gains = [1 / 255 / std for _, std in numbers] or [(high - low) / 255] * len(fit.gains)
        offsets = [-mean / std for mean, std in numbers] or [low] * len(fit.gains)
        label = f"{wanted.name}'s normalization undone" if wanted and numbers else f"values from {low:g} to {high:g}"
        yield from _beside(lab, fit, gains, offsets, label, "Values are not those that the model expects.")


def statistics(lab: Lab, findings: Sequence[Finding]) -> Iterator[Swatches]:
    """The measured mean and standard deviation of each channel, and the expected ones."""
    for fit in _fits(lab, findings):
        mean, std = recovered(fit.gains, fit.offsets)
        rows = [("measured mean", mean), ("measured std", std)]
        wanted = _expected(lab, fit)
        numbers = wanted.of(len(fit.gains), bgr=fit.order == "BGR") if wanted else []
        if wanted and numbers:
            rows += [
                (f"{wanted.name} {name}", tuple(pair[place] for pair in numbers))
                for place, name in enumerate(("mean", "std"))
            ]
        names = fit.order if fit.order and len(fit.order) == len(mean) else ""
        channels = [_COLOURS.get(name, name) for name in names] or [f"channel {number}" for number in range(len(mean))]
        words = [f"{name} {', '.join(f'{number:.4g}' for number in numbers)}" for name, numbers in rows]
        yield Swatches(f"Normalization of {_path(lab, fit)}", f"{'; '.join(words)}.", tuple(channels), tuple(rows))


def _fits(lab: Lab, findings: Sequence[Finding]) -> list[Fit]:
    """The image leaf that each finding is about."""
    leaves = [leaf for finding in findings for leaf in list(finding.evidence.get("leaves", ()))[:1]]
    return [fit for fit in lab.images.charts.fits if _path(lab, fit) in leaves]


def _path(lab: Lab, fit: Fit) -> str:
    return f"{lab.images.charts.root}{fit.path}"


def _expected(lab: Lab, fit: Fit) -> Statistics | None:
    """The statistics of the contract, else those that resemble the measured ones."""
    if lab.images.expected:
        return lab.images.expected
    found = read(fit.gains, fit.offsets, list(KNOWN.values()))
    missed = near_miss(fit.gains, fit.offsets)
    return found.statistics if found else missed[0] if missed else None


def _beside(
    lab: Lab, fit: Fit, gains: Sequence[float], offsets: Sequence[float], label: str, words: str
) -> Iterator[Pictures]:
    view = View(_path(lab, fit), undo=Undo(tuple(gains), tuple(offsets), label))
    yield from beside_original(lab, [lab.images.charts.index], view, words)


MOST = 4
"""Samples, or pairs of them, that are shown."""


def non_finite(lab: Lab, findings: Sequence[Finding]) -> Iterator[Pictures]:
    """The first samples with NaN or Inf in an image."""
    del findings
    bad = [
        one
        for one in lab.epoch.samples
        if any((leaf.nan or leaf.inf) and len(leaf.shape or ()) > 1 for leaf in one.leaves)
    ]
    yield from _samples(lab, bad, "The first samples that contain NaN or Inf.")


def blank(lab: Lab, findings: Sequence[Finding]) -> Iterator[Pictures]:
    """The first samples whose images have a single colour."""
    del findings
    yield from _samples(lab, [one for one in lab.epoch.samples if one.blank], "The first blank samples.")


def of_file(lab: Lab, findings: Sequence[Finding]) -> Iterator[Pictures]:
    """The sample that each finding names, beside its file as viewers show it."""
    for finding in findings[:MOST]:
        index = finding.evidence.get("index", finding.evidence.get("position"))
        words = "The original is the file as an image viewer shows it."
        yield from beside_original(lab, [index], View(), words)


def leaked(lab: Lab, findings: Sequence[Finding]) -> Iterator[Pictures]:
    """Samples that are in two splits, side by side."""
    del findings
    for other in lab.splits.earlier:
        seen = lab.splits.compared_with(other)
        same = {pair: None for match in seen.matches for pair in match.compared if pair.same}
        pairs = list({(pair.earlier, pair.index): pair for pair in same}.values())[:MOST]
        if not pairs:
            continue
        one, two = lab.siblings[other.facts.name], lab
        theirs = one.pictures.shown(*(pair.earlier for pair in pairs), view=View())
        own = two.pictures.shown(*(pair.index for pair in pairs), view=View())
        rows = [
            (left.original or left.seen[0], right.original or right.seen[0])
            for left, right in zip(theirs, own, strict=True)
        ]
        names = one.facts.name, two.facts.name
        yield Pictures(
            f"Samples that are both in {names[0]} and in {names[1]}",
            "Each row shows one sample, as both splits hold it.",
            tuple(f"{names[0]} {pair.earlier} = {names[1]} {pair.index}" for pair in pairs),
            names,
            tuple(rows),
        )


def _samples(lab: Lab, chosen: Sequence[SampleRecord], words: str) -> Iterator[Pictures]:
    indices = list(dict.fromkeys(one.index for one in chosen if one.index is not None))[:MOST]
    if indices:
        yield from beside_original(lab, indices, View(), words)
