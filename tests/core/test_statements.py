"""Arguments are changed in the line that has them, and nothing else is."""

from __future__ import annotations

from pathlib import Path

import pytest

from dataguard.core.statements import with_arguments

LINES = """\
import torch
train = DataLoader(set, 8, num_workers=2, persistent_workers=True)  # größer
val = torch.utils.data.DataLoader(
    set,
    num_workers=args.workers,
    drop_last=True,
)
made = make(set, num_workers=3)
taken = DataLoader(set, **settings)
both = DataLoader(set, num_workers=1), DataLoader(other, num_workers=1)
bare = DataLoader()
"""


@pytest.mark.parametrize(
    ("line", "values", "expected"),
    [
        (2, {"num_workers": "4"}, "train = DataLoader(set, 8, num_workers=4, persistent_workers=True)  # größer"),
        (2, {"num_workers": "0", "persistent_workers": None}, "train = DataLoader(set, 8, num_workers=0)  # größer"),
        (3, {"num_workers": "4"}, "    num_workers=4,"),
        (3, {"pin_memory": "True"}, "    drop_last=True, pin_memory=True,"),
        (8, {"num_workers": "4"}, "made = make(set, num_workers=4)"),
        (11, {"num_workers": "4", "timeout": None}, "bare = DataLoader(num_workers=4)"),
        (8, {"pin_memory": "True"}, None),
        (9, {"num_workers": "4"}, None),
        (10, {"num_workers": "4"}, None),
        (2, {"num_workers": "2"}, ""),
    ],
)
def test_arguments_are_changed_where_they_stand(
    line: int, values: dict[str, str | None], expected: str | None, tmp_path: Path
) -> None:
    file = tmp_path / "data.py"
    file.write_text(LINES, encoding="utf-8")
    diff = with_arguments(str(file), line, "DataLoader", values)
    added = None if diff is None else "\n".join(one[1:] for one in diff if one.startswith("+"))
    assert added == expected
