"""The text output of `dataguard bench`: which setting is faster, where the time goes, how long steps wait."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Sequence

from rich.table import Table

from dataguard.measured import Advice, Bench, LoaderTimes, Setting, Stage, Timed
from dataguard.render.layout import Page
from dataguard.stats.timing_comparison import MOST_ROUNDS, Ranking, Ratio

_WIDE = 90
"""From this width on, table rows are not wrapped."""


def render(bench: Bench, *, width: int = 100, colour: bool = False, unicode: bool = True) -> str:
    """Return the measurements as text of `width` columns."""
    page = Page.blank(width, colour=colour, unicode=unicode)
    page.put(page.text("dataguard bench ", "bold") + page.text(bench.target))
    page.put(page.text(" · ".join(machine(bench)), "dim"))
    for loader in bench.loaders:
        page.put()
        _loader(page, loader)
    page.put()
    page.put(page.text(method(bench), "dim"))
    return page.finish()


def machine(bench: Bench) -> list[str]:
    """The machine in a few words."""
    facts = bench.machine
    return [f"{facts.get('cores')} cores", str(facts.get("processor")), str(facts.get("accelerator") or "no GPU")]


def method(bench: Bench) -> str:
    """How long it took, and how sure it is."""
    return f"{bench.seconds:.0f} s; confidence intervals of 99.8 %"


def _loader(page: Page, loader: LoaderTimes) -> None:
    page.rule(loader.name, epoch_size(loader), style="bold")
    page.put()
    for title, race in races(loader).items():
        for words in not_measured(loader, race):
            page.put(words, lead="  ", hang=2)
        _table(page, race_rows(title, loader, race))
        page.put(verdict(loader, race), lead="  ")
        page.put()
    if rows := stage_rows(loader.stages):
        _table(page, rows)
    if loader.device:
        page.put()
        for line in device_lines(loader):
            page.put(line, lead="  ")
    if loader.waits:
        page.put()
        _table(page, step_rows(loader))
    if loader.advice is not None:
        page.put()
        _advice(page, loader, loader.advice)
    for note in loader.notes:
        page.put(note, lead=page.text("  note: ", "bold"))


def _advice(page: Page, loader: LoaderTimes, advice: Advice) -> None:
    if advice.tried:
        _table(page, race_rows(f"in {advice.script}", loader, advice.tried))
    for words in tried_words(loader, advice):
        page.put(words, lead="  ")
    if diff := advised(loader, advice):
        page.put(f"change {changed_place(advice)}:", lead="  ")
        for line in diff:
            page.put(page.text(line, "green" if line.startswith("+") else "red"), lead="    ", fold=False)


def epoch_size(loader: LoaderTimes) -> str:
    """`batches of 8, 100 per epoch`."""
    size = f"batches of {loader.batch_size}" if loader.batch_size else "no batching"
    return size + (f", {loader.batches:,} per epoch" if loader.batches is not None else "")


def races(loader: LoaderTimes) -> dict[str, Sequence[Timed]]:
    """The comparisons that were made, by what was varied."""
    return {title: race for title, race in (("workers", loader.workers), ("other arguments", loader.others)) if race}


def not_measured(loader: LoaderTimes, race: Sequence[Timed]) -> list[str]:
    """The settings that could not be measured, and why."""
    return [f"{_name(loader, timed.setting)}: not measured: {timed.failed}" for timed in race if not timed.per_batch]


def race_rows(title: str, loader: LoaderTimes, race: Sequence[Timed]) -> list[Sequence[str]]:
    """The head of a table and a row for each setting that was measured."""
    base = _base(loader, race)
    whose = "yours" if base == loader.own else str(base)
    rows: list[Sequence[str]] = [(title, "per batch", "min .. max", "start", "epoch", "rounds", f"speed, vs {whose}")]
    for timed in race:
        if not timed.per_batch:
            continue
        epoch = _time(statistics.median(timed.costs(loader.batches))) if loader.batches is not None else ""
        ratio = None if timed.setting == base else loader.ratio(race, str(base), str(timed.setting))
        rows.append(
            (
                _name(loader, timed.setting),
                _time(statistics.median(timed.per_batch)),
                _range(timed.per_batch),
                _time(statistics.median(timed.starts)),
                epoch,
                str(len(timed.per_batch)),
                "1" if timed.setting == base else _speed(ratio),
            )
        )
    return rows


def _name(loader: LoaderTimes, setting: Setting) -> str:
    return f"{setting}{' (yours)' if setting == loader.own else ''}"


def _base(loader: LoaderTimes, race: Sequence[Timed]) -> Setting:
    """The setting that the others are compared with: the user's own, if it was measured."""
    there = any(timed.setting == loader.own and timed.per_batch for timed in race)
    return loader.own if there else race[0].setting


def _range(seconds: Sequence[float]) -> str:
    return f"{_time(min(seconds))} .. {_time(max(seconds))}"


def _speed(ratio: Ratio | None) -> str:
    if ratio is None:
        return "too few rounds"
    interval = f"{ratio.measured:.2f} ({ratio.least:.2f} .. {ratio.most:.2f})"
    return interval if ratio.slower or ratio.faster or ratio.alike else f"{interval}: cannot tell"


def verdict(loader: LoaderTimes, race: Sequence[Timed]) -> str:
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


def tried_words(loader: LoaderTimes, advice: Advice) -> list[str]:
    """How the user's training is with the advice, or why that is unknown."""
    failed = [f"{words} in {advice.script}" for words in not_measured(loader, advice.tried)]
    if failed or advice.untried:
        return failed or [f"not tried in training: {advice.untried}"]
    if not advice.tried:
        return [f"`{advice.setting}` was tried alone: `dataguard bench 'run train.py'` tries it in your training"]
    ratio = loader.ratio(advice.tried, str(loader.own), str(advice.setting))
    if ratio is None:
        return [f"too few rounds of {advice.script} to compare: a larger --budget gives more"]
    words = f"{advice.script} with `{advice.setting}`: {ratio.measured:.2f} times the speed of yours"
    words += f" ({ratio.least:.2f} to {ratio.most:.2f})"
    if ratio.alike or ratio.faster:
        return [f"{words}: keep yours, training does not wait for this loader"]
    return [words if ratio.slower else f"{words}: cannot tell whether it pays"]


def advised(loader: LoaderTimes, advice: Advice) -> Sequence[str]:
    """The lines to change, unless the training has shown that they do not help."""
    ratio = loader.ratio(advice.tried, str(loader.own), str(advice.setting)) if advice.tried else None
    if ratio is not None and (ratio.alike or ratio.faster):
        return ()
    changes = loader.own.changes_to(advice.setting).items()
    return advice.diff or (f"+ {', '.join(f'{name}={value}' for name, value in changes if value is not None)}",)


def changed_place(advice: Advice) -> str:
    """Where the change is to be made."""
    return advice.at or "the line that constructs the loader"


def _alike(loader: LoaderTimes, race: Sequence[Timed], ranking: Ranking) -> bool:
    """Whether the tied settings are equally fast for certain, so that more rounds would change nothing."""
    ratios = [loader.ratio(race, name, ranking.order[0]) for name in ranking.tied]
    return all(ratio is not None and ratio.alike for ratio in ratios)


def stage_rows(stages: Sequence[Stage]) -> list[Sequence[str]]:
    """The head of a table and a row for each stage and its parts; empty if nothing was measured."""
    total = sum(stage.seconds or 0.0 for stage in stages)
    if not total:
        return []
    rows: list[Sequence[str]] = [("time of a batch by stage, in one process", "", "")]
    for stage in stages:
        rows.append(_stage(stage, total, ""))
        rows += [_stage(part, total, "  ") for part in stage.parts]
    return rows


def _stage(stage: Stage, total: float, indent: str) -> tuple[str, str, str]:
    if stage.seconds is None:
        return f"{indent}{stage.name}", "skipped", stage.skipped or ""
    return f"{indent}{stage.name}", _time(stage.seconds), f"{stage.seconds / total:.0%}"


def device_lines(loader: LoaderTimes) -> Iterator[str]:
    """How fast batches are copied to the accelerator."""
    device = loader.device
    yield f"{device['name']}: at most {_rate(device['limit_bytes_per_second'])} from pinned memory"
    for memory in ("pageable", "pinned"):
        if memory in device:
            copy = device[memory]
            speed = f"{_rate(copy['bytes_per_second'])}, {copy['overlap']:.0%} of the copy overlaps compute"
            yield f"  a batch from {memory} memory: {speed}"
    if device.get("unpinned"):
        yield f"  not pinned by pin_memory: {', '.join(device['unpinned'])}"


def step_rows(loader: LoaderTimes) -> list[Sequence[str]]:
    """The head of a table and a row for each setting with which a training step was run."""
    rows: list[Sequence[str]] = [(f"with a step ({loader.step})", "batch and step", "waiting", "spread")]
    rows += [
        (_name(loader, waits.setting), _time(waits.each), f"{waits.share:.0%}", waits.spread) for waits in loader.waits
    ]
    if loader.ideal is not None:
        rows.append(("batches from memory", _time(loader.ideal), "0%", ""))
    return rows


def _table(page: Page, rows: Iterable[Sequence[str]]) -> None:
    table = Table.grid(padding=(0, 2))
    first, *rest = rows
    for column in range(len(first)):
        table.add_column(no_wrap=column < len(first) - 1 and page.console.width >= _WIDE, overflow="fold")
    table.add_row(*(page.text(f"  {word}" if not number else word, "dim") for number, word in enumerate(first)))
    for row in rest:
        table.add_row(*(page.text(f"  {word}" if not number else word) for number, word in enumerate(row)))
    page.console.print(table)


def _time(seconds: float) -> str:
    for factor, unit in ((1.0, "s"), (1e3, "ms")):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"


def _rate(rate: float) -> str:
    return f"{rate / 1e9:.1f} GB/s"
