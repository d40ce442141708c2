"""Descriptions of loaders: drawn at random, in a grid, shown as Python, and made simpler step by step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from typing import Any

from hypothesis import HealthCheck, Phase, assume, given, seed, settings
from hypothesis import strategies as st

from tests.loaders.generated import INITS, Description
from tests.loaders.places import PLACES
from tests.loaders.sources import GLOBALS, MAKERS, SOURCES, Source

ORIGINS = ("held",) * 4 + ("global",) * 3 + ("module", "lazy", "lazy worker", "lazy numpy", "entropy", "index")
RARER = ("index kept", "epoch index", "constant", "idle", "frozen")
MAPPED, STREAMED = ("cached", "counter"), ("anew", "anew seeded")
"""Origins that make sense for datasets with indices, and for streams. A counter in a stream would tell its order."""


@st.composite
def sources(draw: st.DrawFn, stream: bool, spawned: bool, places: Sequence[str], values: Sequence[str]) -> Source:
    """A source that can be used in such a loader."""
    origin = draw(st.sampled_from(ORIGINS + RARER + (STREAMED if stream else MAPPED)))
    kinds = [kind for kind in GLOBALS if kind != "cv2" or origin == "global"]
    if origin not in ("global", "cached"):  # a torch.Generator that is held cannot be sent to a spawned worker
        held = origin in ("held", "idle", "index kept")
        kinds = [kind for kind in MAKERS if kind != "torch" or not (spawned and held)]
    if origin == "epoch index":  # collate_fn is told neither
        places = [place for place in places if place != "collate_fn"]
    return Source(
        origin,
        draw(st.sampled_from(kinds)),
        draw(st.booleans()) if origin in ("held", "module") else True,
        draw(st.sampled_from(places)),
        draw(st.sampled_from(values)),
    )


@st.composite
def descriptions(draw: st.DrawFn, methods: Sequence[str] = ("fork",)) -> Description:
    """A loader that runs: nothing in it is kept from being pickled where its workers are not forked."""
    stream = draw(st.integers(0, 4)) == 0
    method = draw(st.sampled_from(methods))
    batch_size = draw(st.sampled_from((1, 2, 4, 4, None)))
    mix = draw(st.sampled_from(("apart", "added", "gate")))
    places = [place for place in PLACES if method == "fork" or place not in ("closure", "default")]
    if mix == "gate" or batch_size is None:
        places.remove("collate_fn")
    values = ("real",) if mix == "gate" else ("real", "real", "few", "coin", "rare")
    count = 2 if mix == "gate" else draw(st.sampled_from((1, 2)))
    chosen = tuple(draw(sources(stream, method != "fork", places, values)) for _ in range(count))
    assume(mix != "gate" or chosen[0].origin not in ("frozen", "counter"))  # their coin falls on one side for ever
    return Description(
        sources=chosen,
        mix=mix if count == 2 else "apart",
        workers=draw(st.sampled_from((2, 2, 3, 1) if method == "fork" else (2, 2, 1))),
        persistent=draw(st.booleans()),
        method=method,
        init=draw(st.sampled_from(("none",) * 5 + tuple(INITS)[1:])),
        batch_size=batch_size,
        shuffle=not stream and draw(st.booleans()),
        collate=batch_size is not None and draw(st.booleans()),
        stream=stream,
        buffer=stream and draw(st.booleans()),
    )


def drawn(count: int, number: int = 0, methods: Sequence[str] = ("fork",)) -> list[Description]:
    """So many different descriptions; the same ones for the same number."""
    found: dict[Description, None] = {}
    for round_ in range(count):
        found |= dict.fromkeys(_few(1_000_003 * number + round_, methods))
    return list(found)[:count]


def _few(number: int, methods: Sequence[str]) -> list[Description]:
    """A few descriptions: hypothesis goes on from what it has tried, so that many at once would be much alike."""
    found: list[Description] = []

    @seed(number)
    @settings(
        max_examples=12,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(descriptions(methods))
    def collect(description: Description) -> None:
        found.append(description)

    collect()
    return found[1:]  # the first is the simplest each time


def grid(methods: Sequence[str] = ("fork",)) -> list[Description]:
    """One loader for each origin, `worker_init_fn` and persistence."""
    return [
        Description(
            (Source(origin, "numpy"),), init=init, persistent=persistent, method=method, stream=origin in STREAMED
        )
        for method in methods
        for origin in SOURCES
        for init in INITS
        for persistent in (False, True)
    ]


def shown(thing: Any) -> str:
    """A description as Python, without what is as it is by default."""
    if isinstance(thing, tuple):
        return f"({', '.join(map(shown, thing))},)"
    if not isinstance(thing, Source | Description):
        return repr(thing)
    values = {item.name: (getattr(thing, item.name), item.default) for item in fields(thing)}
    special = [f"{name}={shown(value)}" for name, (value, default) in values.items() if value != default]
    return f"{type(thing).__name__}({', '.join(special)})"


def simpler(loader: Description) -> Iterator[Description]:
    """The same loader with a source less, or with one thing as it is by default."""
    for number in range(len(loader.sources) if len(loader.sources) > 1 else 0):
        yield replace(loader, sources=_without(loader.sources, number), mix="apart")
    yield from _plainer(loader)
    for number, source in enumerate(loader.sources):
        for new in _plainer(source):
            yield replace(loader, sources=(*loader.sources[:number], new, *loader.sources[number + 1 :]))


def _without(chosen: tuple[Source, ...], number: int) -> tuple[Source, ...]:
    return chosen[:number] + chosen[number + 1 :]


def _plainer(thing: Any) -> Iterator[Any]:
    """A description with one field as it is by default, unless it is the first, which says what it is about."""
    for item in fields(thing)[1:]:
        if getattr(thing, item.name) != item.default:
            yield replace(thing, **{item.name: item.default})
