"""Whether `__getitems__` returns the requested samples, one per index, in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dataguard.lab.batches.collate_inputs import CollateInputs, Refused
from dataguard.lab.core.index import Index
from dataguard.lab.core.leaves import leaves_of
from dataguard.model import NotApplicable


@dataclass(frozen=True, slots=True)
class GetitemsReads:
    """Samples read by `__getitems__`, compared with the same samples read one by one.

    `given` lists, for each returned sample, the requested indices that it matches. It is empty for a mixture, and
    `parts` then lists which leaf of the first mixture comes from which sample; it is also empty for a sample that
    nobody requested, if there are too many or too few samples.
    """

    asked: tuple[Index, ...]
    given: tuple[tuple[Index, ...], ...]
    parts: tuple[tuple[str, Index], ...] = ()


def returns_batches(inputs: CollateInputs) -> bool:
    """Whether `__getitems__` returns something other than samples: a collated batch."""
    if not callable(getattr(inputs.loader.dataset, "__getitems__", None)):
        return False
    answer = inputs.read_getitems(inputs.indices[:2])
    paths = {leaf.path for leaf in leaves_of(inputs.samples[0])}
    inside = answer if isinstance(answer, list | tuple) else ()
    return all({leaf.path for leaf in leaves_of(one)} != paths for one in inside)


def compare_getitems(inputs: CollateInputs, order: Sequence[int]) -> GetitemsReads | None:
    """Read the samples at these positions by `__getitems__`, and compare them with single reads.

    None if nothing can be compared: the result is a batch, or samples never repeat.
    """
    dataset: Any = inputs.loader.dataset
    if not callable(getattr(dataset, "__getitems__", None)):
        return None
    asked = [inputs.indices[place] for place in order]
    try:
        answer = inputs.read_getitems(asked)
        singly = [_stable(inputs, index, inputs.samples[place]) for index, place in zip(asked, order, strict=True)]
    except (Refused, NotApplicable):
        return None
    if not isinstance(answer, list | tuple):
        return None
    paths = set.intersection(*(set(one) for one in singly))
    got = [{leaf.path: leaf.digest for leaf in leaves_of(sample)} for sample in answer]
    identifying = [path for path in sorted(paths) if len({one[path] for one in singly}) > 1]
    miscounted = _is_miscounted(answer, inputs.samples, len(asked))
    if not miscounted and not any(path in one for path in identifying for one in got):
        return None
    owners = [
        {path: frozenset(n for n, one in enumerate(singly) if one[path] == sample.get(path)) for path in identifying}
        for sample in got
    ]
    matched = any if miscounted else all
    known = [path for path in identifying if matched(one[path] for one in owners)]
    if not known and not miscounted:  # nothing matches single reads: the augmentation differs
        return None
    if len(got) > len(asked) and not miscounted and known != identifying:  # crops or views of the samples
        return None
    given = [frozenset.intersection(*(one[path] for path in known)) if known else frozenset() for one in owners]
    mixtures = (one for one, both in zip(owners, given, strict=True) if not both and not miscounted)
    pairs = next(mixtures, None)
    return GetitemsReads(
        tuple(asked),
        tuple(tuple(asked[n] for n in sorted(both)) for both in given),
        tuple((path, asked[min(pairs[path])]) for path in known) if pairs else (),
    )


def _is_miscounted(answer: Sequence[Any], samples: Sequence[Any], asked: int) -> bool:
    """Whether there are too many or too few samples; several for each index may be views of it."""
    forms = {_form_of(sample) for sample in samples}
    return len(answer) % asked > 0 and all(_form_of(sample) in forms for sample in answer)


def _form_of(sample: Any) -> frozenset[tuple[str, str, int]]:
    """What distinguishes a sample from a part of a batch, which has one more dimension."""
    return frozenset((leaf.path, leaf.type_name, len(leaf.shape or ())) for leaf in leaves_of(sample))


def _stable(inputs: CollateInputs, index: Index, first: Any) -> dict[str, bytes]:
    """The leaves of a sample that are equal when it is read again."""
    again = {leaf.path: leaf.digest for leaf in leaves_of(inputs.read(index))}
    return {leaf.path: leaf.digest for leaf in leaves_of(first) if again.get(leaf.path) == leaf.digest}
