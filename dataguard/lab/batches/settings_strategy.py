"""DataLoader settings as a hypothesis strategy; a separate module because importing hypothesis is slow."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from torch.utils.data import DataLoader


@st.composite
def loader_settings(
    draw: DrawFn, *, workers: Sequence[int] = (0, 1, 2), batch_sizes: Sequence[int] = (1, 2, 3, 8)
) -> dict[str, Any]:
    """Arguments of `DataLoader` under which any dataset should yield the same samples: `DataLoader(data, **settings)`.

    The dict has `batch_size`, `drop_last` and `num_workers`; with workers also `persistent_workers`, `prefetch_factor`
    and, if torch has it, `in_order`. They shrink towards the first of `workers` and of `batch_sizes`.
    """
    settings: dict[str, Any] = {
        "batch_size": draw(st.sampled_from(batch_sizes)),
        "drop_last": draw(st.booleans()),
        "num_workers": draw(st.sampled_from(workers)),
    }
    if settings["num_workers"]:
        settings["persistent_workers"] = draw(st.booleans())
        settings["prefetch_factor"] = draw(st.integers(1, 3))
        if "in_order" in inspect.signature(DataLoader.__init__).parameters:
            settings["in_order"] = draw(st.sampled_from((True, False)))
    return settings
