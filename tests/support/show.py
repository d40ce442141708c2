"""Print what is recorded of a check: `python -m tests.support.show DG101 [FACE]`."""

from __future__ import annotations

import json
import sys

from dataguard.checks import CATALOGUE
from tests.support.recordings import recordings


def main(code: str, face: str = "") -> None:
    """Print what the judge read of each face, a line for each access, and its verdict; of one face at full length."""
    check = next(check for check in CATALOGUE if check.code == code.upper())
    for name, one in recordings(check.stem).items():
        if face in ("", name):
            print(f"{name}: {json.dumps(one.verdict, ensure_ascii=False)}")  # noqa: T201
            for path, read in one.reads.items():
                text = json.dumps(read, ensure_ascii=False, indent=2 if face else None)
                print(f"    {path} = {text if face else text[:160]}")  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])
