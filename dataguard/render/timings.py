"""The text output of `dataguard bench`: which setting is faster, where the time goes, how long steps wait."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence

from rich.table import Table

from dataguard.render.layout import Page
from dataguard.stats.timing_comparison import MOST_ROUNDS, Ranking, Ratio
from dataguard.timings import Bench, Change, LoaderTimes, Setting, Stage, Timed

_ROOMY = 90
"""From this width on, table rows are not wrapped."""


def render(
    bench: Bench, found: Sequence[Change] = (), *, width: int = 100, colour: bool = False, unicode: bool = True
) -> str:
    """Return the measurements as text of `width` columns, with the changes since an earlier run."""
    page = Page.blank(width, colour=colour, unicode=unicode)
    page.put(page.text("dataguard bench ", "bold") + page.text(bench.target))
    machine = bench.machine
    about = [
        f"{machine.get('cores')} cores",
        str(machine.get("processor")),
        str(machine.get("accelerator") or "no GPU"),
    ]
    page.put(page.text(" · ".join(map(str, about)), "dim"))
    for loader in bench.loaders:
        page.put()
        _loader(page, loader)
    if found:
        page.put()
        _changes(page, found)
    page.put()
    page.put(page.text(f"{bench.seconds:.0f} s; confidence intervals of 99.8 %", "dim"))
    return page.finish()


def _loader(page: Page, loader: LoaderTimes) -> None:
    size = f"batches of {loader.batch_size}" if loader.batch_size else "no batching"
    length = f", {loader.batches:,} per epoch" if loader.batches is not None else ""
    page.rule(loader.name, f"{size}{length}", style="bold")
    page.put()
    for title, race in (("workers", loader.workers), ("other arguments", loader.others)):
        if race:
            _race(page, title, loader, race)
            page.put(_verdict(loader, race), lead="  ")
            page.put()
    _stages(page, loader.stages)
    if loader.device:
        _device(page, loader)
    if loader.waits:
        page.put()
        _step(page, loader)
    for note in loader.notes:
        page.put(note, lead=page.text("  note: ", "bold"))


def _race(page: Page, title: str, loader: LoaderTimes, race: Sequence[Timed]) -> None:
    base = _base(loader, race)
    whose = "yours" if base == loader.own else str(base)
    rows: list[Sequence[str]] = [(title, "per batch", "min .. max", "start", "epoch", "rounds", f"speed, vs {whose}")]
    for timed in race:
        name = f"{timed.setting}{' (yours)' if timed.setting == loader.own else ''}"
        if not timed.per_batch:
            page.put(f"{name}: not measured: {timed.failed}", lead="  ", hang=2)
            continue
        epoch = _time(statistics.median(timed.costs(loader.batches))) if loader.batches is not None else ""
        ratio = None if timed.setting == base else loader.ratio(race, str(base), str(timed.setting))
        rows.append(
            (
                name,
                _time(statistics.median(timed.per_batch)),
                _range(timed.per_batch),
                _time(statistics.median(timed.starts)),
                epoch,
                str(len(timed.per_batch)),
                "1" if timed.setting == base else _speed(ratio),
            )
        )
    _table(page, rows)


def _base(loader: LoaderTimes, race: Sequence[Timed]) -> Setting:
    """The setting that the others are compared with: the user's own, if it was measured."""
    there = any(timed.setting == loader.own and timed.per_batch for timed in race)
    return loader.own if there else race[0].setting


def _range(seconds: Sequence[float]) -> str:
    return f"{_time(min(seconds))} .. {_time(max(seconds))}"


def _alike(loader: LoaderTimes, race: Sequence[Timed], ranking: Ranking) -> bool:
    """Whether the tied settings are equally fast for certain, so that more rounds would change nothing."""
    ratios = [loader.ratio(race, name, ranking.order[0]) for name in ranking.tied]
    return all(ratio is not None and ratio.alike for ratio in ratios)


def _speed(ratio: Ratio | None) -> str:
    if ratio is None:
        return "too few rounds"
    interval = f"{ratio.measured:.2f} ({ratio.least:.2f} .. {ratio.most:.2f})"
    return interval if ratio.slower or ratio.faster or ratio.alike else f"{interval}: cannot tell"


def _verdict(loader: LoaderTimes, race: Sequence[Timed]) -> str:
    """The outcome of a comparison in words."""
    ranking = loader.ranking(race)
    if not ranking.order:
        return "nothing could be measured"
    if len(ranking.order) == 1:
        return f"only `{ranking.order[0]}` was measured: nothing to compare"
    base = str(_base(loader, race))
    whose = "yours" if base == str(loader.own) else f"`{base}`"
    if ranking.best is None:
        others = ", ".join(f"`{name}`" for name in ranking.tied)
        short = min(len(timed.per_batch) for timed in race if timed.per_batch) < MOST_ROUNDS
        more = "; a larger --budget gives more rounds" if short and not _alike(loader, race, ranking) else ""
        return f"cannot tell `{ranking.order[0]}` from {others}{more}"
    if ranking.best == base:
        return f"`{base}`{' (yours)' if whose == 'yours' else ''} is fastest"
    ratio = loader.ratio(race, base, ranking.best)
    if ratio is None:
        return f"`{ranking.best}` is fastest"
    interval = f"{ratio.least:.2f} to {ratio.most:.2f}"
    return f"`{ranking.best}` is fastest: {ratio.measured:.2f} times ({interval}) the speed of {whose}"


def _stages(page: Page, stages: Sequence[Stage]) -> None:
    total = sum(stage.seconds or 0.0 for stage in stages)
    if not total:
        return
    rows = [("time of a batch by stage, in one process", "", "")]
    for stage in stages:
        rows.append(_stage(stage, total, ""))
        rows += [_stage(part, total, "  ") for part in stage.parts]
    _table(page, rows)


def _stage(stage: Stage, total: float, indent: str) -> tuple[str, str, str]:
    if stage.seconds is None:
        return f"{indent}{stage.name}", "skipped", stage.skipped or ""
    return f"{indent}{stage.name}", _time(stage.seconds), f"{stage.seconds / total:.0%}"


def _device(page: Page, loader: LoaderTimes) -> None:
    device = loader.device
    page.put()
    page.put(f"{device['name']}: at most {_rate(device['limit_bytes_per_second'])} from pinned memory", lead="  ")
    for memory in ("pageable", "pinned"):
        if memory in device:
            copy = device[memory]
            speed = f"{_rate(copy['bytes_per_second'])}, {copy['overlap']:.0%} of the copy overlaps compute"
            page.put(f"a batch from {memory} memory: {speed}", lead="    ")
    if device.get("unpinned"):
        page.put(f"not pinned by pin_memory: {', '.join(device['unpinned'])}", lead="    ")


def _step(page: Page, loader: LoaderTimes) -> None:
    rows = [(f"with a step ({loader.step})", "batch and step", "waiting", "spread")]
    for waits in loader.waits:
        name = f"{waits.setting}{' (yours)' if waits.setting == loader.own else ''}"
        rows.append((name, _time(waits.each), f"{waits.share:.0%}", waits.spread))
    if loader.ideal is not None:
        rows.append(("batches from memory", _time(loader.ideal), "0%", ""))
    _table(page, rows)


def _changes(page: Page, found: Sequence[Change]) -> None:
    page.rule("since the earlier run", style="bold")
    page.put()
    rows = [("loader", "setting", "then", "now", "")]
    for change in found:
        name = f"{change.setting}{' (yours)' if change.own else ''}"
        rows.append((change.loader, name, _time(change.then), _time(change.now), _changed(change)))
    _table(page, rows)


def _changed(change: Change) -> str:
    if change.ratio is None or change.words == "cannot tell":
        return change.words
    return f"{change.words}: {change.ratio.measured:.2f} x the time"


def _table(page: Page, rows: Iterable[Sequence[str]]) -> None:
    table = Table.grid(padding=(0, 2))
    first, *rest = rows
    for column in range(len(first)):
        table.add_column(no_wrap=column < len(first) - 1 and page.console.width >= _ROOMY, overflow="fold")
    table.add_row(*(page.text(f"  {word}" if not place else word, "dim") for place, word in enumerate(first)))
    for row in rest:
        table.add_row(*(page.text(f"  {word}" if not place else word) for place, word in enumerate(row)))
    page.console.print(table)


def _time(seconds: float) -> str:
    for factor, unit in ((1.0, "s"), (1e3, "ms")):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"


def _rate(rate: float) -> str:
    return f"{rate / 1e9:.1f} GB/s"
