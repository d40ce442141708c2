"""Colour charts: the response of a loader to images of known colours, for `lab.images`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from dataguard.lab.core.index import Index
from dataguard.lab.core.source_location import Place
from dataguard.lab.images.chart_fit import Fit
from dataguard.lab.images.colour_chart_reader import SLOW_TRIES, TRIES, ColourChartReader, fits_of
from dataguard.lab.images.painter import Painter
from dataguard.lab.images.weight_statistics import statistics_of
from dataguard.lab.reading.leaf_root import Rooted
from dataguard.lab.subject import Subject
from dataguard.model import NotApplicable, Undecided, without_empty
from dataguard.stats.normalization import KNOWN, Statistics, applied, declared, recovered, shown
from dataguard.targets.variants import Loader

ITEMS = 24
"""The number of different samples, in case some are cached from earlier reads."""


@dataclass(frozen=True, slots=True)
class Colours(Rooted):
    """How image leaves follow the colours of charts.

    `source` names where images were replaced; it is a decoder if `decoded`, so that the channel order is known. `grey`
    images have no colours. `fits` are the leaves that change with the colour by a fixed linear function. `collated`
    leaves are those of a batch of one, from collate_fn; `index` is that of one sample. `at` is the line that decodes.
    """

    source: str
    decoded: bool
    grey: bool
    fits: tuple[Fit, ...]
    charts: int
    collated: bool
    index: Index
    at: Place | None

    def evidence(self, fit: Fit) -> dict[str, object]:
        """The measurements of a leaf, for a finding."""
        mean, std = recovered(fit.gains, fit.offsets)
        return without_empty(
            {
                "charted via": self.source,
                "channel order": fit.order,
                "mean": shown(mean),
                "std": shown(std),
                "values of black and white": [shown(fit.offsets), shown(fit.white)],
                "charts": self.charts,
                "fit error": float(f"{fit.residual:.2g}"),
            }
        )

    def summary(self, fit: Fit, statistics: Sequence[Statistics]) -> str:
        """The measurements of a leaf in one line."""
        order = fit.order or ("grey" if self.grey or len(fit.gains) == 1 else "mixed")
        numbers = applied(fit.gains, fit.offsets, statistics)
        accuracy = f"fit error {fit.residual:.1g}" if fit.exact else "measured where jitter is clipped"
        return f"channels {order}, {numbers}, {accuracy}, {self.charts} charts"

    @property
    def exercised(self) -> dict[str, int]:
        """How much was inspected."""
        return {"charts": self.charts, "leaves": len(self.fits)}


class Images:
    """Observations of image colours; each observation is made once."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject

    @property
    def expected(self) -> Statistics | None:
        """The statistics in the contract, if any. Raises Undecided for unknown weights."""
        contract = self._subject.settings.contract
        name = contract.get("normalization")
        if not isinstance(name, str) or name in KNOWN:
            return declared(contract)
        return self._subject.vary(("weights", name), lambda _: statistics_of(name))

    @property
    def candidates(self) -> list[Statistics]:
        """The statistics that may be intended: those of the contract first, then those of published models."""
        return [*filter(None, [self.expected]), *KNOWN.values()]

    @property
    def charts(self) -> Colours:
        """The response to the charts.

        Raises NotApplicable if no image is decoded, or nothing in a sample follows its colour, and Undecided if nothing
        follows it linearly.
        """
        subject = self._subject
        subject.need_images()
        tries = subject.sparing(TRIES, SLOW_TRIES, 4)
        subject.afford_reads("colours", tries)
        indices, batched = subject.epoch.asked(ITEMS) if subject.facts.kind == "map" else (), subject.facts.batched
        run = partial(run_charts, batched=batched, tries=tries, decoded_before=subject.decoded_before)
        return subject.vary("colours", lambda folder: run(subject.build, folder, indices))


def run_charts(
    build: Callable[..., Loader],
    folder: Path,
    indices: Sequence[Index],
    *,
    batched: bool,
    tries: int = TRIES,
    decoded_before: bool = False,
) -> Colours:
    """Read samples with their images replaced by charts, in this disposable process."""
    painter = Painter()
    painter.install()
    reader = ColourChartReader(build, folder, indices, painter, batched=batched, tries=tries)
    if not reader.finds_an_image(decoded_before=decoded_before):
        raise NotApplicable("no colour or grey image is decoded or passed to a transform while a sample is read")
    responses = reader.responses()
    fits = fits_of(responses)
    if fits and not any(fits.values()):
        reader.forget()
        responses = reader.responses()
        fits = fits_of(responses)
    clear = tuple(one for one in fits.values() if one)
    if not fits:
        raise NotApplicable("nothing in the sample follows the colour of its image")
    if not clear:
        raise Undecided(f"sample{next(iter(fits))} is not a fixed linear function of the image colour")
    at = painter.places.get(reader.source)
    return Colours(
        reader.source, reader.decoded, painter.grey, clear, len(responses), reader.collated, reader.index, at
    )
