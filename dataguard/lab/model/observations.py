"""Observations of batches with the user's model; see `Lab.model`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from shlex import quote
from typing import TypeVar

from dataguard.incident import LoaderFailed
from dataguard.lab.model.calling import NAME_A_STEP
from dataguard.lab.model.learning import Learning, run_learning
from dataguard.lab.model.trial import Trial, largest_embedding, run_trial
from dataguard.lab.subject import Subject
from dataguard.model import NotApplicable, NotTested, Undecided

T = TypeVar("T")

SECONDS = 12.0
"""Seconds in which a batch is to be learned, or its leaves changed, at most."""


class ModelObservations:
    """What the model of the settings does with a batch; each observation is made once, as in `Lab`.

    Raises NotApplicable without a model, and Undecided if the model cannot be called or its process fails.
    """

    def __init__(self, subject: Subject) -> None:
        self._subject = subject

    @property
    def trial(self) -> Trial:
        """The first step. Its loss is None if that raised an exception."""
        subject, seconds = self._ready(), self._seconds
        return self._observed(
            "trial", lambda folder: run_trial(subject.build, subject.facts, subject.settings, folder, seconds)
        )

    @property
    def stepped(self) -> Trial:
        """The same, if it has a loss."""
        trial = self.trial
        if trial.failed == "loss" or trial.failed == "backward":
            raise NotApplicable("see DG902: there is no loss")
        self.need_call(trial)
        return trial

    @property
    def learning(self) -> Learning:
        """How one batch is learned."""
        subject, seconds = self._ready(), self._seconds
        return self._observed(
            "learning",
            lambda folder: run_learning(subject.build, subject.facts, subject.settings, folder, seconds),
        )

    @property
    def vocabulary(self) -> int | None:
        """How many ids the largest embedding of the model takes; None without one, or if there is no model to make."""
        subject = self._subject
        if subject.settings.model is None or subject.facts.bare:
            return None
        found: int | None = self._observed(
            "vocabulary", lambda folder: largest_embedding(subject.build, subject.facts, subject.settings, folder)
        )
        return found

    def need_call(self, trial: Trial) -> None:
        """Raise Undecided if the model could not be called."""
        if trial.failed in ("model", "step") and trial.incident is not None:
            at = trial.incident.location
            where = f" at {at.file}:{at.line}" if at else ""
            other = "" if trial.failed == "step" else f": if it is called differently, {NAME_A_STEP}"
            raise Undecided(f"the {trial.failed} raised {trial.incident.headline}{where}{other}")

    def repro(self, code: str) -> str:
        """A command that runs one check with the model."""
        settings = self._subject.settings
        named = {"model": settings.model, "loss": settings.loss, "step": settings.step}
        options = "".join(f" --{name} {quote(value)}" for name, value in named.items() if value)
        return self._subject.repro.scan(code, options)

    @property
    def _seconds(self) -> float:
        """The time for one observation: a third of what is left of the budget, within bounds."""
        return max(min(self._subject.cache.left / 3, SECONDS), 1.0)

    def _ready(self) -> Subject:
        subject = self._subject
        if subject.settings.model is None:
            raise NotTested("no model is named: --model pkg.mod:make_model --loss pkg.mod:loss")
        if subject.facts.bare:
            raise NotTested("the target is a dataset, and a model takes batches: name a DataLoader")
        if subject.facts.role in ("test", "predict"):
            raise NotApplicable(f"the samples of a {subject.facts.role} loader may have no targets")
        return subject

    def _observed(self, key: str, run: Callable[[Path], T]) -> T:
        subject = self._subject
        epoch = subject.epoch
        subject.afford(
            ("model", key), 2 * max((batch.size for batch in epoch.batches), default=1) * epoch.seconds_per_sample
        )
        try:
            return subject.cache.observe(("model", key), run)
        except LoaderFailed as failure:
            raise Undecided(f"not decided: the model failed: {failure.incident.headline}") from failure
