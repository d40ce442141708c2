"""Edges of judges that no sample shows: conditions turned round here have passed all samples before."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from dataguard.checks.geometry.dg511_blended_mask import dg511_blended_mask
from dataguard.checks.images.dg507_wrong_normalization import dg507_wrong_normalization
from dataguard.checks.labels.dg502_label_out_of_range import dg502_label_out_of_range
from dataguard.checks.machine.dg605_oversubscribed_threads import dg605_oversubscribed_threads
from dataguard.checks.streams.dg206_replayed_order import dg206_replayed_order
from dataguard.checks.throughput.dg802_unoverlapped_copy import dg802_unoverlapped_copy
from dataguard.core.model import Check, Coverage, Finding, Location, NotApplicable, Undecided
from dataguard.lab.images.chart_fit import Fit
from dataguard.lab.machine.resource_observations import ThreadContention
from dataguard.lab.streams.orders import Orders
from dataguard.lab.throughput.device_copies import CopyTimes, DeliveredBatch
from dataguard.stats.coincidence import ORDERED
from dataguard.stats.normalization import Statistics
from tests.support.recordings import Verdict, recordings, verdict_of


def findings(check: Check, lab: Any) -> tuple[Finding, ...]:
    """The findings of a judge that reaches a verdict."""
    verdict = verdict_of(check.judge, lab)
    assert isinstance(verdict.outcome, Coverage), verdict.outcome
    return verdict.findings


def refusal(verdict: Verdict) -> tuple[type, str]:
    return type(verdict.outcome), str(verdict.outcome)


class TestOrders:
    """DG206: what is meant to be shuffled, and how many indices show that it is not."""

    ORDER = tuple(range(ORDERED))[::-1]

    def judged(self, *epochs: tuple[int, ...], **changes: Any) -> Verdict:
        """The verdict on these epochs; facts are named in `changes`, and so is what a sampler drew elsewhere."""
        bad = recordings("dg206_replayed_order")["bad"]
        advanced = changes.pop("advanced", epochs[-1])
        whole, reset = changes.pop("whole", True), changes.pop("reset", ())
        orders = Orders(epochs, ((),) * len(epochs), (), advanced, (3, 3, 3), whole, reset)
        facts = replace(bad.read(".facts"), **{"epoch_hooks": (), **changes})
        return verdict_of(dg206_replayed_order.judge, bad.but({".facts": facts, ".streams.orders": orders}).lab)

    def test_the_fewest_indices_that_are_no_coincidence(self) -> None:
        assert self.judged(self.ORDER, self.ORDER, shuffled=True).findings
        fewer = self.ORDER[1:]
        kind, words = refusal(self.judged(fewer, fewer, shuffled=True))
        assert (kind, words) == (Undecided, f"two orders of {ORDERED - 1} indices may be the same by chance")

    def test_a_sampler_that_nothing_moves_does_not_shuffle(self) -> None:
        kind, words = refusal(self.judged(self.ORDER, self.ORDER, shuffled=False))
        assert kind is NotApplicable
        assert "does not shuffle" in words

    @pytest.mark.parametrize(
        "changes",
        [
            {"shuffled": True},
            {"advanced": tuple(range(ORDERED))},
            {"reset": ("batch_sampler.sampler.generator",)},
            {"epoch_hooks": (Location(what="dataset.set_epoch"), Location(what="sampler.set_epoch"))},
        ],
    )
    def test_any_sign_of_shuffling_is_enough(self, changes: dict[str, Any]) -> None:
        assert self.judged(self.ORDER, self.ORDER, **{"shuffled": False, **changes}).findings

    def test_an_ascending_order_that_repeats_is_none(self) -> None:
        order = tuple(range(ORDERED))
        assert refusal(self.judged(order, order, shuffled=True))[0] is NotApplicable
        hook = (Location(what="sampler.set_epoch"),)
        assert refusal(self.judged(order, order, shuffled=False, epoch_hooks=hook))[0] is NotApplicable

    def test_other_orders_are_no_finding(self) -> None:
        assert self.judged(self.ORDER, self.ORDER[1:] + self.ORDER[:1], shuffled=False).findings == ()

    def test_an_epoch_without_an_end_or_without_indices(self) -> None:
        assert "there is only one epoch" in refusal(self.judged(self.ORDER, whole=False))[1]
        assert "cannot be observed" in refusal(self.judged(self.ORDER, ()))[1]

    def test_unknown_indices_in_one_order_stay_open(self) -> None:
        unknown: Any = (None,) * ORDERED
        assert refusal(self.judged(unknown, unknown, shuffled=True))[0] is Undecided


class TestCopies:
    """DG802: a copy is reported if it is long, does not overlap and need not be so."""

    def judged(self, alone: float = 0.05, overlap: float = 0.0, unpinned: tuple[str, ...] = ("[0]",)) -> Any:
        times = CopyTimes(10**9, alone, 1.0, 1.0 + alone * (1 - overlap), 0.0)
        copies = DeliveredBatch(10**9, unpinned, times)
        throughput = SimpleNamespace(step=1.0, copies=copies)
        lab = SimpleNamespace(throughput=throughput, facts=SimpleNamespace(pin_memory=False))
        return findings(dg802_unoverlapped_copy, lab)

    def test_a_copy_that_waits(self) -> None:
        (finding,) = self.judged(alone=0.125)
        assert finding.message == "copying a batch takes 125 ms, of which 0% overlaps compute"
        assert finding.evidence == {
            "not pinned": ["[0]"],
            "pin_memory": False,
            "bytes": 10**9,
            "rate": "8 GB/s",
            "step": "1e+03 ms",
        }

    def test_its_share_of_the_step(self) -> None:
        assert self.judged(alone=0.05)
        assert not self.judged(alone=0.049)

    def test_how_much_of_it_overlaps(self) -> None:
        assert self.judged(alone=0.5, overlap=0.25)
        assert not self.judged(alone=0.5, overlap=0.5)

    def test_what_is_pinned_cannot_be_faster(self) -> None:
        assert not self.judged(unpinned=())

    def test_a_batch_that_is_too_small_to_measure(self) -> None:
        copies = DeliveredBatch(10, ("[0]",), None)
        lab = SimpleNamespace(throughput=SimpleNamespace(step=1.0, copies=copies))
        verdict = verdict_of(dg802_unoverlapped_copy.judge, lab)
        assert verdict.findings == ()
        assert verdict.outcome.exercised == {"bytes": 10}


class TestThreads:
    """DG605: threads that are too many, and slower for it in every round."""

    def judged(
        self, threads: int, *alone: float, workers: int = 4, cores: int = 4, batches: int = 1
    ) -> tuple[tuple[Finding, ...], Any]:
        lab = SimpleNamespace(
            facts=SimpleNamespace(num_workers=workers),
            machine=SimpleNamespace(usable_cores=cores),
            epoch=SimpleNamespace(batches=[SimpleNamespace(threads=threads)] * batches, exercised={"samples": 8}),
            resources=SimpleNamespace(
                thread_contention=SimpleNamespace(
                    workers=workers,
                    ratios=alone,
                    as_is=(1000.0, 2.5),
                    alone=(4000.0,),
                    pools=("openmp: 4",),
                )
            ),
        )
        verdict = verdict_of(dg605_oversubscribed_threads.judge, lab)
        return verdict.findings, verdict.outcome

    def test_slower_in_every_round(self) -> None:
        ((finding,), looked) = self.judged(4, 2.0, 1.5, 3.0)
        assert finding.message == "4 workers load 1.5 times as fast with one thread each as with 4 each"
        assert finding.evidence["as configured"] == "1e+03, 2.5 samples/s"
        assert finding.evidence["one thread each"] == "4e+03 samples/s"
        assert looked.exercised == {"workers": 4, "rounds": 3}

    @pytest.mark.parametrize("ratios", [(2.0, 1.49, 3.0), (2.0, 2.0), ()])
    def test_not_clearly_so(self, ratios: tuple[float, ...]) -> None:
        found, looked = self.judged(4, *ratios)
        assert found == ()
        assert looked.note == "4 workers with 4 threads each are no slower for it"

    @pytest.mark.parametrize(
        ("threads", "workers", "cores", "measured"),
        [(2, 4, 4, True), (2, 3, 4, False), (1, 8, 2, False), (2, 2, 2, True)],
    )
    def test_from_when_on_they_are_measured(self, threads: int, workers: int, cores: int, measured: bool) -> None:
        found, looked = self.judged(threads, 2.0, 2.0, 2.0, workers=workers, cores=cores)
        assert bool(found) == measured
        assert looked.exercised == ({"workers": workers, "rounds": 3} if measured else {"samples": 8})

    def test_one_worker_competes_with_none(self) -> None:
        assert isinstance(self.judged(4, 2.0, workers=1)[1], NotApplicable)

    def test_an_epoch_without_a_batch(self) -> None:
        assert self.judged(4, 2.0, 2.0, 2.0, batches=0)[1].exercised == {"samples": 8}

    def test_ratios_are_taken_round_by_round(self) -> None:
        assert ThreadContention(2, (1.0, 4.0), (2.0, 2.0), ()).ratios == (2.0, 0.5)


class TestContractOfStatistics:
    """DG507 where the contract names the statistics."""

    OWN = Statistics("own", (0.5, 0.4, 0.3), (0.2, 0.25, 0.5))

    def judged(self, *, order: str = "RGB", bgr: bool = False, factor: float = 1.0, channels: str | None = None) -> Any:
        """The verdict on images with these statistics."""
        recorded = recordings("dg507_wrong_normalization")["bad"]
        numbers = self.OWN.of(3, bgr=bgr)
        gains = tuple(factor / 255 / std for _, std in numbers)
        offsets = tuple(-mean / std for mean, std in numbers)
        charts = recorded.read(".images.charts")
        fit = Fit(charts.fits[0].path, "float32", order, gains, offsets, 0.0, exact=True)
        settings = recorded.read(".settings")
        return verdict_of(
            dg507_wrong_normalization.judge,
            recorded.but(
                {
                    ".images.charts": replace(charts, fits=(fit,)),
                    ".images.expected": self.OWN,
                    ".settings": replace(settings, contract={"channels": channels} if channels else {}),
                }
            ).lab,
        )

    def test_those_of_the_contract_are_right(self) -> None:
        assert self.judged().findings == ()
        assert self.judged(order="BGR", bgr=True).findings == ()

    def test_their_order_must_be_that_of_the_channels(self) -> None:
        (finding,) = self.judged(order="RGB", bgr=True).findings
        assert finding.message.endswith("the contract's statistics are applied in BGR order to RGB channels")

    @pytest.mark.parametrize(("channels", "wrong"), [("RGB", True), ("BGR", False)])
    def test_the_order_of_the_contract_counts_more(self, channels: str, wrong: bool) -> None:
        order = "RGB" if channels == "BGR" else "BGR"
        assert bool(self.judged(order=order, bgr=True, channels=channels).findings) == wrong

    def test_others_are_wrong(self) -> None:
        recorded = recordings("dg507_wrong_normalization")["bad"]
        (finding, *_) = findings(dg507_wrong_normalization, recorded.but({".images.expected": self.OWN}).lab)
        assert "the contract says mean" in finding.message

    def test_they_are_applied_once(self) -> None:
        recorded = recordings("dg507_wrong_normalization")["bad"]
        twice = tuple(1 / 255 / std**2 for std in self.OWN.std)
        shifted = tuple(-mean / std - mean / std**2 for mean, std in zip(self.OWN.mean, self.OWN.std, strict=True))
        fit = Fit("[0]", "float32", "RGB", twice, shifted, 0.0, exact=True)
        charts = replace(recorded.read(".images.charts"), fits=(fit,))
        changes = {".images.charts": charts, ".images.expected": self.OWN}
        (finding,) = findings(dg507_wrong_normalization, recorded.but(changes).lab)
        assert finding.message.endswith("the contract's statistics are applied twice")

    def test_a_scale_that_is_no_slip(self) -> None:
        (finding,) = self.judged(factor=1.01).findings
        assert "the contract says mean" in finding.message


class TestRepro:
    """A command that reads the sample stands with a finding, if the sample has an index."""

    def test_labels(self) -> None:
        (finding, *_) = findings(dg502_label_out_of_range, recordings("dg502_label_out_of_range")["bad"].lab)
        assert str(finding.repro).startswith("dataguard show ")

    @pytest.mark.parametrize(("index", "collated", "shown"), [(3, False, True), (None, False, False), (3, True, False)])
    def test_masks(self, index: int | None, collated: bool, shown: bool) -> None:
        recorded = recordings("dg511_blended_mask")["bad"]
        charts = replace(recorded.read(".geometry.masks"), index=index, collated=collated)
        (finding,) = findings(dg511_blended_mask, recorded.but({".geometry.masks": charts}).lab)
        assert str(finding.repro).startswith("dataguard show tests.loaders.recorded:named 3 ") == shown
        assert (finding.repro is None) != shown
