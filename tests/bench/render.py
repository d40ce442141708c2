"""How long rendering a report of 200 findings takes, for each format: `python -m tests.bench.render [TURNS]`.

The first page of a process compiles the templates; times are those of the process on its CPU.
"""

from __future__ import annotations

import statistics
import sys
import time

from dataguard.core.figures import Figure
from dataguard.render.formats import formats_of, renderer
from tests.support.sample_figures import orders, sweep, timeline
from tests.support.sample_reports import DOCS, many


def charts(number: int) -> tuple[Figure, ...]:
    """A figure of 2,000 points, one of a few and one of 60 spans, for one of the 50 results."""
    return (orders(1_000), sweep(), timeline())


def main(turns: int = 9) -> None:
    """Print the table."""
    print("| format | size | first | median | target |\n|---|---|---|---|---|")  # noqa: T201 - the product
    for title, report in (("", many()), (", 150 charts", many(charts))):
        for form in formats_of("scan"):
            render, times, text = renderer("scan", form), [], ""
            for _ in range(turns):
                started = time.process_time()
                text = render(report, DOCS)
                times.append(time.process_time() - started)
            size = f"{len(text.encode()) / 1e6:.2f} MB"
            print(f"| {form}{title} | {size} | {times[0]:.2f} s | {statistics.median(times):.2f} s | 0.3 s |")  # noqa: T201


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
