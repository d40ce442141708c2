"""How the leaves of a sample respond to images of one colour: which leaf follows it, with which gain and offset.

A constant colour survives cropping, flipping and resizing. Colour jitter changes it, but black and white stay exact in
draws where jitter is clipped at the ends of the range: the extremes of several draws give offset and gain.
`response_to` finds the colours in one sample, `fit` compares the responses to all charts.

`statistics_of` looks up the statistics of pretrained weights, with which fits are compared. It imports the library that
the user names, in a disposable process; nothing is downloaded.
"""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch

from dataguard.core.model import Undecided
from dataguard.lab.core.leaves import array_of, is_pillow, iter_leaves
from dataguard.lab.images.painter import RGB
from dataguard.lab.images.scrambled import Bright, bright_shares
from dataguard.settings.target_spelling import suggest
from dataguard.stats.normalization import Statistics

BLACK, WHITE, MIDDLE = (0, 0, 0), (255, 255, 255), (128, 128, 128)
PURE: tuple[RGB, ...] = ((255, 0, 0), (0, 255, 0), (0, 0, 255))
CHARTS: tuple[RGB, ...] = (BLACK, WHITE, *PURE, MIDDLE)
"""The colours of the charts: the ends of the range give gain and offset, pure colours the order of channels, and the
middle shows whether the relation is linear."""


_MOST_PIXELS = 4096
"""Pixels that are compared, evenly spaced: a colour that counts covers 160 of them."""
_MOST_STACKED_CHANNELS = 96
"""The most channels of frames that are stacked on one axis: 32 frames. More are rather bands, or an axis of another
kind."""
_FEWEST_ROWS = 25
"""The fewest rows of three values that may be colours of pixels: as many as the smallest image has."""
_COLOUR_SHARE = 0.04
"""The smallest share of an image that a colour covers to count as one of its colours: smaller finds small images in
large padding, larger ignores more edges."""
_MEDIAN_ERROR = 1.25
"""The standard error of a median, in those of a mean: the root of pi / 2 for normal noise."""
_UNCORRELATED = 1.8
"""Noise has no memory: neighbours differ by twice its variance, and by less where shades change gradually. A tenth less
is left to the error of the estimate."""

Shades = Sequence[np.ndarray]
"""The most common colours of a leaf, (channels,) each, the most common first."""


@dataclass(frozen=True, slots=True)
class ChartResponse:
    """The leaves of one sample whose image was a chart: their common colours and dtypes, by path.

    `errors` are the standard errors of the colours, above 0 where every pixel has noise. `bright` are the shares of
    pixels that are bright in each channel of images whose chart is a pure colour.
    """

    chart: RGB
    draw: int
    shades: Mapping[str, Shades]
    errors: Mapping[str, float]
    dtypes: Mapping[str, str]
    bright: Mapping[str, Bright] = field(default_factory=dict)


def response_to(chart: RGB, draw: int, value: Any, bands: int = 0) -> ChartResponse:
    """The response of a sample or batch to a chart; `bands` is the number of channels of images without colours."""
    shades, errors, dtypes, bright = {}, {}, {}, {}
    for path, leaf in iter_leaves(value):
        every = _every_pixel(leaf, bands)
        if every is not None:
            pixels = _some_of(every)
            shades[path], errors[path] = _common(pixels)
            dtypes[path] = str(pixels.dtype)
            if chart in PURE and (shares := bright_shares(every)) is not None:
                bright[path] = shares
    return ChartResponse(chart, draw, shades, errors, dtypes, bright)


def pixels_of(leaf: Any, bands: int) -> np.ndarray | None:
    """The pixels of an image, one row each, at most 4096 evenly spaced ones; None if it is not one."""
    pixels = _every_pixel(leaf, bands)
    return None if pixels is None else _some_of(pixels)


def _every_pixel(leaf: Any, bands: int) -> np.ndarray | None:
    if is_pillow(leaf) or isinstance(leaf, torch.Tensor):
        leaf = array_of(leaf)
    if isinstance(leaf, np.ndarray) and leaf.ndim == 2 and bands == 1:
        leaf = leaf[..., None]
    if not isinstance(leaf, np.ndarray) or leaf.dtype.kind not in "fiu" or leaf.ndim < 2 or min(leaf.shape) < 1:
        return None
    if leaf.ndim == 2:  # the colours of single pixels, such as those of rays
        return leaf if leaf.shape[1] == 3 and len(leaf) >= _FEWEST_ROWS else None
    numbers = (bands,) if bands > 4 else (1, 3, 4)
    if leaf.shape[-4:-3] == (3,) and leaf.shape[-3] not in (1, 3) and leaf.shape[-1] not in numbers:
        leaf = leaf.swapaxes(-4, -3)  # (channels, frames, height, width): four frames are no alpha channel
    leaf = leaf if bands or {leaf.shape[-3], leaf.shape[-1]} & {*numbers} else _unstacked(leaf)
    if leaf.shape[-3] in numbers and min(leaf.shape[-2:]) > 4:
        leaf = np.moveaxis(leaf, -3, -1)
    elif leaf.shape[-1] not in numbers or min(leaf.shape[-3:-1]) <= 4:
        return None
    pixels: np.ndarray = leaf.reshape(-1, leaf.shape[-1])[:, : bands if bands > 4 else 3]
    return pixels


def _some_of(pixels: np.ndarray) -> np.ndarray:
    return np.asarray(pixels[:: len(pixels) // _MOST_PIXELS + 1])


def _unstacked(leaf: np.ndarray) -> np.ndarray:
    """Frames that are stacked on the first or last axis of an image, as frames with channels first.

    The axis has the channels of one frame after the other, or all frames of one channel after the other: images of one
    colour have equal frames.
    """
    if leaf.shape[-3] % 3 and not leaf.shape[-1] % 3:
        leaf = np.moveaxis(leaf, -1, -3)
    *outer, count, height, width = leaf.shape
    if count % 3 or not 3 < count <= _MOST_STACKED_CHANNELS or min(height, width) <= 4:
        return leaf
    by_frame = leaf.reshape(*outer, count // 3, 3, height, width)
    by_channel = leaf.reshape(*outer, 3, count // 3, height, width).swapaxes(-4, -3)
    return min(by_frame, by_channel, key=lambda frames: float(frames.mean((-2, -1)).std(-2).max()))


def _common(pixels: np.ndarray) -> tuple[Shades, float]:
    """The most common colours of an image, at most four, and their standard error.

    If most pixels have none of them, because each has noise, their median is a colour too.
    """
    exact = pixels.astype(np.float64)
    if not np.isfinite(exact).all():
        return (), 0.0
    step = max(float(np.abs(exact).max()), 1e-9) * _EQUAL_SHARE
    rounded = np.round(exact / step).astype(np.int64)
    keys = rounded[:, 0] * 1_000_003  # a hash of each colour: the arithmetic wraps around
    for channel in range(1, rounded.shape[1]):
        keys = (keys + rounded[:, channel]) * 1_000_003
    _, colours, counts = np.unique(keys, return_inverse=True, return_counts=True)
    leading = [colour for colour in np.argsort(-counts)[:4] if counts[colour] >= _COLOUR_SHARE * len(keys)]
    shades = [np.median(exact[colours == colour], axis=0) for colour in leading]
    others = exact[~np.isin(colours, leading)]
    if 2 * len(others) <= len(exact) or not _is_noise(others):
        return shades, 0.0
    return [*shades, np.median(others, axis=0)], float(_MEDIAN_ERROR * others.std(axis=0).max() / len(others) ** 0.5)


def _is_noise(pixels: np.ndarray) -> bool:
    """Whether pixels in the order of an image vary independently, unlike those of a gradient or a texture."""
    variance = pixels.var(axis=0)
    return bool((variance > 0).any() and (np.diff(pixels, axis=0).var(axis=0) >= _UNCORRELATED * variance).all())


_EQUAL_SHARE = 1e-4
"""How far apart two draws may be, as a share of the range from black to white, to count as equal: float32 is exact to
1e-6, and one step of 8 bits is 4e-3."""
_AGREEING_DRAWS = 3
"""The smallest number of draws that must agree on an end of the range: a single extreme may be one that jitter only
came close to, and no two such are equal."""
FULL_RANGES = (255.0, 65535.0)
"""By what values are divided that were integers of 8 or 16 bits."""
_LEAST_GAP, _JITTERED, _EACH_SCALE = 50.0, 1.6, 2
"""By how much the ranges of two scales differ at least, by how much jitter of the brightness may change their ratio,
and in how many draws each occurs."""
_BELOW_SHARE = 0.75
"""The share of pairs of draws in which black is below white, where some draws may invert the colours. It is about half
in a leaf that has nothing to do with them."""
_MOST_ERRORS = 6
"""How many standard errors two medians of noisy pixels may be apart and still count as equal: by chance they are
further apart once in 5e8 times."""
_LINEAR_ERROR = 0.02
"""How far the middle grey may be off the line from black to white, as a share of it: some pipelines round to 8 bits
twice, and gamma corrections are off by ten times as much."""
_CLEAR_SHARE = 0.6
"""The share of its full range from which on a channel counts as a pure colour; green makes up 0.59 of a grey."""

_MANY_DRAWS, _USUAL_SHARE, _PERMUTED_ORDERS = 24, 0.45, 3
"""If orders differ: the fewest draws, the share of the usual order in them, and the fewest orders if none is usual.

Of 24 draws that all permute channels at random, one order reaches that share in 5 of 1,000 cases; one that half of the
draws keep reaches it in 93 of 100.
"""
_ROTATIONS = {"RGB": {"RGB", "GBR", "BRG"}, "BGR": {"BGR", "GRB", "RBG"}}
"""The orders that a rotation of the hue makes of each: jitter of the hue never reaches those of the other."""
_SEVERAL_DRAWS = 12
"""The fewest draws for that: of 12 draws that permute channels at random, all are of one kind in 1 of 2,000 cases. If
half of them are left alone, all others are reversed in 1 of 100."""
_FEW_VOTES, _MAJORITY = 0.1, 0.6
"""A channel's colour needs more than the first share of all draws of pure colours, and of those that vote."""


@dataclass(frozen=True, slots=True)
class Fit:
    """An image leaf whose channels follow the decoded red, green and blue, from 0 to 255.

    `gains` and `offsets` are those of each output channel: `output = gain * input + offset`. `order` names the colours
    of the channels, as in "BGR"; it is empty if colours are mixed, as in a grey image, and None if draws disagree.
    `other_orders` are those that draws show beside it, such as one that reverses channels on purpose.
    `residual` is how far the middle grey is off, as a share of the range; `exact` means that all draws agree.
    """

    path: str
    dtype: str
    order: str | None
    gains: tuple[float, ...]
    offsets: tuple[float, ...]
    residual: float
    exact: bool
    other_orders: tuple[str, ...] = ()

    @property
    def white(self) -> tuple[float, ...]:
        """The value of white in each channel."""
        return tuple(offset + 255 * gain for gain, offset in zip(self.gains, self.offsets, strict=True))

    @property
    def is_float(self) -> bool:
        """Whether values are floats; integers are raw, and scaled later."""
        return "float" in self.dtype


class ChannelOrder(NamedTuple):
    """The colours of the channels of a leaf, as in "BGR", and the orders that some draws show beside it."""

    usual: str
    others: tuple[str, ...] = ()


def paths_of(responses: Sequence[ChartResponse]) -> list[str]:
    """The leaves that all responses have."""
    return [
        path
        for path in (responses[0].shades if responses else ())
        if all(path in response.shades for response in responses)
    ]


def follows(responses: Sequence[ChartResponse], path: str) -> bool:
    """Whether every channel of a leaf differs between black and white by more than rounding."""
    values = _values(responses, path)
    black, white = _shades_of_chart(values, BLACK), _shades_of_chart(values, WHITE)
    if not len(black) or not len(white) or black.shape[1] != white.shape[1]:
        return False
    # float32 rounds to 1e-7 of the largest value; 1e-9 keeps leaves of zeros out.
    contrast = np.abs(np.median(white, axis=0) - np.median(black, axis=0))
    return bool((contrast > max(1e-6 * float(contrast.max()), 1e-9, 2 * _tolerance(responses, path))).all())


def _tolerance(responses: Sequence[ChartResponse], path: str) -> float:
    """How far apart the colours of two draws may be because of noise alone."""
    return _MOST_ERRORS * max(response.errors[path] for response in responses)


def fit(responses: Sequence[ChartResponse], path: str) -> Fit | None:
    """How a leaf follows the colour; None if the draws do not agree, or the relation is not linear."""
    values = _values(responses, path)
    black, white, middle = (_shades_of_chart(values, chart) for chart in (BLACK, WHITE, MIDDLE))
    if len(black) < 2 or len(white) < 2 or not len(middle):
        return None
    sign = np.sign(np.median(white, axis=0) - np.median(black, axis=0))
    low, high = (black * sign).min(axis=0) * sign, (white * sign).max(axis=0) * sign
    span = high - low
    if (np.abs(span) < 1e-12).any():  # it is divided by below
        return None
    gains = span / 255
    equal = max(_EQUAL_SHARE, _tolerance(responses, path) / float(np.abs(span).min()))
    off = np.abs(middle - (low + gains * 128)) / np.abs(span)
    charted = [shades for chart in CHARTS if len(shades := _shades_of_chart(values, chart))]
    spread = max(float(np.ptp(draws / span, axis=0).max()) for draws in charted)
    exact = spread <= equal
    if exact:
        settled = float(off.max()) <= _LINEAR_ERROR
    else:
        settled = _is_separated(black * sign, white * sign) and all(
            _reaches(draws, end, equal * span) for draws, end in ((black, low), (white, high))
        )
    if not settled:
        return None
    order, others = _usual_order(values, low, span)
    gained, offset = (tuple(map(float, part)) for part in (gains, low))
    dtype, residual = responses[0].dtypes[path], float(np.median(off))
    return Fit(path, dtype, order, gained, offset, residual, exact, others)


@dataclass(frozen=True, slots=True)
class Uneven:
    """A leaf whose range is so much wider in some draws than in others; `draw` is one of the wider ones."""

    path: str
    factor: float
    narrow: float
    wide: float
    draw: int


def uneven(responses: Sequence[ChartResponse], path: str) -> Uneven | None:
    """How the range from black to white differs between draws by a factor that only a wrong scale has."""
    values = _values(responses, path)
    shades = {(value.chart, value.draw): value.shade for value in values}
    spans = sorted(
        (float(np.median(np.abs(shades[WHITE, draw] - black))), draw)
        for (chart, draw), black in shades.items()
        if chart == BLACK and (WHITE, draw) in shades
    )
    spans = [(span, draw) for span, draw in spans if span > 0]
    gaps = [other / one for (one, _), (other, _) in pairwise(spans)]
    if not gaps or max(gaps) < _LEAST_GAP:
        return None
    cut = gaps.index(max(gaps)) + 1
    narrow, wide = (float(np.median([span for span, _ in part])) for part in (spans[:cut], spans[cut:]))
    is_known = any(1 / _JITTERED < wide / narrow / factor < _JITTERED for factor in FULL_RANGES)
    if min(cut, len(spans) - cut) < _EACH_SCALE or not is_known:
        return None
    return Uneven(path, wide / narrow, narrow, wide, spans[-1][1])


def channel_order(responses: Sequence[ChartResponse], path: str) -> ChannelOrder | None:
    """The order of a leaf that follows the colour by no fixed linear function, as jitter without clipping leaves it.

    Black and white are those of most draws. None if draws disagree, or if colours are mixed.
    """
    values = _values(responses, path)
    black, white = (_shades_of_chart(values, chart) for chart in (BLACK, WHITE))
    if not len(black) or not len(white) or black.shape[1:] != (3,) or white.shape[1:] != (3,):
        return None
    low = np.median(black, axis=0)
    span = np.median(white, axis=0) - low
    if (np.abs(span) < 1e-12).any():  # it is divided by below
        return None
    usual, others = _usual_order(values, low, span)
    return ChannelOrder(usual, others) if usual else None


def _usual_order(values: Sequence[_Value], low: np.ndarray, span: np.ndarray) -> tuple[str | None, tuple[str, ...]]:
    """The order that most draws have, and those that others show."""
    orders = _orders_seen(values, low, span)
    usual = _order(orders, values, low, span)
    return usual, tuple(order for order in orders if order not in (usual, ""))


def _is_separated(black: np.ndarray, white: np.ndarray) -> bool:
    """Whether black is below white in most pairs of draws, as it is not in a leaf that has nothing to do with them."""
    return bool((black[:, None] < white[None]).all(axis=-1).mean() >= _BELOW_SHARE)


def _reaches(draws: np.ndarray, extreme: np.ndarray, equal: np.ndarray) -> bool:
    """Whether several draws reach the extreme, where jitter is clipped: a single one may fall short of it."""
    close = (np.abs(draws - extreme) <= np.abs(equal)).all(axis=1)
    return int(close.sum()) >= _AGREEING_DRAWS


def _orders_seen(values: Sequence[_Value], low: np.ndarray, span: np.ndarray) -> Counter[str]:
    """How many draws show each order; the empty one stands for draws that show none clearly."""
    shares = {(value.draw, value.chart): (value.shade - low) / span for value in values if value.chart in PURE}
    draws = {draw for draw, _ in shares}
    return Counter(_order_in([shares[draw, chart] for chart in PURE if (draw, chart) in shares]) for draw in draws)


def _order(seen: Counter[str], values: Sequence[_Value], low: np.ndarray, span: np.ndarray) -> str | None:
    """The colour of each channel: the order that most draws have, as some may permute channels on purpose.

    If few draws show every colour clearly, the channels are decided one by one. If several orders occur and none is
    usual, every draw permutes channels, and there is no order.
    """
    # Why the usual order is that of the pipeline: an augmentation that permutes channels gives each of the six orders
    # equally often, and the draws that it leaves alone all have the pipeline's own. So that one leads, by twice as many
    # as any other if a seventh of the draws or more are left alone. RGB leads to no finding by itself and waits for
    # several draws, any other order for many. Three orders without a leader are no fixed order: "" says so.
    orders = [(order, count) for order, count in seen.most_common() if order]
    if 2 * sum(count for _, count in orders) < max(seen.total(), 4):
        shares = [(value.chart, (value.shade - low) / span) for value in values if value.chart in PURE]
        return _voted(shares, len(low))
    (order, count), *others = orders
    usual = all(count >= 2 * other for _, other in others)
    if not others:
        return order
    seen_clearly = count + sum(other for _, other in others)
    rotated = next((first for first, turns in _ROTATIONS.items() if {order for order, _ in orders} <= turns), None)
    if rotated and seen_clearly >= _SEVERAL_DRAWS:
        return rotated
    if seen_clearly < (_SEVERAL_DRAWS if usual and order == "RGB" else _MANY_DRAWS):
        return None
    if usual and count >= _USUAL_SHARE * seen_clearly:
        return order
    return "" if len(orders) >= _PERMUTED_ORDERS else None


def _order_in(shares: Sequence[np.ndarray]) -> str:
    """The order in one draw, by the share of each pure colour in each channel; empty if it is unclear."""
    channels = [int(np.argmax(share)) for share in shares]
    clear = all(len(share) == 3 and share[at] >= _CLEAR_SHARE for share, at in zip(shares, channels, strict=True))
    if not clear or len(set(channels)) < 3:
        return ""
    return "".join("RGB"[channels.index(channel)] for channel in range(3))


def _voted(pure: Sequence[tuple[RGB, np.ndarray]], channels: int) -> str | None:
    """The colour of each channel, by a majority of the draws that show one clearly."""
    votes = [Counter[str]() for _ in range(channels)]
    for chart, shares in pure:
        for channel, share in enumerate(shares):
            if share >= _CLEAR_SHARE:
                votes[channel]["RGB"[PURE.index(chart)]] += 1
    if not any(votes):
        return ""
    leading = [vote.most_common(1)[0] if vote else ("", 0) for vote in votes]
    few = _FEW_VOTES * len(pure)
    settled = all(
        count > max(few, _MAJORITY * sum(vote.values())) for (_, count), vote in zip(leading, votes, strict=True)
    )
    return "".join(name for name, _ in leading) if settled else None


class _Value(NamedTuple):
    """The colour of a leaf in one response."""

    chart: RGB
    draw: int
    shade: np.ndarray


def _values(responses: Sequence[ChartResponse], path: str) -> list[_Value]:
    """The colour of the leaf in each response. A colour that most of them share is padding."""
    responses = [response for response in responses if response.shades[path]]
    if not responses:
        return []
    size = max(float(np.abs(shade).max()) for response in responses for shade in response.shades[path])
    tallies: list[tuple[np.ndarray, set[RGB]]] = []
    for response in responses:
        for shade in response.shades[path]:
            tally = next((other_tally for other_tally in tallies if _is_same_shade(other_tally[0], shade, size)), None)
            if tally is None:
                tallies.append((shade, {response.chart}))
            else:
                tally[1].add(response.chart)
    padding = [shade for shade, charts in tallies if len(charts) > len(CHARTS) // 2]
    values = []
    for response in responses:
        unpadded = [
            shade for shade in response.shades[path] if not any(_is_same_shade(shade, other, size) for other in padding)
        ]
        values.append(_Value(response.chart, response.draw, (unpadded or list(response.shades[path]))[0]))
    return values


def _is_same_shade(shade: np.ndarray, other: np.ndarray, size: float) -> bool:
    return shade.shape == other.shape and bool((np.abs(shade - other) <= _EQUAL_SHARE * size).all())


def _shades_of_chart(values: Sequence[_Value], chart: RGB) -> np.ndarray:
    shades = [value.shade for value in values if value.chart == chart]
    return np.stack(shades) if shades and len({shade.shape for shade in shades}) == 1 else np.empty(0)


Preset = tuple[tuple[float, ...], tuple[float, ...]]
"""Mean and standard deviation."""


def statistics_of(name: str) -> Statistics:
    """The statistics of `timm:MODEL`, or of torchvision weights, with or without the prefix `torchvision:`.

    Raises Undecided if the library is not installed, or does not know the name.
    """
    library, colon, weights = name.partition(":")
    library, weights = (library, weights) if colon else ("torchvision", name)
    if library not in _LIBRARIES:
        raise Undecided(f"contract.normalization: unknown library {library}, expected {' or '.join(_LIBRARIES)}")
    try:
        mean, std = _LIBRARIES[library](weights)
    except ImportError as error:
        raise Undecided(
            f"contract.normalization: {name} cannot be looked up, {library} is not installed: {error}"
        ) from error
    except (ValueError, AttributeError, KeyError, TypeError, RuntimeError, LookupError) as error:
        raise Undecided(f"contract.normalization: {library} has no statistics for {weights}: {error}") from error
    return Statistics(name, mean, std)


def _of_torchvision(weights: str) -> Preset:
    preset = importlib.import_module("torchvision.models").get_weight(weights).transforms()
    return tuple(preset.mean), tuple(preset.std)


def _of_timm(model: str) -> Preset:
    models: Any = importlib.import_module("timm.models")
    if not models.is_model(model):
        raise LookupError(f"no such model{suggest(model, models.list_models(), '')}")
    preset = models.get_pretrained_cfg(model)
    if preset is None:
        raise LookupError("the model has no weights with this name")
    return tuple(preset.mean), tuple(preset.std)


_LIBRARIES: Mapping[str, Callable[[str], Preset]] = {"torchvision": _of_torchvision, "timm": _of_timm}
