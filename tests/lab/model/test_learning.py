"""How a batch is learned, in this process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

from dataguard.core.model import Undecided
from dataguard.lab.core.loader_facts import facts_of
from dataguard.lab.model import learning
from dataguard.lab.model.learning import Learning, run_learning
from dataguard.lab.model.trial import Trial, are_identical, groups_of, rows_of, run_trial, standardized
from dataguard.settings.settings import Settings
from dataguard.targets.loading import Target
from tests.loaders import trained

HERE = "tests.loaders.trained"


def observed(
    run: Callable[..., Any], make: Callable[[], DataLoader[Any]], folder: Path, *more: Any, **named: str
) -> Any:
    def build(**overrides: Any) -> DataLoader[Any]:
        overrides.pop("reuse")
        made: DataLoader[Any] = Target("loader", f"{HERE}:x", make).build(None, **overrides)
        return made

    settings = Settings(**{name: f"{HERE}:{value}" for name, value in named.items()})  # type: ignore[arg-type]
    return run(build, facts_of("loader", make(), {}, "loader"), settings, folder, *more)


def learned(make: Callable[[], DataLoader[Any]], folder: Path, seconds: float = 60.0, **named: str) -> Learning:
    found: Learning = observed(run_learning, make, folder, seconds, **named)
    return found


def tried(make: Callable[[], DataLoader[Any]], folder: Path, **named: str) -> Trial:
    found: Trial = observed(run_trial, make, folder, 20.0, **named)
    return found


def test_a_batch_is_learned(tmp_path: Path) -> None:
    found = learned(trained.pairs, tmp_path, model="Rows", loss="make_loss")
    assert found.learned
    assert found.reached is not None
    assert found.reached.loss < 0.8 * found.start
    assert (found.samples, found.classes, found.parameters, found.unreached) == (4, 3, 2, ())
    assert [leaf.path for leaf in found.inputs] == ["[0]"]
    assert [leaf.path for leaf in found.targets] == ["[1]"]
    assert not found.identical


def test_a_part_of_the_model_is_called_and_not_the_model(tmp_path: Path) -> None:
    found = learned(trained.pairs, tmp_path, model="Trainer")
    assert found.learned
    assert [leaf.path for leaf in found.inputs] == ["[0]"]


def test_slow_steps_are_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learning, "SMALLER_BATCH", 2)
    found = learned(trained.pairs, tmp_path, 0.2, model="Rows", loss="slow")
    assert found.cut
    assert found.samples == 2, "fewer samples were tried as well"


def test_a_step_with_its_own_backward_is_not_judged(tmp_path: Path) -> None:
    with pytest.raises(Undecided, match="the step computes gradients itself"):
        tried(trained.pairs, tmp_path, model="Rows", step="own_backward")


def test_a_model_that_raises_is_recorded(tmp_path: Path) -> None:
    found = tried(trained.pairs, tmp_path, model="Refusing", loss="half")
    assert found.failed == "model"
    assert found.incident is not None
    assert found.incident.location is not None
    assert str(found.incident.location.file).endswith("trained.py")


@pytest.mark.parametrize(
    ("make", "named", "effects"),
    [
        (trained.triples, {"model": "Two", "loss": "half"}, {"[0]": True, "[1]": True, "[2]": True}),
        (
            trained.tokens,
            {"model": "Language"},
            {"['input_ids']": True, "['attention_mask']": None, "['labels']": True},
        ),
        (trained.scenes, {"model": "Detector"}, {"[0][0]": True, "[1][0]['boxes']": True, "[1][3]['labels']": None}),
    ],
    ids=["triples", "tokens", "scenes"],
)
def test_leaves_have_effects(
    make: Callable[[], DataLoader[Any]], named: dict[str, str], effects: dict[str, bool | None], tmp_path: Path
) -> None:
    found = {leaf.path: leaf.changes for leaf in tried(make, tmp_path, **named).leaves}
    assert {path: found[path] for path in effects} == effects


def test_rows_and_identical_inputs() -> None:
    batch = {"x": torch.ones(8, 3), "y": torch.arange(8), "scale": torch.ones(())}
    assert rows_of(batch) == 8
    assert are_identical([batch], frozenset({"['x']"}), frozenset({"['y']"}))
    assert not are_identical([batch, {**batch, "x": torch.rand(8, 3)}], frozenset({"['x']"}), frozenset({"['y']"}))
    assert not are_identical([batch], frozenset({"['x']", "['scale']"}), frozenset({"['y']"}))
    assert not are_identical([batch], frozenset({"['x']"}), frozenset({"['x']"}))


def test_samples_with_identical_inputs_form_groups() -> None:
    batch = {"a": torch.tensor([1, 2, 1, 1]), "b": torch.tensor([[0.0, 1], [0, 1], [0, 1], [0, 2]])}
    assert groups_of(batch, frozenset({"['a']"})).tolist() == [0, 1, 0, 0]  # type: ignore[union-attr]
    assert groups_of(batch, frozenset({"['a']", "['b']"})).tolist() == [0, 2, 0, 1]  # type: ignore[union-attr]
    assert groups_of({**batch, "c": torch.ones(())}, frozenset({"['c']"})) is None


def test_standardized_inputs_have_unit_columns_and_channels() -> None:
    table = torch.tensor([[1.0, 1e9, 5.0], [2.0, 2e9, 5.0], [3.0, 4e9, 5.0]])
    images = torch.rand(4, 3, 5, 5) * 1e-8 + 7
    made = standardized([table, images], frozenset({"[0]", "[1]"}))
    assert made[0].mean(0).abs().max() < 1e-6
    assert made[0].std(0, correction=0).tolist() == pytest.approx([1, 1, 0])
    assert made[1].isfinite().all()
    assert standardized([torch.rand(4, 3)], frozenset({"[0]"})) is None, "it is scaled already"
    assert standardized([torch.arange(4)], frozenset({"[0]"})) is None
