"""Compare the verdicts with and without the checkpoint: `python -m tests.bench.checkpoint [TEXT ...] [--generated N]`.

Every face of `sample_datasets` whose name contains one of the texts, and N generated loaders, are scanned by all checks
twice: in forks of the process that called the factory, and with the factory called again for each observation. What
differs is scanned again, since some checks measure times. The exit code is 1 if a difference remains.
"""

from __future__ import annotations

import argparse
import os
import pickle
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dataguard.checks import CATALOGUE
from dataguard.engine import scan
from dataguard.lab.reading.checkpoint import WITHOUT_CHECKPOINT
from dataguard.settings.settings import Settings
from tests.loaders.generated import FILE
from tests.support.descriptions import drawn
from tests.support.faces import samples, settings_of

AT_ONCE = 8
"""Targets that one process scans with one import of torch."""
TOGETHER = 25
"""Generated loaders in one target."""
AGAIN = 2
"""How many more times a target is scanned whose verdicts differ."""

Verdict = tuple[str, str]
"""A status, and its reason or the message of its first finding."""
Verdicts = dict[tuple[str, str, str], Verdict]
"""By target, loader and code."""


@dataclass(frozen=True)
class Job:
    """Some targets with the same settings, and whether their factories are called again for each observation."""

    targets: tuple[str, ...]
    settings: Mapping[str, Any]
    again: bool
    variables: Mapping[str, str] = field(default_factory=dict)


def run(job: Job) -> Verdicts:
    """Scan the targets of a job, in a process of a pool."""
    os.environ.update(job.variables)
    os.environ.pop(WITHOUT_CHECKPOINT, None)
    if job.again:
        os.environ[WITHOUT_CHECKPOINT] = "1"
    found: Verdicts = {}
    for result in scan(job.targets, Settings(**job.settings)).results:
        told = result.findings[0].message if result.findings else result.reason or ""
        found[result.target, result.loader.rpartition(".")[2], result.code] = result.status.value, told
    return found


def jobs_of_faces(texts: Iterable[str]) -> Iterator[tuple[tuple[str, ...], Mapping[str, Any]]]:
    """Groups of faces that have the same settings."""
    by_settings: dict[str, tuple[list[str], Mapping[str, Any]]] = {}
    for check in CATALOGUE:
        for face in samples(check):
            if not texts or any(text in str(face) for text in texts):
                special = settings_of(check)
                by_settings.setdefault(repr(special), ([], special))[0].append(f"sample_datasets.{face}")
    for targets, settings in by_settings.values():
        yield from ((tuple(targets[start : start + AT_ONCE]), settings) for start in range(0, len(targets), AT_ONCE))


def jobs(texts: list[str], generated: int, folder: Path) -> Iterator[Job]:
    """All jobs, each without and with another call of the factory."""
    for targets, settings in jobs_of_faces(texts):
        yield from (Job(targets, settings, again) for again in (False, True))
    for number, start in enumerate(range(0, generated, TOGETHER)):
        file = folder / f"{number}.pickle"
        described = drawn(min(TOGETHER, generated - start), number, ("fork",))
        file.write_bytes(pickle.dumps({f"loader{place}": one for place, one in enumerate(described)}))
        for again in (False, True):
            yield Job(("tests.loaders.generated:loaders",), {}, again, {FILE: str(file)})


def compared(pool: ProcessPoolExecutor, todo: Iterable[Job]) -> Iterator[tuple[Job, Verdicts, Verdicts]]:
    """The jobs with what each pair of them found."""
    pairs: defaultdict[object, dict[bool, Verdicts]] = defaultdict(dict)
    running = {pool.submit(run, job): job for job in todo}
    for number, future in enumerate(as_completed(running), 1):
        job = running[future]
        key = (job.targets, *sorted(job.variables.items()))
        pairs[key][job.again] = future.result()
        print(f"\r{number} of {len(running)}", end="", file=sys.stderr, flush=True)  # noqa: T201 - the product
        if len(pairs[key]) == 2:
            both = pairs.pop(key)
            yield job, both[False], both[True]


def main() -> int:
    """Print what differs, and how much was compared."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("texts", nargs="*")
    parser.add_argument("--generated", type=int, default=0)
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    given = parser.parse_args()
    started, count = time.monotonic(), 0
    with tempfile.TemporaryDirectory() as folder, ProcessPoolExecutor(given.processes) as pool:
        todo = list(jobs(given.texts, given.generated, Path(folder)))
        seen: defaultdict[tuple[str, str, str], tuple[set[Verdict], set[Verdict]]] = defaultdict(lambda: (set(), set()))
        for turn in range(1 + AGAIN):
            differing: dict[tuple[object, bool], Job] = {}
            for job, forked, called in compared(pool, todo):
                count += len(forked) if turn == 0 else 0
                for key in {*forked, *called}:
                    forks, calls = seen[key]
                    forks.add(forked.get(key, ("absent", "")))
                    calls.add(called.get(key, ("absent", "")))
                    if not {status for status, _ in forks} & {status for status, _ in calls}:
                        targets = job.targets if job.variables else (key[0],)
                        for again in (False, True):
                            one = Job(targets, job.settings, again, job.variables)
                            differing[(targets, *job.variables.values()), again] = one
            todo = list(differing.values())
    left = {key: both for key, both in seen.items() if not {one for one, _ in both[0]} & {one for one, _ in both[1]}}
    for key, (forks, calls) in sorted(left.items()):
        print(f"{' '.join(key)}\n  in forks: {sorted(forks)}\n  called again: {sorted(calls)}")  # noqa: T201
    print(f"{count} results compared, {len(left)} differ, {time.monotonic() - started:.0f} s")  # noqa: T201
    return bool(left)


if __name__ == "__main__":
    sys.exit(main())
