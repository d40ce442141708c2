"""DG407: padding without lengths or a mask."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.common.lines import line_at
from dataguard.core.incident import observed_or_none
from dataguard.core.model import TO_DECLARE, Coverage, Finding, Judgement, NotApplicable, NotTested, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dataguard.lab.batches.padded_sides import Sides
    from dataguard.lab.batches.padding import Padded
    from dataguard.lab.core.records import Index
    from dataguard.lab.lab import Lab


@check("DG407", "unmasked-padding", Severity.WARNING)
def dg407_unmasked_padding(lab: Lab) -> Judgement:
    """Samples are padded to a common length, and the batch has no lengths or mask of that, or wrong ones.

    Symptom: predictions for a sample depend on the other samples in its batch; attention, means and recurrent states
        treat padding as data.
    Cause: the batch has neither lengths nor a mask, or has lengths that were taken after padding or before rows are
        cut, or a mask that is 0 wherever the padding value is, and that also occurs in the data; or a mask is inverted,
        or it or another leaf is padded at the other end.
    Fix: return the lengths or a mask with the padded tensor, or pad with a value that never occurs in the data.
    Links: https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.rnn.pad_sequence.html
    """
    padding = lab.batches.padding
    exercised = {"samples": padding.samples, "padded leaves": len(padding.padded)}
    wrong = next(_of_sides(padding.sides), None)
    if wrong is not None:
        message, fix, name = wrong
        yield Finding(
            message=message,
            evidence={"fix here": fix},
            at=line_at(lambda: lab.batches.lines.of_row(name, lab.batches.observed.collation.indices)),
        )
        return Coverage(exercised)
    if not padding.padded:
        raise NotApplicable("no padded leaf seen in the batch")
    masked = next((padded for padded in padding.padded if padded.full_mask), None)
    if masked is not None:
        short, row = min((length, row) for row, length in enumerate(masked.lengths))
        yield Finding(
            message=f"batch{masked.full_mask} is 1 everywhere, but row {row} of batch{masked.leaf} has length {short} "
            f"and is padded to {masked.longest}",
            evidence={
                "fix here": f"make batch{masked.full_mask} of the lengths before padding",
                "lengths": list(masked.lengths),
                "padding value": masked.fill,
            },
            at=line_at(
                lambda: lab.batches.lines.of_leaf(str(masked.full_mask), lab.batches.observed.collation.indices)
            ),
        )
        return Coverage(exercised)
    elsewhere = {leaf.leaf: index for leaf in padding.padded if (index := _held_elsewhere(lab, leaf)) is not None}
    measured = {leaf.value_mask for leaf in padding.padded if _is_filled(leaf)}
    ambiguous = [
        padded
        for padded in padding.padded
        if padded.leaf not in measured
        if padded.leaf in elsewhere
        or (not padded.lengths_from and (padded.measured_late or not (padded.distinct or _is_filled(padded))))
    ]
    if ambiguous:
        leaf = ambiguous[0]
        short, row = min((length, row) for row, length in enumerate(leaf.lengths))
        yield Finding(
            message=f"row {row} of batch{leaf.leaf} has length {short} and is padded with {leaf.fill} to "
            f"{leaf.longest}, but {_lacking(leaf, elsewhere.get(leaf.leaf))}",
            evidence={
                "fix here": _fix(leaf),
                "padded leaves": [f"batch{other.leaf}" for other in ambiguous if other.leaf != leaf.value_mask],
                "lengths": list(leaf.lengths),
                "padded from": leaf.source if leaf.source.startswith("batch") else f"sample{leaf.source}",
                "padding value": leaf.fill
                if leaf.distinct and leaf.leaf not in elsewhere
                else f"{leaf.fill}, which the data also contain",
            },
            at=line_at(
                lambda: lab.batches.lines.of_leaf(
                    leaf.value_mask or leaf.full_lengths or leaf.leaf, lab.batches.observed.collation.indices
                )
            ),
        )
    explicit = any(padded.lengths_from for padded in padding.padded)
    shown = next((leaf for leaf in padding.padded if leaf.fill.isdigit()), None)
    if shown is not None and not (ambiguous or explicit) and shown.fill != str(lab.settings.contract.get("pad")):
        raise NotTested(
            f"batch{shown.leaf} is padded with {shown.fill}, and the batch has no lengths or mask{TO_DECLARE}"
            f"pad = {shown.fill} in the contract if your model hides it"
        )
    return Coverage(exercised, None if ambiguous or explicit else "only the padding value shows the lengths")


def _of_sides(sides: Sides) -> Iterator[tuple[str, str, str]]:
    """What is wrong with lengths and masks of padded leaves: in words, what to do, and the leaf that is wrong."""
    for one in sides.overlong:
        rows = f"row {one.rows[0]}" if len(one.rows) == 1 else f"{len(one.rows)} rows"
        yield (
            f"batch{one.lengths} is up to {one.length} in {rows} of batch{one.leaf.leaf}, which is {one.leaf.width} "
            "wide: lengths were taken before rows were cut",
            f"take batch{one.lengths} after rows are cut: min(length, {one.leaf.width})",
            one.lengths,
        )
    for pair in sides.opposite:
        row = max(range(len(pair.leaf.counts)), key=pair.leaf.counts.__getitem__)
        yield (
            f"batch{pair.leaf.leaf} has {pair.leaf.counts[row]} of {pair.leaf.width} places of padding at the "
            f"{pair.leaf.end} of row {row}, and batch{pair.other.leaf} as many at the {pair.other.end}, in all rows",
            f"pad batch{pair.other.leaf} at the {pair.leaf.end}, as batch{pair.leaf.leaf} is",
            pair.other.leaf,
        )
    for mask in sides.inverted:
        beside = f", unlike batch{mask.beside}" if mask.beside else ""
        yield (
            f"batch{mask.mask} is 1 where batch{mask.leaf.leaf} is padded, and 0 where it has contents, in all "
            f"rows{beside}",
            f"invert batch{mask.mask}, or call it a padding mask",
            mask.mask,
        )


def _is_filled(leaf: Padded) -> bool:
    """Whether collate_fn makes measurements and their mask, perhaps of NaN: it may hide what was not measured."""
    return bool(leaf.value_mask) and leaf.source.startswith("batch") and not leaf.fill.lstrip("-").isdigit()


def _held_elsewhere(lab: Lab, leaf: Padded) -> Index:
    """A sample that holds the padding value, which a mask hides by its value; tokens have checks of their own."""
    if not leaf.value_mask or leaf.lengths_from not in (None, leaf.value_mask) or _is_filled(leaf):
        return None
    tokens = observed_or_none(lambda: lab.tokens.read)
    if tokens is not None and leaf.leaf in tokens.names.values():
        return None
    if leaf.has_holes:
        shown = lab.batches.observed.collation.indices
        return shown[0] if shown else None
    return next(
        (
            summary.index
            for summary in lab.epoch.value_summaries
            for one in summary.numbers
            if one.path == leaf.source and one.whole and not one.is_float and float(leaf.fill) in one.values
        ),
        None,
    )


def _lacking(leaf: Padded, index: Index) -> str:
    """Why the batch does not say what is padding."""
    if leaf.value_mask:
        which = "samples contain" if leaf.has_holes or index is None else f"dataset[{index!r}] contains"
        return f"batch{leaf.value_mask} is 0 wherever batch{leaf.leaf} is {leaf.fill}, which {which} as well"
    if leaf.full_lengths:
        axis = "" if leaf.full_size in (0, leaf.longest) else ", the size of another axis"
        return f"batch{leaf.full_lengths} is {leaf.full_size or leaf.longest} everywhere{axis}"
    if leaf.other_lengths:
        names = ", ".join(f"batch{name}" for name in leaf.other_lengths)
        return f"the lengths in {names} are others, and the batch has no mask"
    return f"the batch has no lengths or mask of batch{leaf.leaf}"


def _fix(leaf: Padded) -> str:
    if leaf.value_mask or leaf.full_lengths:
        return f"make batch{leaf.value_mask or leaf.full_lengths} of the lengths before padding"
    return f"return the lengths of batch{leaf.leaf}, taken before padding"
