"""Colour charts: the response of a loader to images of known colours, for `lab.images`.

Charts replace what decoders return while a sample is read or, if samples are cached, while the loader is built. If
nothing is decoded, they replace arrays passed to `Image.fromarray` or to the dataset's own transforms; the channel
order is then unknown.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from dataguard.core.model import Location, NotApplicable, Undecided, without_empty
from dataguard.lab.core.object_graph import reachable
from dataguard.lab.core.records import Index
from dataguard.lab.core.source_location import Place
from dataguard.lab.culprit.construction import place_of_part, places_of_construction
from dataguard.lab.images.chart_fit import (
    BLACK,
    PURE,
    WHITE,
    ChannelOrder,
    Fit,
    Uneven,
    channel_order,
    statistics_of,
    uneven,
)
from dataguard.lab.images.chart_reader import IMAGE_TRIES, MOST_ITEMS, RED, SLOW_TRIES, ColourChartReader, fits_of
from dataguard.lab.images.colour_lines import ColourStep, steps_of
from dataguard.lab.images.grey_curves import (
    FEWEST_DRAWS,
    FEWEST_READS,
    MOST_DRAWS,
    GreyCurves,
    read_curves,
    wrapping_line,
)
from dataguard.lab.images.painter import IMAGE_DECODERS, Painter
from dataguard.lab.images.scrambled import first_scrambled, scrambled_paths, shares_of
from dataguard.lab.provenance.provenance import is_unread
from dataguard.lab.reading.sample_reader import Rooted
from dataguard.lab.subject import Subject
from dataguard.settings.parsers import EVALUATION
from dataguard.stats.normalization import KNOWN, Statistics, applied, declared, recovered, shown
from dataguard.targets.variants import Loader


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


class Charted(NamedTuple):
    """How leaves follow the charts, or why no measurement of one is given, and their orders of channels by path.

    The orders are those of leaves with a fit or without; none where no decoder was replaced, as stored arrays have
    unknown ones. `scrambled` are the paths of leaves whose pixels were reshaped to another layout, `uneven` are those
    that are not scaled in all draws.
    """

    colours: Colours | Undecided
    orders: Mapping[str, ChannelOrder]
    scrambled: tuple[str, ...] = ()
    uneven: tuple[Uneven, ...] = ()


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
        return self._subject.observe(("weights", name), lambda _: statistics_of(name))

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
        colours = self._charted.colours
        if isinstance(colours, Undecided):
            raise colours
        return colours

    @property
    def orders(self) -> Mapping[str, ChannelOrder]:
        """The order of the channels of each leaf that follows the colours of charts, linearly or not, by path.

        Raises NotApplicable if no image is decoded, or nothing in a sample follows its colour.
        """
        return self._charted.orders

    @property
    def scrambled(self) -> tuple[str, ...]:
        """The paths of image leaves of which each channel holds pixels of all three colours.

        Raises NotApplicable if no image is decoded, or nothing in a sample follows its colour.
        """
        return self._charted.scrambled

    @property
    def uneven(self) -> tuple[Uneven, ...]:
        """Image leaves whose range differs between draws by the factor of a scale."""
        return self._charted.uneven

    @property
    def scrambling_line(self) -> Location | None:
        """The line of the user's code after which pixels are in another layout; None if no line is seen to."""
        subject = self._subject
        indices, batched = subject.epoch.asked(MOST_ITEMS) if subject.facts.kind == "map" else (), subject.facts.batched
        run = partial(find_scrambling_line, batched=batched, decoded_before=subject.decoded_before)
        return subject.line_of("scrambles", lambda folder: run(subject.build, folder, indices))

    @property
    def _charted(self) -> Charted:
        subject = self._subject
        subject.need_images()
        tries = subject.affordable_reads(IMAGE_TRIES, SLOW_TRIES, 4)
        subject.afford_reads("colours", tries)
        indices, batched = subject.epoch.asked(MOST_ITEMS) if subject.facts.kind == "map" else (), subject.facts.batched
        unread = is_unread(subject)
        run = partial(run_charts, batched=batched, tries=tries, decoded_before=subject.decoded_before, unread=unread)
        return subject.observe("colours", lambda folder: run(subject.build, folder, indices))

    @property
    def curves(self) -> GreyCurves:
        """How a sample follows greys from black to white, pixel by pixel.

        Raises NotApplicable if no image is decoded, or nothing in a sample follows its brightness.
        """
        subject = self._subject
        subject.need_images()
        with contextlib.suppress(Undecided):
            self.charts  # noqa: B018 - what shows no colours shows no greys
        subject.afford_reads("grey curves", FEWEST_READS)
        indices, batched = subject.epoch.asked(MOST_ITEMS) if subject.facts.kind == "map" else (), subject.facts.batched
        most = FEWEST_DRAWS if subject.facts.role in EVALUATION else MOST_DRAWS
        unread = is_unread(subject)
        run = partial(read_curves, batched=batched, decoded_before=subject.decoded_before, unread=unread, most=most)
        return subject.observe("grey curves", lambda folder: run(subject.build, folder, indices))

    def wrapping_line(self, curves: GreyCurves) -> Location | None:
        """The line of the user's code after which values have wrapped round; None if no line is seen to."""
        subject = self._subject
        run = partial(wrapping_line, batched=subject.facts.batched, decoded_before=subject.decoded_before)
        return subject.line_of("wraps", lambda folder: run(subject.build, folder, curves))

    @property
    def steps(self) -> tuple[ColourStep, ...]:
        """The lines of the user's code after which black, white or red of a sample change, and what they are then."""
        return self.steps_in(0)

    def steps_in(self, draw: int) -> tuple[ColourStep, ...]:
        """The same in another draw."""
        subject = self._subject
        indices, batched = subject.epoch.asked(MOST_ITEMS) if subject.facts.kind == "map" else (), subject.facts.batched
        run = partial(
            trace_colours,
            batched=batched,
            decoded_before=subject.decoded_before,
            again=subject.quick_rebuild,
            draw=draw,
        )
        return subject.observe(("colour lines", draw), lambda folder: run(subject.build, folder, indices))


def run_charts(
    build: Callable[..., Loader],
    folder: Path,
    indices: Sequence[Index],
    *,
    batched: bool,
    tries: int = IMAGE_TRIES,
    decoded_before: bool = False,
    unread: bool = False,
) -> Charted:
    """Read samples with their images replaced by charts, in this disposable process."""
    reader = ColourChartReader(build, folder, indices, batched=batched, tries=tries)
    reader.require_an_image(decoded_before=decoded_before, unread=unread)
    responses = reader.responses()
    fits = fits_of(responses)
    if fits and not any(fits.values()):
        reader.forget()
        responses = reader.responses()
        fits = fits_of(responses)
    if not fits:
        raise NotApplicable("nothing in the sample follows the colour of its image")
    clear = tuple(leaf_fit for leaf_fit in fits.values() if leaf_fit)
    colours: Colours | Undecided = Undecided(
        f"sample{next(iter(fits))} is not a fixed linear function of the image colour"
    )
    if clear:
        at = reader.painter.places.get(reader.source)
        count, grey = len(responses), reader.painter.grey
        colours = Colours(reader.source, reader.decoded, grey, clear, count, reader.collated, reader.index, at)
    root = "batch" if reader.collated else "sample"
    orders = {f"{root}{path}": _order(one) if one else channel_order(responses, path) for path, one in fits.items()}
    known = {path: order for path, order in orders.items() if order}
    pure = [response.bright.items() for response in responses if response.chart in PURE]
    scrambled = tuple(f"{root}{path}" for path in scrambled_paths(pure))
    scales = tuple(found for path in fits if (found := uneven(responses, path)))
    return Charted(colours, known if reader.decoded else {}, scrambled, scales)


def _order(fit: Fit) -> ChannelOrder | None:
    return ChannelOrder(fit.order, fit.other_orders) if fit.order else None


def find_scrambling_line(
    build: Callable[..., Loader], folder: Path, indices: Sequence[Index], *, batched: bool, decoded_before: bool
) -> Location | None:
    """The line after which the pixels of one sample are in another layout, in this disposable process."""
    reader = ColourChartReader(build, folder, indices, batched=batched, tries=IMAGE_TRIES)
    if not reader.finds_an_image(decoded_before=decoded_before):
        raise Undecided("no image is replaced while a sample is read")
    look = first_scrambled(reader.followed(RED, measure=shares_of).looks)
    return look.location if look else None


def trace_colours(
    build: Callable[..., Loader],
    folder: Path,
    indices: Sequence[Index],
    *,
    batched: bool,
    decoded_before: bool,
    again: Callable[[], Loader] | None,
    draw: int = 0,
) -> tuple[ColourStep, ...]:
    """The steps of one sample in this draw, in this disposable process. Raises Undecided if no image is replaced in it.

    `again` builds the loader from newly imported modules, to see where they make the transforms.
    """
    reader = ColourChartReader(build, folder, indices, batched=batched, tries=IMAGE_TRIES)
    if not reader.finds_an_image(decoded_before=decoded_before):
        raise Undecided("no image is replaced while a sample is read")
    traces = [reader.followed(chart, draw) for chart in (BLACK, WHITE, RED)]
    steps = tuple(steps_of(*(trace.looks for trace in traces)))
    unknown = {step.name: traces[0].kinds[step.name] for step in steps if not step.exact}
    places = places_of_construction(again, unknown) if unknown else {}
    placed = tuple(step.made_at(places.get(step.name)) for step in steps)
    return (*_decoding(build, again, reader.source, reader.painter), *placed) if placed and reader.decoded else placed


def _decoding(
    build: Callable[..., Loader], again: Callable[[], Loader] | None, source: str, painter: Painter
) -> Iterator[ColourStep]:
    """The step of a decoder that only a library calls: where the factory gives it to a dataset, such as ImageFolder."""
    function = next((decoder.function for decoder in IMAGE_DECODERS if decoder.spelling == source), None)
    if again is None or function is None or source in painter.places:
        return

    def decodes(_: str, value: Any) -> bool:
        return any(True for _ in reachable({"": value}, lambda held: held is function)) if callable(value) else False

    found = place_of_part(
        build,
        again,
        lambda parts: sorted((path for path in parts if path.startswith("dataset")), reverse=True),
        decodes,
    )
    if found:
        (path, (file, line, _)), order = found, painter.orders.get(source, "RGB")
        black, white, red = (
            tuple(map(float, chart if order == "RGB" else chart[::-1])) for chart in (BLACK, WHITE, RED)
        )
        yield ColourStep(file, line, path, source, True, black, white, red, False)
