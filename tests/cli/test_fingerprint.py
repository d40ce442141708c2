"""`dataguard fingerprint`: the same digest wherever the data are the same, and the first stage that is not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dataguard.cli import main
from dataguard.core.model import UsageError
from dataguard.measured import Fingerprint, Part, first_change, read, written

TARGET = "tests.loaders.reproducible:seeded"


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main.main(["fingerprint", *arguments])
    return code, *capsys.readouterr()


@pytest.mark.scan
def test_the_digest_depends_on_the_data_alone(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "one.json"
    code, words, _ = run(capsys, TARGET, "--output", str(file))
    assert code == 0
    for options in (["--workers", "3"], ["--workers", "1", "--start-method", "spawn"]):
        code, again, _ = run(capsys, TARGET, "--against", str(file), *options)
        assert code == 0, options
        assert again == f"{words}seeded: the same as in {file}\n"


@pytest.mark.scan
def test_the_first_stage_is_named_with_what_else_differs(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "one.json"
    run(capsys, TARGET, "--output", str(file))
    code, words, _ = run(capsys, TARGET, "--arg", "scale=2", "--workers", "2", "--against", str(file))
    assert code == 1
    assert "seeded: differs first in collate_fn: batch 0 of epoch 0" in words
    assert "num_workers: 0 before, 2 now" in words
    assert "two runs" not in words


@pytest.mark.scan
def test_a_generator_without_a_seed_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file, target = tmp_path / "one.json", "tests.loaders.reproducible:unseeded"
    assert run(capsys, target, "--output", str(file))[0] == 0
    code, words, _ = run(capsys, target, "--against", str(file))
    assert code == 1
    assert "unseeded: differs first in dataset: sample 4" in words
    assert "two runs with the same seeds differ first in" in words
    assert "because of numpy.random.default_rng at " in words
    assert "reproducible.py:" in words


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "No such file"),
        ("{", "not a fingerprint"),
        ("[]", "not a fingerprint"),
        ('{"format": 99}', "format 99, but this version compares format 1"),
        ('{"format": 1, "fingerprints": [{"loader": "a"}]}', "incomplete"),
    ],
)
def test_a_wrong_file_is_refused(content: str | None, words: str, tmp_path: Path) -> None:
    file = tmp_path / "one.json"
    if content is not None:
        file.write_text(content)
    with pytest.raises(UsageError, match=words):
        read(file)


def test_a_file_says_what_was_written(tmp_path: Path) -> None:
    one = Fingerprint("pkg:make", "train", (Part("dataset", "length", {"": "9"}),), {"seed": 1})
    file = tmp_path / "one.json"
    file.write_text(written([one]))
    assert read(file) == {"train": one}
    assert json.loads(file.read_text())["fingerprints"][0]["digest"] == one.digest


def test_the_order_of_parts_is_that_of_the_data() -> None:
    parts = (Part("dataset", "sample 0", {"[0]": "a"}), Part("samples", "row 0", {"[0]": "b"}))
    one = Fingerprint("pkg:make", "train", parts, {"seed": 1})
    two = Fingerprint("pkg:make", "train", (parts[0], Part("samples", "row 0", {"[0]": "c", "[1]": "d"})), {"seed": 2})
    found = first_change(one, two)
    assert found is not None
    assert (found.part, found.leaves, found.conditions) == (parts[1], ("[0]", "[1]"), ("seed: 2 before, 1 now",))
    assert first_change(one, one) is None
    assert one.digest != two.digest
