"""Draws that are the same for an index in every epoch: what freezes them, and what is rightly the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from dataguard.checks.randomness.dg103_frozen_augmentation import by_cache, by_index, require_no_choice, varied_draws
from dataguard.core.model import Location, NotApplicable, Undecided
from dataguard.lab.core.records import Seeding
from dataguard.lab.randomness.constant_seeds import SeedTrace
from dataguard.lab.randomness.shared_draws import CachedDraws
from tests.support.epochs import sample
from tests.support.recordings import verdict_of

VALUE = {"x": torch.rand(4), "weight": 0.5, "y": 3, "name": "a"}


def lab(workers: int = 2, persistent: bool = False, **randomness: Any) -> Any:
    return SimpleNamespace(
        epoch=SimpleNamespace(samples=[sample(VALUE)]),
        facts=SimpleNamespace(num_workers=workers, persistent=persistent),
        randomness=SimpleNamespace(**{"first_items": randomness.get("few_items")} | randomness),
    )


def draws(**leaves: str) -> Any:
    """What was drawn of each leaf, by letters: two draws of two items in one worker and epoch."""
    as_is = {f"sample['{path}']": {(0, 0): (tuple(word[:2]), tuple(word[2:]))} for path, word in leaves.items()}
    return SimpleNamespace(as_is=as_is)


class TestVariedDraws:
    @pytest.mark.parametrize(
        ("leaves", "varied"),
        [
            ({"x": "abcd", "weight": "abcd"}, True),
            ({"x": "abcc", "weight": "abcd"}, True),  # one item varies
            ({"x": "abcd", "weight": "aacc"}, False),
            ({"x": "abcd", "y": "aacc", "name": "aacc"}, True),  # labels and names need not vary
            ({"y": "abcd"}, False),
        ],
    )
    def test_all_but_the_labels_varies(self, leaves: Mapping[str, str], varied: bool) -> None:
        made = draws(**leaves)
        assert varied_draws(lab(few_items=made)) is (made if varied else None)

    @pytest.mark.parametrize(("second", "varied"), [("cd", True), ("ab", False)])
    def test_one_draw_of_each_item_varies_between_epochs(self, second: str, varied: bool) -> None:
        series = {(0, epoch): tuple((letter,) for letter in word) for epoch, word in enumerate(("ab", second))}
        made: Any = SimpleNamespace(as_is={"sample['x']": series, "sample['weight']": series})
        assert varied_draws(lab(few_items=made)) is (made if varied else None)

    def test_more_draws_where_the_first_do_not_vary(self) -> None:
        first, few = draws(x="aacc"), draws(x="abcd")
        assert varied_draws(lab(first_items=first, few_items=few)) is few
        assert varied_draws(lab(first_items=few, few_items=first)) is few

    def test_draws_that_cannot_be_observed(self) -> None:
        class Refusing:
            @property
            def first_items(self) -> None:
                raise NotApplicable("no")

            few_items = first_items

        one = lab()
        one.randomness = Refusing()
        assert varied_draws(one) is None


class TestChoice:
    """A seed that may select the sample."""

    X = "sample['x']"

    @pytest.mark.parametrize(
        ("plain", "changed", "chosen"),
        [
            ((), {}, False),
            ((X,), {}, True),
            ((), {X: frozenset({b"other"})}, False),
            ((), {X: frozenset({sample(VALUE).leaves[0].digest})}, True),
        ],
    )
    def test_of_another_sample(
        self, plain: tuple[str, ...], changed: Mapping[str, frozenset[bytes]], chosen: bool
    ) -> None:
        trace = SeedTrace((), (self.X,), plain, changed=changed)
        if not chosen:
            require_no_choice(lab(), trace, [self.X])
            return
        with pytest.raises(Undecided, match="a constant seed determines sample"):
            require_no_choice(lab(), trace, ["sample['weight']", self.X])


class TestSeedsOfTheIndex:
    SEEDING = Seeding("numpy", "index", "data.py", 7, "load")
    X, Y = "sample['x']", "sample['y']"

    def found(self, seedings: Sequence[Seeding] = (SEEDING,), **trace: Any) -> list[Any]:
        known = {"libraries": frozenset({"albumentations"}), "changed": {self.X: frozenset(), self.Y: frozenset()}}
        made = {"dependent": (self.X,), "plain": (), **known, **trace}
        trace_of = {False: SeedTrace((), (), (), indexed=tuple(seedings)), True: SeedTrace((), **made)}
        made_lab = lab(seeds=lambda always=False: trace_of[always])
        made_lab.images = SimpleNamespace(charts=None)  # nothing is decoded
        return list(by_index(made_lab))

    def test_a_library_augments_after_it(self) -> None:
        (finding,) = self.found()
        assert finding.message == f"{self.X} gets the same augmentation in every epoch: numpy is seeded by index"
        assert finding.at == Location("data.py", 7, "load")
        assert finding.evidence["drawn by"] == ["albumentations"]

    @pytest.mark.parametrize(
        ("seeding", "trace"),
        [
            (Seeding("numpy", "index", "data.py", 7, "load", direct=False), {}),
            (Seeding("numpy", "index", "data.py", 7, "load", epochs=True), {}),
            (SEEDING, {"libraries": frozenset()}),
            (SEEDING, {"plain": (X,)}),
            (SEEDING, {"dependent": ("batch['x']",)}),
            (SEEDING, {"changed": {X: frozenset({sample(VALUE).leaves[0].digest})}}),
        ],
    )
    def test_what_is_rightly_seeded(self, seeding: Seeding, trace: Mapping[str, Any]) -> None:
        assert self.found([seeding], **trace) == []

    def test_no_leaf_may_be_another_sample(self) -> None:
        same = {self.X: frozenset[bytes](), self.Y: frozenset({sample(VALUE).leaves[2].digest})}
        assert self.found(dependent=(self.X, self.Y), changed=same) == []


class TestCaches:
    X, W = "sample['x']", "sample['weight']"

    def judged(self, *leaves: str, changed: Sequence[Location] = (), workers: int = 0, **options: Any) -> Any:
        cached = CachedDraws(leaves, tuple(changed))
        judge: Any = by_cache
        return verdict_of(judge, lab(workers, cached=cached, **options))

    def test_an_augmented_sample_that_is_kept(self) -> None:
        place = Location("data.py", 7, "dataset.cache")
        (finding,) = self.judged(self.X, changed=[place]).findings
        assert finding.at == place
        assert finding.message.startswith(f"{self.X} is augmented once per index")
        assert self.judged(self.X).findings[0].at is None

    def test_labels_may_be_kept(self) -> None:
        verdict = self.judged("sample['y']", self.W)
        assert (verdict.findings, verdict.outcome) == ((), None)
        assert isinstance(self.judged(self.X, "sample['y']").outcome, Undecided)

    @pytest.mark.parametrize(
        ("first", "second", "persistent", "lasts"),
        [
            ("aabb", "aabb", False, True),
            ("aabb", "ccdd", False, False),  # another cache in each epoch
            ("abcd", "abcd", False, False),  # drawn again in each epoch
            ("aabb", "ccdd", True, True),
        ],
    )
    def test_caches_of_workers(self, first: str, second: str, persistent: bool, lasts: bool) -> None:
        series = {(0, epoch): (tuple(word[:2]), tuple(word[2:])) for epoch, word in enumerate((first, second))}
        items = SimpleNamespace(as_is={self.X: series})
        verdict = self.judged(self.X, workers=2, persistent=persistent, few_items=items)
        assert bool(verdict.findings) == lasts
        assert (verdict.outcome is None) == lasts
