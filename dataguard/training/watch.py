"""One guarded loader: what is looked at in each batch, and at the end of each epoch."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from typing import Any

import torch

from dataguard.core.model import Finding, without_empty
from dataguard.machine.units import counted
from dataguard.training.batch_values import InvalidValues, Kind, Labels, LossMask, Structure, arrays_of, non_finite
from dataguard.training.epoch_order import PREFIX_BATCHES, Order, Orders, Pass, Shuffler, StreamEpochs
from dataguard.training.randomness.changed_samples import ChangedSamples
from dataguard.training.randomness.replays import Replays
from dataguard.training.rank_agreement import Ranks
from dataguard.training.resumed_run import Progress
from dataguard.training.violations import Alarm, ContractViolation, ContractWarning, Options, ViolatingBatch

FIRST_BATCHES = 4
"""How many batches are checked in full, whatever that takes: defects of every batch show at once."""
TIME_SHARE = 0.005
"""The share of the loop's time that checks of values may take after that: docs/guard.md promises half a percent."""
_MOST_NAMED = 8
"""How many samples of a batch a finding names."""

WATCHES: list[Watch] = []
"""The watches of this process in the order of their loaders, for the report; they hold records, and no loader."""


class Watch:
    """What is known about one loader, over all its epochs.

    Batches of a loader that is not `in_order` have no indices.
    """

    def __init__(self, name: str, options: Options, dataset: Any, *, in_order: bool) -> None:
        self.name = name
        self.options = options
        self.in_order = in_order
        self.alarm = Alarm(name, options.on_violation, options.ignore, options.save_to)
        self.structure = Structure()
        self.labels = Labels.of(dataset, options.num_classes, options.ignore_index, options.label)
        self.loss_mask = LossMask(options.ignore_index)
        self.orders = Orders()
        self.stream_epochs = StreamEpochs()
        self.replays = Replays()
        self.changed = None if hasattr(dataset, "set_epoch") else ChangedSamples()
        """None of a dataset that may change its samples on purpose."""
        self.ranks = Ranks(options.rank_timeout, options.same_batches) if options.ranks else None
        self.progress: Progress | None = None
        """Where the run is, if it is to be compared after a restart."""
        self.is_wrapped = False
        """Whether a wrapper gives the batches to the loop, and says so with `hand`."""
        self.is_training = False
        """Whether a pass was training."""
        self.resumes = False
        """Whether the next pass continues from a `state_dict`."""
        self.broken: str | None = None
        """The traceback of an error of the guard, which stops it."""
        self.batches = self.checked = 0
        """How many batches there were, and in how many all values were looked at."""
        self.epochs = self.trained = 0
        """How many passes were read to their end, and how many of those were whole and no evaluation."""
        self.waited = self.worked = self.spent = 0.0
        """Seconds that loops waited, that they took with their batches, and that the guard took."""
        self._checking = self._cost = 0.0
        self._made = self._begun = 0
        self._open: Pass | None = None
        self._whole: list[Pass] = []

    def begin(self, planned: int | None = None, shuffler: Shuffler | None = None, order: Order | None = None) -> Pass:
        """A new pass over the loader: how many batches it has, what shuffles them, where their order is recorded."""
        role = self.options.role_of(self.name)
        gradients = role in ("train", None) and torch.is_grad_enabled()
        training = gradients and (role == "train" or shuffler is not None)
        resumed, self.resumes = self.resumes, False
        self.is_training |= training
        self._made += 1
        if self.ranks:
            self._gated(self.ranks.join)
        if planned is not None:
            self._gated(lambda: self._compare_ranks(planned, self._begun, read=False))
        return Pass(self._made, gradients, training, resumed, shuffler, order, planned)

    def worker_init(self, loader: Any, now: Pass) -> Any:
        """The `worker_init_fn` with which torch starts the workers of a pass: the user's, perhaps with a record."""
        init = loader.worker_init_fn

        def record() -> None:
            nonlocal init
            init = self.replays.recording(loader, init, now.serial)

        if now.gradients and now.order is not None and loader.num_workers:
            self._gated(record)
        return init

    def save_progress(self) -> None:
        """A checkpoint is saved now, from which another run may continue."""
        if self.progress is not None:
            self._gated(self.progress.save)

    def see(self, now: Pass, batch: Any) -> None:
        """Look at a batch that is about to be given to the loop."""
        self._gated(lambda: self._see(now, batch))

    def hand(self, batch: Any) -> None:
        """A wrapper of the loader is about to give a batch to the loop."""
        self._gated(lambda: self._report_resumed(self.progress.hand(batch) if self.progress else None))

    def end(self, now: Pass) -> None:
        """Judge an epoch that was read to its end, once."""
        if not now.ended:
            now.ended = True
            self._gated(lambda: self._end(now))

    def _gated(self, examine: Callable[[], None]) -> None:
        """Let violations through; any other exception is a bug of the guard, which must not end a training."""
        if self.broken is not None:
            return
        started = time.perf_counter()
        try:
            examine()
        except (ContractViolation, ContractWarning):
            raise
        except Exception:  # noqa: BLE001 - as above
            self.broken = traceback.format_exc()
        finally:
            self.spent += time.perf_counter() - started

    def _see(self, now: Pass, batch: Any) -> None:
        if now.delivered == 0:
            self._first(now)
        number, indices = now.delivered, now.next_indices(in_order=self.in_order)
        now.delivered += 1
        self.batches += 1
        allowed = self._affords_check()
        if not self.structure.is_known(batch) and (allowed or not self.structure.is_full):
            self._compare_structure(batch, ViolatingBatch(now.epoch, number, indices, batch))
        if allowed:
            self._check_values(batch, ViolatingBatch(now.epoch, number, indices, batch))
        if self.progress is not None and now.gradients:
            if self.is_wrapped:
                self.progress.fetch(now, batch, indices, now.planned)
            else:
                self._report_resumed(self.progress.see(now, batch, indices, now.planned))
        if now.training and now.is_single(_length(batch) if indices is None else len(indices)):
            finding = Finding(f"batch {number} of epoch {now.epoch} holds a single sample")
            self.alarm.report("DG403", finding, ViolatingBatch(now.epoch, number, indices, batch))
        if now.gradients and indices and now.order is not None:
            if now.order.comparable and self.replays.rows.see(now.serial, indices, batch):
                self._judge_replays(now)
            if now.order.comparable and self.changed:
                self.changed.see(now.serial, indices, batch)
            if number + 1 == PREFIX_BATCHES:
                self._judge_order(now, now.order)
        if now.gradients and now.stream is not None:
            self.stream_epochs.see(number, batch)
        if now.gradients and self.ranks:
            self.ranks.see(number, batch)

    def _report_resumed(self, finding: Finding | None) -> None:
        if finding:
            self.alarm.report("DG209", finding)

    def _affords_check(self) -> bool:
        """Whether the values of this batch may be checked."""
        soon = self._checking + self._cost <= TIME_SHARE * (self.waited + self.worked)
        return soon or self.batches <= FIRST_BATCHES or self.options.all_values

    def _first(self, now: Pass) -> None:
        """Number a pass by its first batch; what came before it was abandoned unless it has ended."""
        now.epoch, self._begun = self._begun, self._begun + 1
        cut, self._open = self._open, now
        if cut is None or cut.ended or cut.resumed or not cut.gradients or cut.delivered < PREFIX_BATCHES:
            return
        if cut.order is not None:
            self.orders.keep(cut.order, cut.epoch, ended=False)

    def _compare_structure(self, batch: Any, where: ViolatingBatch) -> None:
        changed = self.structure.changed(batch, arrays_of(batch))
        if changed:
            path, before, after = changed
            message = f"batch{path} of {where} is {_spelled(after)}; it was {_spelled(before)}"
            self.alarm.report("DG305", Finding(message, _samples(where)), where)

    def _check_values(self, batch: Any, where: ViolatingBatch) -> None:
        started = time.perf_counter()
        arrays = arrays_of(batch)
        bad, wrong = list(non_finite(arrays)), list(self.labels.wrong(arrays))
        unlabelled = self.loss_mask.see(where.epoch, arrays)
        self.checked += 1
        self._cost = time.perf_counter() - started
        if self.batches > FIRST_BATCHES:
            self._checking += self._cost
        for invalid in bad:
            message = f"batch{invalid.path} of {where} contains {invalid.what}"
            self.alarm.report("DG501", Finding(message, _samples(where, invalid)), where)
        for invalid in wrong:
            valid = f"{self.labels.source} says 0 to {(self.labels.count or 0) - 1}"
            message = f"batch{invalid.path} of {where} contains the label {invalid.what}, but {valid}"
            self.alarm.report("DG502", Finding(message, _samples(where, invalid)), where)

        if unlabelled is not None:
            message = f"batch{unlabelled} of {where} has no label that counts for the loss"
            self.alarm.report("DG423", Finding(message, _samples(where)), where)

    def _judge_order(self, now: Pass, order: Order) -> None:
        before = self.orders.repeated(order, ended=now.ended) if now.training else None
        if now.shuffler is None or before is None:
            return
        fix = "call sampler.set_epoch(epoch) before each epoch" if now.shuffler.takes_epoch else None
        compared = counted(order.drawn if now.ended else PREFIX_BATCHES, "batches")
        evidence = {"fix here": fix, "begins with": order.first[:_MOST_NAMED], "compared": compared}
        message = f"{now.shuffler.name} draws the same order in epochs {before} and {now.epoch}"
        self.alarm.report("DG206", Finding(message, without_empty(evidence)))

    def _judge_replays(self, now: Pass) -> None:
        for code, finding in self.replays.findings([now, *self._whole]) if now.may_replay else ():
            self.alarm.report(code, finding)

    def _judge_change(self) -> None:
        drift = self.changed and self.changed.drift
        if drift and "DG307" not in self.alarm.findings:
            grows = "grows" if drift.last > drift.first else "shrinks"
            message = f"batch{drift.path} {grows} from epoch to epoch: reading a sample changes the stored data"
            spread = f"{drift.first:.3g} at first, {drift.last:.3g} after {drift.epochs} epochs"
            fix = "work on a copy: `image = image.clone()`, or `.copy()` of an array, before the first step in place"
            evidence = {"fix here": fix, f"standard deviation of dataset[{drift.index!r}]": spread}
            self.alarm.report("DG307", Finding(message, evidence))

    def _compare_ranks(self, batches: int, epoch: int, *, read: bool) -> None:
        for code, finding in self.ranks.compare(batches, epoch, read=read) if self.ranks else ():
            self.alarm.report(code, finding)

    def _end(self, now: Pass) -> None:
        self.epochs += 1
        if self.progress is not None and now.gradients:
            self._report_resumed(self.progress.end(now))
        if self.ranks and now.gradients:
            self.ranks.end(now.epoch)
        if now.planned is None:
            self._compare_ranks(now.delivered, now.epoch, read=True)
        if self.options.max_wait is not None:
            share = now.waited / ((now.waited + now.worked) or 1.0)
            if share > self.options.max_wait:
                message = f"the loop waited for batches during {share:.0%} of epoch {now.epoch}"
                self.alarm.report("DG801", Finding(message, {"max_wait": self.options.max_wait}))
        if now.gradients and not now.resumed:
            self._end_training(now)

    def _end_training(self, now: Pass) -> None:
        self.trained += 1
        try:
            if now.order is not None:
                self._judge_order(now, now.order)
            self._judge_replays(now)
            repeated = self.stream_epochs.end(now.epoch, now.stream()) if now.stream is not None else None
            if repeated:
                self.alarm.report("DG206", repeated)
            self._judge_change()
        finally:
            self._whole = [now]
            if now.order is not None:
                self.orders.keep(now.order, now.epoch, ended=True)


def _samples(where: ViolatingBatch, wrong: InvalidValues | None = None) -> dict[str, Any]:
    """The samples of a batch that a finding is about, or its rows if the indices are unknown."""
    indices = where.indices
    if wrong is None:
        return without_empty(
            {"samples": None if indices is None else _first_of([f"dataset[{index!r}]" for index in indices])}
        )
    if indices is not None and len(indices) == wrong.size:
        return {"samples": _first_of([f"dataset[{indices[row]!r}]" for row in wrong.rows])}
    return {"rows": _first_of(list(wrong.rows))}


def _first_of(items: list[Any]) -> list[Any]:
    return items if len(items) <= _MOST_NAMED else [*items[: _MOST_NAMED - 1], f"{len(items) - _MOST_NAMED + 1:,} more"]


def _spelled(kind: Kind) -> str:
    return f"{kind[0]} with {counted(kind[1], 'dimensions')}"


def _length(batch: Any) -> int | None:
    """The number of rows of the first array of a batch."""
    for _ in range(2):
        if hasattr(batch, "shape"):
            return len(batch) if batch.ndim else None
        entries = list(batch.values()) if isinstance(batch, dict) else batch
        if not isinstance(entries, list | tuple) or not entries:
            return None
        batch = entries[0]
    return None
