"""Checks of tokens with what settings say: a model, names of leaves, and what packed documents may see."""

from __future__ import annotations

from typing import Any

import pytest

from dataguard.core.model import Result
from dataguard.engine import scan
from dataguard.settings.settings import Settings

PAIRS = "sample_datasets.dg421_padding_in_loss:good_pairs"


def judged(target: str, code: str, **settings: Any) -> Result:
    (result,) = scan(target, Settings(select=(code,), samples=32, **settings)).results
    return result


@pytest.mark.scan
@pytest.mark.parametrize(("size", "count"), [("small", 1), ("large", 0)])
def test_the_embedding_of_the_model_is_the_vocabulary(size: str, count: int) -> None:
    target = "sample_datasets.dg427_token_out_of_vocabulary:bad"
    result = judged(target, "DG427", model=f"tests.loaders.embedded:{size}", loss="torch.nn:CrossEntropyLoss")
    assert ["98 ids" in finding.message for finding in result.findings] == [True] * count


@pytest.mark.scan
@pytest.mark.parametrize(("factory", "status"), [("with_model", "failed"), ("without_model", "skipped")])
def test_without_a_mask_a_tokenizer_beside_a_model_shows_who_shifts(factory: str, status: str) -> None:
    pytest.importorskip("transformers")
    assert judged(f"tests.loaders.embedded:{factory}", "DG410").status.value == status


@pytest.mark.scan
@pytest.mark.parametrize(
    ("target", "model", "status"),
    [
        ("sample_datasets.dg410_doubly_shifted_labels:good_pairs", "Shifting", "failed"),
        ("sample_datasets.dg410_doubly_shifted_labels:good_pairs", "Trained", "passed"),
        ("sample_datasets.dg410_doubly_shifted_labels:bad_chunks", "Trained", "passed"),
        ("tests.loaders.embedded:copies", "Shifting", "passed"),
        ("tests.loaders.embedded:copies", "Trained", "failed"),
        ("tests.loaders.embedded:copies", "Restoring", "skipped"),
    ],
)
def test_a_step_of_the_model_shows_whether_it_shifts_labels(target: str, model: str, status: str) -> None:
    assert judged(target, "DG410", model=f"tests.loaders.embedded:{model}").status.value == status


@pytest.mark.scan
def test_the_contract_names_leaves_and_ids() -> None:
    names = {"tokens": "[0]", "labels": "[1]"}
    found = judged(PAIRS, "DG427")
    assert (found.status.value, "batch[0] as tokens" in str(found.reason)) == ("passed", True)
    failed = judged(PAIRS, "DG427", contract={**names, "vocab_size": 50})
    assert "but the contract has 50 tokens" in failed.findings[0].message


@pytest.mark.scan
@pytest.mark.parametrize(("packing", "status"), [(None, "skipped"), ("joined", "skipped"), ("separate", "failed")])
def test_blocks_of_several_documents_are_judged_by_the_contract(packing: str | None, status: str) -> None:
    contract: dict[str, Any] = {"eos": 2} | ({"packing": packing} if packing else {})
    assert judged("sample_datasets.dg425_leaking_packs:good_joined", "DG425", contract=contract).status.value == status


@pytest.mark.scan
@pytest.mark.parametrize(("contract", "status"), [({}, "skipped"), ({"ignore_index": -1}, "failed")])
def test_whether_a_loss_ignores_the_padding_id_is_declared(contract: dict[str, Any], status: str) -> None:
    assert judged(PAIRS, "DG421", contract=contract).status.value == status


@pytest.mark.scan
def test_the_tokenizer_of_evaluation_serves_training() -> None:
    report = scan("tests.loaders.embedded:with_evaluation", Settings(select=("DG424",)))
    assert {result.loader: result.status.value for result in report.results} == {"train": "passed", "val": "passed"}
