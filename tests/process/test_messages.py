"""What the observing process sends is read field by field, and what user code writes into the socket is not read."""

from __future__ import annotations

import json
import os
import pickle
import socket
import struct
import subprocess
import sys
import time
import types
import typing
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from copy import deepcopy
from dataclasses import is_dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dataguard.checks import CATALOGUE
from dataguard.core.figures import LeafView, Picture, SampleView, SampleViews
from dataguard.core.incident import Incident
from dataguard.core.model import Finding, Location, Result, Severity, Status
from dataguard.measured import Fingerprint, LoaderTimes, Part, Setting, Stage, Timed, Waits
from dataguard.process import messages
from dataguard.process.host_lost import Refused
from dataguard.process.messages import ANSWERS, Answers, Questions, require_result
from dataguard.process.process_tree import descendants
from dataguard.process.progress import PROGRESS, ReadingProgress, Unreadable
from dataguard.render.formats import renderer
from dataguard.report import Report
from dataguard.settings.parsers import plain
from tests.support import sample_figures
from tests.support.offspring import left_over

CHECK = next(check for check in CATALOGUE if check.code == "DG101")
FINDING = Finding("same", {"items": [1, [2.5, {"a": None}], [3]], "share": 0.5}, Location("a.py", 3, "f"), "repro")
RESULT = Result(
    *(CHECK.code, CHECK.name, CHECK.severity, "train", Status.FAILED),
    findings=(FINDING,),
    exercised={"samples": 40},
    figures=(*sample_figures.every()[:2], *sample_figures.every()[3:]),
)
OWN = Setting(2, 2, persistent=False, pin=True)
SENT: Mapping[str, Any] = {
    "importing": None,
    "building": None,
    "ready": (("train", "val"), {"python": "3.11", "packages": {"torch": "2.9"}, "shm_free": None}, ("a note",)),
    "result": (3, RESULT),
    PROGRESS: ReadingProgress(
        *("train", 5, None),
        (Unreadable(0, 1, [2, "a"], "(2, 'a')", "x", "OSError", None, ("a.py", 3, "f"), Incident("sample", "x")),),
    ),
    "bench": LoaderTimes(
        *("train", 8, None, OWN, (Timed(OWN, (0.1, 0.2), (1.0,)),), ()),
        *((Stage("read", 0.5, (Stage("decode", 0.25),)),), (Waits(OWN, 8, (0.1,), (0.2,)),)),
        device={"name": "cuda:0", "pinned": {"overlap": 0.5}},
    ),
    "fingerprint": Fingerprint("a:b", "train", (Part("dataset", "sample 0", {"sample": "ab"}),), {"seed": 0}),
    "show": SampleViews(
        *("a:b", "train"),
        (SampleView("sample 0", (LeafView("sample", "int", (), "3", "ab"),), (Picture(bytes(range(256)), "x"),)),),
    ),
    **dict.fromkeys(("failed", "usage", "broken"), "it \udcff\nis"),
}


@contextmanager
def connected() -> Iterator[tuple[Questions, Answers]]:
    here, there = socket.socketpair()
    with Questions(here) as questions, Answers(there.detach()) as answers:
        yield questions, answers


def read(kind: str, value: Any, *kinds: str) -> Any:
    """What an answer is read as, of which the value is JSON."""
    return messages._read(json.dumps([kind, value]).encode(), kinds or (kind,))[1]


class TestAnswers:
    @pytest.mark.parametrize("kind", ANSWERS)
    def test_what_is_sent_arrives(self, kind: str) -> None:
        with connected() as (questions, answers):
            answers.send((kind, SENT[kind]))
            assert questions.answer(kind) == (kind, SENT[kind])

    def test_values_that_are_infinite_or_no_number_arrive(self) -> None:
        swatches = sample_figures.swatches()
        figure = read("result", plain((0, replace(RESULT, figures=(swatches,)))))[1].figures[0]
        assert repr(figure) == repr(swatches)
        assert "nan" in repr(figure)

    def test_other_objects_arrive_as_what_they_resemble(self) -> None:
        class Named(str):
            pass

        odd = {"a": numpy.float32(0.5), "b": numpy.int64(3), "c": Path("x"), "d": range(3), "e": Named("n"), "f": list}
        odd |= {"g": {3, 1}, "h": (1, (2,)), "i": {1: True}, "j": Severity.NOTE, "k": 1 << 5000}
        _, environment, _ = read("ready", plain((("a",), odd, ())))
        arrived = [0.5, 3, "x", "range(0, 3)", "n", "<class 'list'>", [1, 3], [1, [2]], {"1": True}, "note"]
        assert list(environment.values()) == [*arrived, hex(1 << 5000)]

    def test_large_pictures_are_read_quickly(self) -> None:
        view = SampleView("sample 0", pictures=(Picture(os.urandom(200_000), "x"),) * 50)
        content = json.dumps(plain(("show", replace(SENT["show"], samples=(view,))))).encode()
        started = time.process_time()
        assert messages._read(content, ["show"])[1].samples == (view,)
        assert time.process_time() - started < 1


def changed(kind: str, *path: Any, to: Any) -> tuple[str, Any]:
    """An answer that differs in one place."""
    value = deepcopy(plain(SENT[kind]))
    *above, last = path
    within = value
    for step in above:
        within = within[step]
    within[last] = to
    return kind, value


def without(kind: str, *path: Any) -> tuple[str, Any]:
    """An answer that lacks a field."""
    kind, value = changed(kind, *path, to=None)
    *above, last = path
    within = value
    for step in above:
        within = within[step]
    del within[last]
    return kind, value


DEEP: Any = []
for _ in range(400):
    DEEP = [DEEP]
MALFORMED: Mapping[str, tuple[str, Any]] = {
    "a kind that is none": ("unknown", None),
    "a kind that is a list": ([], None),  # type: ignore[dict-item]
    "something with a start": ("importing", 3),
    "a reason that is a number": ("usage", 3),
    "a reason that is a list": ("failed", ["x"]),
    "no progress": (PROGRESS, "x"),
    "progress of a text": changed(PROGRESS, "read", to="5"),
    "a place of two items": changed(PROGRESS, "unreadable", 0, "where", to=["a.py", 3]),
    "ready with nothing": ("ready", None),
    "ready with two items": ("ready", [["a"], {}]),
    "no loaders": ("ready", [[], {}, []]),
    "loaders of one name": ("ready", [["a", "a"], {}, []]),
    "200,000 loaders": ("ready", [[str(number) for number in range(200_000)], {}, []]),
    "a long name": ("ready", [["a" * 100_000], {}, []]),
    "a name that is a number": ("ready", [[3], {}, []]),
    "a name that is text only": ("ready", ["abc", {}, []]),
    "an environment that is a list": ("ready", [["a"], [], []]),
    "a nested environment": ("ready", [["a"], {"x": DEEP}, []]),
    "a result without its number": ("result", plain(RESULT)),
    "a number that is none": changed("result", 0, to=0.5),
    "a result that is text": changed("result", 1, to="passed"),
    "a code that is a list": changed("result", 1, "code", to=["DG101"]),
    "an unknown severity": changed("result", 1, "severity", to="fatal"),
    "an unknown status": changed("result", 1, "status", to="fine"),
    "a status that is a list": changed("result", 1, "status", to=["passed"]),
    "no status": without("result", 1, "status"),
    "seconds that are no number": changed("result", 1, "seconds", to=float("nan")),
    "infinite seconds": changed("result", 1, "seconds", to=float("-inf")),
    "seconds of text": changed("result", 1, "seconds", to="1"),
    "endless seconds": changed("result", 1, "seconds", to=10**400),
    "counts of text": changed("result", 1, "exercised", to={"samples": "many"}),
    "a finding that is text": changed("result", 1, "findings", 0, to="x"),
    "findings that are a mapping": changed("result", 1, "findings", to={}),
    "a message that is a number": changed("result", 1, "findings", 0, "message", to=5),
    "evidence that is a list": changed("result", 1, "findings", 0, "evidence", to=[1]),
    "nested evidence": changed("result", 1, "findings", 0, "evidence", to={"x": DEEP}),
    "a line that is text": changed("result", 1, "findings", 0, "at", "line", to="3"),
    "a place without a file": without("result", 1, "findings", 0, "at", "file"),
    "a figure of no kind": changed("result", 1, "figures", 0, to={}),
    "a figure of another kind": changed("result", 1, "figures", 0, "", to="Finding"),
    "a picture that is no base64": changed("result", 1, "figures", 0, "cells", 0, 0, "png", to="é"),
    "more rows than pictures": changed("result", 1, "figures", 0, "rows", to=["a"]),
    "a box without a side": without("result", 1, "figures", 1, "cells", 0, 0, "boxes", 0, "left"),
    "a point of three numbers": changed("result", 1, "figures", 3, "lines", 0, "points", 0, to=[1, 2, 3]),
    "counts that are fractions": changed("result", 1, "figures", 2, "counts", 0, 0, to=0.5),
    "samples of text": changed("show", "samples", to=["x"]),
    "a shape of text": changed("show", "samples", 0, "leaves", 0, "shape", to="3"),
    "digests of numbers": changed("fingerprint", "parts", 0, "digests", to={"a": 3}),
    "endless times": changed("bench", "workers", 0, "per_batch", 0, to=float("inf")),
    "nested stages": changed("bench", "stages", to=[{"name": "x", "seconds": 1, "skipped": None, "parts": DEEP}]),
    "a result among times": ("bench", plain(RESULT)),
}


def refused(content: bytes, *kinds: str) -> None:
    """Assert that what arrives is refused in one short line, and quickly."""
    started = time.process_time()
    with pytest.raises(Refused, match="an invalid answer") as caught:
        messages._read(content, kinds)
    assert time.process_time() - started < 2
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("answer", MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_answer_is_refused(answer: tuple[str, Any]) -> None:
    refused(json.dumps(answer).encode(), *ANSWERS)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x80\x04N.",
        b"null",
        b"[]",
        b'["result"]',
        b'["usage", "x"',
        b'["usage", "\xff"]',
        b"[" * 100_000 + b"]" * 100_000,
        b'["ready", [["a"], {"x": [' + b"[]," * 5_000_000 + b"0]}, []]]",
        b'["result", [1' + b"0" * 5_000 + b', "x"]]',
    ],
    ids=lambda content: repr(content)[:30],
)
def test_what_is_no_json_of_an_answer_is_refused(content: bytes) -> None:
    refused(content, *ANSWERS)


@pytest.mark.parametrize(("kind", "now"), [("result", "building"), ("ready", "result"), ("building", "importing")])
def test_an_answer_before_its_time_is_refused(kind: str, now: str) -> None:
    with pytest.raises(Refused, match=f"unexpected '{kind}'"):
        read(kind, plain(SENT[kind]), now, "usage", "broken")


@pytest.mark.parametrize(
    "changes",
    [
        {"code": "DG102"},
        {"name": "x"},
        {"loader": "val"},
        {"severity": Severity.NOTE},
        {"status": Status.PASSED},
        {"status": Status.EXPECTED},
        {"findings": ()},
        {"findings": (), "status": Status.EXPECTED},
    ],
    ids=str,
)
def test_a_result_that_was_not_asked_for_is_refused(changes: Mapping[str, Any]) -> None:
    require_result(RESULT, (CHECK, "train"))
    require_result(replace(RESULT, severity=Severity.WARNING), (CHECK, "train"))
    for asked, result in (((CHECK, "train"), replace(RESULT, **changes)), (None, RESULT)):
        with pytest.raises(Refused, match="an invalid answer"):
            require_result(result, asked)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a JSON value."""
    yield from [path] if path else []
    for step in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield from places(value[step], (*path, step))


SMALL = replace(RESULT, figures=tuple(sample_figures.every()[index] for index in (1, 2, 3, 6)))
PLACES = [path for path in places(plain((3, SMALL))) if path[0] == 1]
ODD = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(st.characters(), max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=4,
)


@given(st.sampled_from(PLACES), ODD)
@settings(max_examples=60, deadline=None)
def test_what_is_read_can_be_shown(place: tuple[Any, ...], value: Any) -> None:
    answer = plain((3, SMALL))
    within = answer
    for step in place[:-1]:
        within = within[step]
    within[place[-1]] = value
    with suppress(Refused):
        result = read("result", answer)[1]
        require_result(result, (CHECK, "train"))
        report = Report(("a:b",), (result,), {}, {})
        for form in ("text", "json", "html", "junit"):
            renderer("scan", form)(report, {})


def test_each_type_of_a_field_can_be_read() -> None:
    found: set[Any] = set()
    for kind in ANSWERS.values():
        collect(kind, found)
    plain_kinds = {Any, object, type(None), bool, int, float, str, bytes, ...}
    known = {tuple, Mapping, typing.Union, types.UnionType, typing.Annotated}
    others = [kind for kind in found - plain_kinds if (typing.get_origin(kind) or kind) not in known]
    assert [kind for kind in others if not is_dataclass(kind) and not issubclass(kind, Enum)] == []
    assert len(others) > 25


def collect(kind: Any, found: set[Any]) -> None:
    """The types that a type consists of."""
    if kind in found:
        return
    found.add(kind)
    parts = typing.get_type_hints(kind, include_extras=True).values() if is_dataclass(kind) else typing.get_args(kind)
    for part in parts if typing.get_origin(kind) is not typing.Annotated else ():
        collect(part, found)


def frame(content: bytes) -> bytes:
    return struct.pack("!i", len(content)) + content


class TestSocket:
    @pytest.mark.parametrize("content", [b"", b"x", json.dumps(["usage", "x"]).encode(), bytes(64), pickle.dumps(1)])
    def test_a_message_without_the_key_is_refused(self, content: bytes) -> None:
        with connected() as (questions, answers):
            os.write(answers.fileno(), frame(content))
            with pytest.raises(Refused, match="code of the target wrote to the socket"):
                questions.answer("usage")

    def test_a_message_of_another_process_is_refused(self) -> None:
        with connected() as (questions, answers), connected() as (_, others):
            answers._seal._key = others._seal._key
            answers.send(("usage", "x"))
            with pytest.raises(Refused):
                questions.answer("usage")

    def test_a_repeated_message_is_refused(self) -> None:
        with connected() as (questions, answers):
            written: list[bytes] = []
            answers.send_bytes = written.append  # type: ignore[method-assign,assignment]
            answers.send(("usage", "x"))
            for _ in range(2):
                os.write(answers.fileno(), frame(written[0]))
            assert questions.answer("usage") == ("usage", "x")
            with pytest.raises(Refused):
                questions.answer("usage")

    def test_damaged_messages_are_refused(self) -> None:
        with connected() as (questions, answers):
            written: list[bytes] = []
            answers.send_bytes = written.append  # type: ignore[method-assign,assignment]
            answers.send(("usage", "x"))
            (whole,) = written
            for place in range(len(whole)):
                questions._seal._number = 0
                os.write(answers.fileno(), frame(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :]))
                with pytest.raises(Refused):
                    questions.answer("usage")

    def test_a_message_that_stops_in_the_middle_is_not_waited_for(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(messages, "_REST_SECONDS", 0.2)
        with connected() as (questions, answers):
            os.write(answers.fileno(), frame(bytes(100))[:20])
            with pytest.raises(Refused):
                questions.answer("usage")

    @pytest.mark.parametrize("size", [-1, 0, 31, (1 << 31) - 1])
    def test_a_message_of_another_size_is_refused(self, size: int) -> None:
        with connected() as (questions, answers):
            os.write(answers.fileno(), struct.pack("!i", size))
            with pytest.raises(Refused):
                questions.answer("usage")

    @pytest.mark.parametrize("written", [b"", frame(bytes(100))[:20]])
    def test_a_process_that_ends_is_none(self, written: bytes) -> None:
        with connected() as (questions, answers):
            os.write(answers.fileno(), written)
            answers.close()
            assert questions.answer("usage") is None

    def test_programs_do_not_inherit_it(self) -> None:
        with connected() as (_, answers):
            assert not os.get_inheritable(answers.fileno())


HOSTILE = """
import json, os, pickle, struct, sys
from pathlib import Path
from torch.utils.data import DataLoader, Dataset

PASSED = {"": "Result", "code": "DG001", "name": "crashing-loader", "severity": "error", "loader": "make",
          "status": "passed", "findings": [], "reason": None, "exercised": {}, "seconds": 0.0, "figures": [],
          "target": ""}
FORGED = [["building", None], ["ready", [["make"], {}, []]], ["result", [0, PASSED]]]
DEEP = []
for _ in range(100):
    DEEP = [DEEP]
OWN = {
    "a result early": ("result", (0, PASSED)),
    "200,000 loaders": ("ready", (tuple(map(str, range(200_000))), {}, ())),
    "nested": ("ready", (("make",), {"x": DEEP}, ())),
}
WHAT = os.environ["HOSTILE_WHAT"]

class Payload:
    def __reduce__(self):
        return os.system, (f"touch {str(Path(__file__).with_name('canary'))!r}",)

def write(when):
    if os.environ["HOSTILE_WHEN"] != when:
        return
    Path(__file__).with_name("wrote").touch()
    if WHAT in OWN:
        frame = sys._getframe()
        while type(frame.f_locals.get("pipe")).__name__ != "Answers":
            frame = frame.f_back
        frame.f_locals["pipe"].send(OWN[WHAT])
        return
    pickled, forged = [pickle.dumps(("result", Payload()))], [json.dumps(one).encode() for one in FORGED]
    contents = pickled if WHAT == "pickle" else forged
    for descriptor in range(3, 64):
        try:
            if os.readlink(f"/proc/self/fd/{descriptor}").startswith("socket:"):
                for content in contents:
                    os.write(descriptor, struct.pack("!i", len(content)) + content)
        except OSError:
            pass

class Crashing(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        write("getitem")
        raise ValueError("no sample")

write("import")

def make():
    write("factory")
    return DataLoader(Crashing(), batch_size=2)
"""


@pytest.mark.scan
@pytest.mark.skipif(sys.platform != "linux", reason="looks for the socket in /proc")
@pytest.mark.parametrize(
    ("when", "what", "code", "words"),
    [
        ("import", "passed", 2, "wrote to the socket of dataguard's observing process during its import"),
        ("import", "pickle", 2, "wrote to the socket of dataguard's observing process during its import"),
        ("import", "a result early", 2, "an invalid answer (unexpected 'result')"),
        ("factory", "passed", 1, "wrote to the socket of dataguard's observing process"),
        ("factory", "200,000 loaders", 1, "an invalid answer (200,000 loaders)"),
        ("factory", "nested", 1, "an invalid answer ("),
        ("getitem", "passed", 1, "ValueError: no sample"),
    ],
)
def test_a_loader_that_writes_into_the_socket_forges_nothing(
    tmp_path: Path, when: str, what: str, code: int, words: str
) -> None:
    (tmp_path / "hostile.py").write_text(HOSTILE)
    before = descendants()
    scan = [sys.executable, "-m", "dataguard", "scan", "hostile:make", "--select", "DG001,DG301", "--timeout", "5"]
    environment = {**os.environ, "HOSTILE_WHEN": when, "HOSTILE_WHAT": what}
    done = subprocess.run(scan, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60, check=False)
    said = " ".join((done.stdout + done.stderr).split())
    assert (tmp_path / "wrote").exists()
    assert not (tmp_path / "canary").exists()
    assert done.returncode == code, said
    assert words in said
    assert "Traceback" not in said
    assert left_over(before) == []
