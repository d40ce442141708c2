"""Fingerprints of a loader's data: digests of its dataset and first batches, to compare machines, versions and months.

Standard library only.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from dataguard.model import UsageError
from dataguard.settings.typed import built
from dataguard.settings.user_files import json_in

FORMAT = 1
"""The version of the file format; it changes when older files cannot be compared any more."""

Digests = Mapping[str, str]
"""The content of each leaf in hexadecimal, by its path."""


@dataclass(frozen=True, slots=True)
class Part:
    """One thing that is compared: a sample of the dataset, or a stage of a batch, named for a reader."""

    stage: str
    what: str
    digests: Digests


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """The digests of one loader, in the order in which data flow: dataset, order of indices, samples, batches.

    `conditions` are what may explain a difference: the seed, the number of workers, the machine, versions of packages.
    """

    target: str
    loader: str
    parts: tuple[Part, ...]
    conditions: Mapping[str, Any] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """One number for all parts, of 16 bytes; it does not depend on the conditions."""
        content = [[part.stage, part.what, sorted(part.digests.items())] for part in self.parts]
        return hashlib.blake2b(json.dumps(content).encode(), digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True)
class Changed:
    """The first part that differs between two fingerprints, its leaves, and the conditions that differ as well."""

    part: Part
    leaves: tuple[str, ...]
    conditions: tuple[str, ...]


def first_change(now: Fingerprint, before: Fingerprint) -> Changed | None:
    """The first difference; None if the parts that both have are equal."""
    others = {(part.stage, part.what): part for part in before.parts}
    for part in now.parts:
        other = others.get((part.stage, part.what))
        paths = {**part.digests, **(other.digests if other else {})}
        leaves = tuple(path for path in paths if other is None or part.digests.get(path) != other.digests.get(path))
        if leaves or other is None:
            return Changed(part, leaves, tuple(_conditions(now.conditions, before.conditions)))
    return None


def _conditions(now: Mapping[str, Any], before: Mapping[str, Any]) -> Iterator[str]:
    for name in {**now, **before}:
        if now.get(name) != before.get(name):
            yield f"{name}: {before.get(name)} before, {now.get(name)} now"


def written(several: Sequence[Fingerprint]) -> str:
    """The content of a file of fingerprints."""
    entries = [{"digest": fingerprint.digest, **asdict(fingerprint)} for fingerprint in several]
    return json.dumps({"format": FORMAT, "fingerprints": entries}, indent=1) + "\n"


def read(path: Path) -> dict[str, Fingerprint]:
    """The fingerprints of a file, by loader. Raises UsageError if it is not one that `written` made."""
    try:
        document = json_in(path)
        version = document["format"]
    except (ValueError, TypeError, LookupError) as error:
        why = f" ({error})" if isinstance(error, ValueError) else ""
        raise UsageError(
            f"{path}: not a fingerprint{why}; write one with `dataguard fingerprint --output FILE`"
        ) from error
    if version != FORMAT:
        raise UsageError(f"{path}: fingerprints of format {version!r:.40}, but this version compares format {FORMAT}")
    try:
        several = [built(Fingerprint, fingerprint) for fingerprint in document["fingerprints"]]
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(f"{path}: the fingerprints are incomplete: {error}") from error
    return {fingerprint.loader: fingerprint for fingerprint in several}
