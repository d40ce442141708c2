"""DG516: a transform never changes anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.common.rewrites import assigned, rewritten
from dataguard.core.incident import observed_or_none
from dataguard.core.model import Coverage, Finding, Judgement, Location, Severity, Undecided, without_empty
from dataguard.settings.parsers import EVALUATION

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab
    from dataguard.lab.transforms.inert_steps import PipelineStep


@check("DG516", "inert-transform", Severity.ERROR)
def dg516_inert_transform(lab: Lab) -> Judgement:
    """A transform of the pipeline never has any effect.

    Symptom: augmentation, a resize or a normalization is in the code, runs without an error, and has no effect: the
        model overfits, or gets unscaled values.
    Cause: torchvision's v2 transforms pass unknown types through unchanged, numpy arrays among them; `ToDtype` and
        `Normalize` do so with PIL images or arrays; or a random transform never fires, whatever its probability; or the
        dataset never uses its transform, such as one assigned to a `Subset`, or discards the result:
        `self.transform(image)` or `image.clamp(0, 1)` without an assignment.
    Fix: put `v2.ToImage()` (or `ToTensor`) before the transforms that need tensors; let your own transforms raise on
        unknown types.
    Links: https://docs.pytorch.org/vision/stable/transforms.html
    """
    dropped = observed_or_none(lambda: lab.transforms.dropped) or ()
    for one in dropped:
        at = Location(one.file, one.line, one.function)
        yield Finding(
            message=f"`{one.shown}` returns another array of shape {one.shape}, which nothing uses",
            evidence={
                "fix here": rewritten(lab, at, assigned) or f"assign the result of `{one.shown}`, or remove the line",
                "compared": "its result with what it is given, which it leaves as it is",
            },
            at=at,
        )
    if dropped:
        return Coverage({"lines": len(dropped)})
    unused = lab.transforms.unused
    if unused and (unused.library or lab.facts.role not in EVALUATION):
        yield Finding(
            message=f"{unused.path} ({unused.name}) is never used while {unused.samples} samples are read",
            evidence={"watched": "building the dataset, reading samples, collating them"},
            at=lab.places.transform(unused.path) or lab.dataset.location,
        )
        return Coverage({"samples": unused.samples})
    pipeline = lab.transforms.pipeline
    wrong_type = [step for step in pipeline.steps if step.acts_on]
    idle = [step for step in pipeline.steps if _is_idle(step)]
    if wrong_type:
        first = wrong_type[0]
        words = f"never changes a {' or '.join(first.given)}, but changes the same image as a {first.acts_on[0]}"
        yield _finding(lab, wrong_type, words)
    if idle:
        calls = idle[0].calls + idle[0].trials
        yield _finding(lab, idle, f"never changes an image, in {calls} calls with probability {idle[0].probability:g}")
    late = [step for step in pipeline.steps if not step.settled and not step.acts_on]
    if late and not wrong_type and not idle:
        raise Undecided(f"{late[0].path} never changes these images, and time ran out before it was tried on others")
    discarded = pipeline.discarded
    if discarded:
        called = lab.places.call(discarded.path) or lab.dataset.location
        yield Finding(
            message=f"the result of {discarded.path} ({discarded.name}) is discarded: "
            f"{discarded.samples} samples stay the same whatever it returns",
            evidence={
                "fix here": rewritten(lab, called, assigned) or "use its result, or remove the call",
                "compared": "samples under the same random state, with other images in its result",
            },
            at=called,
        )
    off = [step.path for step in pipeline.steps if step.intended]
    return Coverage(pipeline.exercised, f"{off[0]} does nothing by design" if off else None)


def _is_idle(step: PipelineStep) -> bool:
    """Whether a random step changes no image of any type."""
    return (
        step.is_random and step.settled and step.trials > 0 and not (step.has_effect or step.acts_on or step.intended)
    )


def _finding(lab: Lab, steps: list[PipelineStep], words: str) -> Finding:
    """One finding for all steps that are inert in one way; `words` say how the first of them is."""
    first = steps[0]
    return Finding(
        message=f"{first.path} ({first.name}) {words}",
        evidence=without_empty(
            {
                "inert": [f"{step.path} ({step.name})" for step in steps],
                "input types": list(first.given),
                "changes": list(first.acts_on),
                "calls while samples were read": first.calls,
                "trials with other images": first.trials,
            }
        ),
        at=lab.places.part(first.path) or lab.dataset.location,
    )
