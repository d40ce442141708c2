"""Figures of what normalization makes of an image, and of its statistics. Standard library only.

What the model sees is shown with a normalization undone: the measured one, so that only the order of channels remains,
or the one that the model expects, so that any other one shows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from dataguard.checks.common.sample_figures import beside_original
from dataguard.core.figures import Pictures, Swatches, Undo, View
from dataguard.stats.normalization import KNOWN, Statistics, near_miss, read, recovered

if TYPE_CHECKING:
    from dataguard.core.model import Finding
    from dataguard.lab.images.chart_fit import Fit
    from dataguard.lab.lab import Lab


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
                (f"{wanted.name} {name}", tuple(pair[number] for pair in numbers))
                for number, name in enumerate(("mean", "std"))
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
    reading = read(fit.gains, fit.offsets, list(KNOWN.values()))
    missed = near_miss(fit.gains, fit.offsets)
    return reading.statistics if reading else missed[0] if missed else None


def _beside(
    lab: Lab, fit: Fit, gains: Sequence[float], offsets: Sequence[float], label: str, words: str
) -> Iterator[Pictures]:
    view = View(_path(lab, fit), undo=Undo(tuple(gains), tuple(offsets), label))
    yield from beside_original(lab, [lab.images.charts.index], view, words)
