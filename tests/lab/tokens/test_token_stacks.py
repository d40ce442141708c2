"""Loaders after public stacks: their tokens are recognised without a contract, and what is planted is found."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from types import SimpleNamespace
from typing import Any

import pytest

from dataguard.checks import CATALOGUE
from dataguard.core.model import Finding, NotApplicable, NotTested, Undecided
from dataguard.lab.tokens.token_observations import TokenReads
from tests.loaders import other_token_stacks, reply_token_stacks, token_stacks
from tests.loaders.library_collators import COLLATORS
from tests.loaders.token_reads import tokens_of

MODULES = (token_stacks, other_token_stacks, reply_token_stacks)
STACKS = {name: stack for module in MODULES for name, stack in module.STACKS.items()}
CHECKS = [check for check in CATALOGUE if check.code == "DG410" or "DG421" <= check.code <= "DG430"]


def factory(name: str) -> Callable[[bool], Any]:
    """What makes the loader of a stack."""
    made: Callable[[bool], Any] = getattr(next(module for module in MODULES if name in module.STACKS), name)
    return made


@cache
def read(name: str, planted: bool) -> TokenReads | None:
    if name == "nanochat":
        pytest.importorskip("tiktoken")
    return tokens_of(partial(factory(name), planted), {})


def judged(reads: TokenReads, contract: Mapping[str, Any]) -> dict[str, list[Finding]]:
    """The findings of all checks of tokens, without lines."""
    tokens = SimpleNamespace(
        read=reads, **dict.fromkeys(("line", "line_of_tokens", "line_of_empty", "line_of_storage"), lambda *_: None)
    )
    settings = SimpleNamespace(contract=contract, model=None)
    lab: Any = SimpleNamespace(
        tokens=tokens,
        settings=settings,
        facts=SimpleNamespace(role="train"),
        model=SimpleNamespace(vocabulary=None),
        epoch=SimpleNamespace(samples=(), value_summaries=()),
    )
    findings: dict[str, list[Finding]] = {}
    for check in CHECKS:
        try:
            findings[check.code] = list(check.judge(lab))
        except (NotApplicable, NotTested, Undecided):
            continue
    return {code: found for code, found in findings.items() if found}


@pytest.mark.parametrize("name", STACKS)
def test_tokens_are_recognized_and_healthy_loaders_pass(name: str) -> None:
    reads = read(name, planted=False)
    assert reads is not None
    assert judged(reads, {}) == {}


@pytest.mark.parametrize("name", STACKS)
def test_what_is_planted_is_found(name: str) -> None:
    code, contract = STACKS[name]
    reads = tokens_of(partial(factory(name), True), contract) if contract else read(name, planted=True)
    assert reads is not None
    assert list(judged(reads, contract)) == [code]


@pytest.mark.parametrize("name", reply_token_stacks.SUSPICIOUS)
def test_healthy_loaders_that_look_alike_pass(name: str) -> None:
    contract = {"packing": "separate", "eos": token_stacks.EOS} if "documents" in name else {}
    reads = tokens_of(reply_token_stacks.SUSPICIOUS[name], contract)
    assert reads is not None
    assert judged(reads, contract) == {}


@pytest.mark.scan
@pytest.mark.parametrize("made", COLLATORS)
def test_collators_of_a_library_pass(made: Callable[[], Any]) -> None:
    pytest.importorskip("transformers")
    reads = tokens_of(made, {})
    assert reads is not None
    assert judged(reads, {}) == {}
