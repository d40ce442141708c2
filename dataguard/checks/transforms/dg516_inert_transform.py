"""DG516: a transform never changes anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.model import Finding, Judgement, Looked, Severity, Undecided, known

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab
    from dataguard.lab.transforms.inert_steps import Step


@check("DG516", "inert-transform", Severity.ERROR)
def dg516_inert_transform(lab: Lab) -> Judgement:
    """A transform of the pipeline never changes anything that it is given.

    Symptom: augmentation, a resize or a normalization is in the code, runs without an error, and has no effect: the
        model overfits, or gets values that nobody scaled.
    Cause: torchvision's v2 transforms pass what they do not know through untouched, arrays of numpy among them, and
        `ToDtype` and `Normalize` do so with images of Pillow's or with arrays; or a random transform never acts,
        whatever probability it names; or the dataset never looks at the one it has, as a `Subset` that is given one, or
        throws away what it gives: `self.transform(image)` without an assignment.
    Fix: put `v2.ToImage()` (or `ToTensor`) before the transforms that need tensors; let a transform of your own raise
        on a type that it does not know.
    Links: https://docs.pytorch.org/vision/stable/transforms.html
    """
    unread = lab.transforms.unread
    if unread and (unread.library or lab.facts.role not in ("val", "test")):
        yield Finding(
            message=f"nothing looks at {unread.path} ({unread.name}) while {unread.samples} samples are read",
            evidence={"looked at": "while the dataset was built, read and collated"},
            at=lab.dataset.place,
        )
        return Looked({"samples": unread.samples})
    pipeline = lab.transforms.pipeline
    strangers = [step for step in pipeline.steps if step.acts_on]
    idle = [step for step in pipeline.steps if _is_idle(step)]
    if strangers:
        first = strangers[0]
        words = f"{' and '.join(first.given)} that it is given, and changes the same picture as {first.acts_on[0]}"
        yield _finding(lab, strangers, f"never changes the {words}")
    if idle:
        words = f"a picture, in {idle[0].calls + idle[0].trials} calls with a probability of {idle[0].chance:g}"
        yield _finding(lab, idle, f"never changes {words}")
    late = [step for step in pipeline.steps if not step.settled and not step.acts_on]
    if late and not strangers and not idle:
        raise Undecided(f"{late[0].path} never acts here, and there was no time to try it on enough other pictures")
    thrown = pipeline.thrown
    if thrown:
        yield Finding(
            message=f"what {thrown.path} ({thrown.name}) gives is thrown away: {thrown.samples} samples are the same "
            "whatever comes out of it",
            evidence={"compared": "samples under the same random numbers, with other pictures in what it gives"},
            at=lab.dataset.place,
        )
    off = [step.path for step in pipeline.steps if step.meant]
    return Looked(pipeline.exercised, f"{off[0]} does nothing on purpose" if off else None)


def _is_idle(step: Step) -> bool:
    """Whether a step that says it acts now and then changes no picture in any container."""
    return step.is_random and step.settled and step.trials > 0 and not (step.able or step.acts_on or step.meant)


def _finding(lab: Lab, steps: list[Step], words: str) -> Finding:
    """One finding for all steps that are inert in one way; `words` say how the first of them is."""
    first = steps[0]
    return Finding(
        message=f"{first.path} ({first.name}) {words}",
        evidence=known(
            {
                "inert": [f"{step.path} ({step.name})" for step in steps],
                "given": list(first.given),
                "acts on": list(first.acts_on),
                "calls while samples were read": first.calls,
                "trials with other pictures": first.trials,
            }
        ),
        at=lab.dataset.place,
    )
