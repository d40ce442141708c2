"""What the observing process sends is data: nothing that user code writes into the socket runs in the reporting one."""

from __future__ import annotations

import os
import pickle
import socket
import struct
import subprocess
import sys
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import is_dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any

import numpy
import pytest

from dataguard.fingerprint import Fingerprint
from dataguard.model import Finding, Location, Result, Severity, Status
from dataguard.process import messages
from dataguard.process.host_lost import HostLost
from dataguard.process.messages import RECORDS, Answers, Questions
from dataguard.process.process_tree import descendants
from dataguard.process.progress import PROGRESS, ReadingProgress
from dataguard.sample_view import SampleViews
from dataguard.timings import LoaderTimes
from tests.support import sample_figures
from tests.support.offspring import left_over

RESULT = Result(
    *("DG101", "cloned-worker-rng", Severity.ERROR, "train", Status.FAILED),
    findings=(Finding("same", {"items": (1, [2.5, {"a": None}], {3})}, Location("a.py", 3, "f"), "repro"),),
    figures=sample_figures.every()[3:],
)


def sent(answer: Any) -> bytes:
    """The bytes of an answer, without those of its length."""
    here, there = socket.socketpair()
    with here, Answers(there.detach()) as pipe:
        pipe.send(answer)
        return here.recv(1 << 20)[4:]


def read(message: bytes) -> Any:
    return messages._read(message)


class TestAnswers:
    def test_a_record_arrives_as_it_is(self) -> None:
        assert read(sent(("result", (3, RESULT)))) == ("result", (3, RESULT))
        pictures = replace(RESULT, figures=sample_figures.every()[:2])
        assert read(sent(("result", (3, pictures)))) == ("result", (3, pictures))

    def test_other_objects_arrive_as_what_they_resemble(self) -> None:
        class Named(str):
            pass

        odd = {"a": numpy.float32(0.5), "b": numpy.int64(3), "c": Path("x"), "d": range(3), "e": Named("n"), "f": list}
        (_, environment, _) = read(sent(("ready", ((), odd, ()))))[1]
        assert environment == {"a": 0.5, "b": 3, "c": "x", "d": "range(0, 3)", "e": "n", "f": "<class 'list'>"}

    def test_every_class_of_an_answer_is_known(self) -> None:
        found: set[Any] = set()
        for root in (Result, Fingerprint, LoaderTimes, ReadingProgress, SampleViews):
            collect(root, found)
        assert found == set(RECORDS)


def collect(kind: Any, found: set[Any]) -> None:
    """The records and enumerations in the fields of a record."""
    for part in typing.get_args(kind):
        collect(part, found)
    if kind not in found and isinstance(kind, type) and (is_dataclass(kind) or issubclass(kind, Enum)):
        found.add(kind)
        for part in typing.get_type_hints(kind).values() if is_dataclass(kind) else ():
            collect(part, found)


CANARY: list[str] = []


def sing(*notes: object, **_: object) -> None:
    CANARY.append("sang")


class Singing:
    """Calls `sing` when it is unpickled, set, called or compared."""

    def __init__(self, *_: object) -> None:
        sing()

    def __setstate__(self, state: object) -> None:
        sing()


SONG = "from tests.process.test_messages import sing; sing()"
CALLS: list[tuple[str, str, tuple[Any, ...]]] = [
    ("builtins", "exec", (SONG,)),
    ("builtins", "eval", ("__import__('tests.process.test_messages').process.test_messages.sing()",)),
    ("builtins", "__import__", ("this",)),
    ("builtins", "getattr", ("", "format")),
    ("builtins", "setattr", (RESULT, "code", "x")),
    ("builtins", "map", (1, 2)),
    ("builtins", "open", ("/dev/null", "w")),
    ("builtins", "bytearray", (1 << 40,)),
    ("builtins", "type", ("x", (), {})),
    ("os", "system", ("true",)),
    ("posix", "system", ("true",)),
    ("os", "popen", ("true",)),
    ("os", "kill", (0, 0)),
    ("subprocess", "Popen", (["true"],)),
    ("subprocess", "check_output", (["true"],)),
    ("functools", "partial", (1,)),
    ("functools", "reduce", (1, [])),
    ("operator", "attrgetter", ("__class__",)),
    ("operator", "methodcaller", ("format", 1)),
    ("operator", "call", (1,)),
    ("copyreg", "_reconstructor", (Result, object, None)),
    ("copyreg", "add_extension", ("os", "system", 1)),
    ("codecs", "decode", (b"", "hex")),
    ("importlib", "import_module", ("this",)),
    ("runpy", "run_module", ("this",)),
    ("pickle", "loads", (b"N.",)),
    ("marshal", "loads", (b"N",)),
    ("types", "FunctionType", ()),
    ("ctypes", "CDLL", (None,)),
    ("tests.process.test_messages", "sing", ()),
    ("tests.process.test_messages", "Singing", ()),
    ("dataguard.model", "Result.__reduce__", ()),
    ("dataguard.model", "import_module", ("this",)),
    ("dataguard.model", "sys.modules", ()),
    ("dataguard.process.launcher", "start", ()),
    ("numpy", "load", ("/dev/null",)),
    ("torch", "load", ("/dev/null",)),
    ("this", "s", ()),
]
LIBRARY = (
    "os",
    "subprocess",
    "shutil",
    "builtins",
    "operator",
    "functools",
    "importlib",
    "socket",
    "tempfile",
    "ctypes",
)


def named() -> Iterator[tuple[str, str, tuple[Any, ...]]]:
    """Calls that are known to do harm, and every callable of modules that are imported anyway."""
    yield from CALLS
    for module in LIBRARY:
        __import__(module)
        for name in dir(sys.modules[module]):
            if callable(getattr(sys.modules[module], name)) and (module, name) not in messages._NAMED:
                yield module, name, (SONG,)


def text(words: str) -> bytes:
    content = words.encode()
    return b"X" + struct.pack("<I", len(content)) + content


def plain(value: Any) -> bytes:
    """The opcodes of a value, without their frame and end."""
    return pickle.dumps(value, protocol=2)[2:-1]


FORMS: dict[str, Callable[[str, str, tuple[Any, ...]], bytes]] = {
    "global": lambda module, name, _: f"c{module}\n{name}\n".encode(),
    "reduce": lambda module, name, given: f"c{module}\n{name}\n".encode() + plain(given) + b"R",
    "stack_global": lambda module, name, given: text(module) + text(name) + b"\x93" + plain(given) + b"R",
    "newobj": lambda module, name, given: f"c{module}\n{name}\n".encode() + plain(given) + b"\x81",
    "newobj_ex": lambda module, name, given: f"c{module}\n{name}\n".encode() + plain(given) + b"}\x92",
    "inst": lambda module, name, given: b"(" + b"".join(map(plain, given)) + f"i{module}\n{name}\n".encode(),
    "obj": lambda module, name, given: b"(" + f"c{module}\n{name}\n".encode() + b"".join(map(plain, given)) + b"o",
    "build": lambda module, name, given: f"c{module}\n{name}\n".encode() + plain({"x": 1}) + b"b",
    "in a record": lambda module, name, given: (
        b"cdataguard.model\nFinding\n(X\x01\x00\x00\x00m" + f"c{module}\n{name}\n".encode() + plain(given) + b"RtR"
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_nothing_that_a_message_names_is_called(form: str) -> None:
    before = set(sys.modules)
    calls = list(named())
    assert len(calls) > 300
    for module, name, given in calls:
        hidden = FORMS[form](module, name, given)
        for message in (hidden, b"(" + text("result") + b"(K\x00" + hidden + b"tt"):
            with pytest.raises(HostLost, match=r"it names|no answer of dataguard"):
                read(b"\x80\x04" + message + b".")
    assert CANARY == []
    assert set(sys.modules) == before


REDUCED: Mapping[str, bytes] = {
    "sets an attribute of an enumeration": b"cdataguard.model\nSeverity\nN}" + text("rank") + b"Ns\x86b",
    "sets an attribute of a record's class": b"cdataguard.model\nResult\nN}" + text("code") + b"Ns\x86b",
    "an extension": b"\x82\x01",
    "a persistent id": b"Px\n",
    "a large entry of the memo": b"Nr\xff\xff\xff\x7f",
    "a string that is longer than the message": b"\x8d\xff\xff\xff\xff\xff\xff\xff\x7fx",
    "a nested list": b"]" * 100_000 + b"a" * 99_999,
    "an endless number": b"I" + b"9" * 100_000 + b"\n",
    "another protocol": b"\x80\xff",
    "a buffer": b"\x97",
}


@pytest.mark.parametrize("message", REDUCED.values(), ids=REDUCED)
def test_odd_messages_are_refused(message: bytes) -> None:
    known = {name: kind for kind in (Severity, Status, Result) for name, kind in vars(kind).items()}
    with pytest.raises(HostLost, match="no answer of dataguard"):
        read(b"\x80\x04" + message + b".")
    assert known == {name: kind for kind in (Severity, Status, Result) for name, kind in vars(kind).items()}


def test_damaged_messages_are_refused() -> None:
    whole = sent(("result", (3, replace(RESULT, figures=()))))
    for end in range(len(whole)):
        with pytest.raises(HostLost):
            read(whole[:end])
    for place in range(len(whole)):
        changed = bytearray(whole)
        changed[place] ^= 0x15
        try:
            read(bytes(changed))
        except HostLost:
            continue


@pytest.mark.parametrize(
    "answer",
    [("made", 3), ("result", RESULT), ("usage", 3), (PROGRESS, "x"), "usage", (), None, ("unknown", None)],
    ids=repr,
)
def test_an_answer_of_another_form_is_refused(answer: object) -> None:
    with pytest.raises(HostLost, match="of another form"):
        read(sent(answer))


def test_a_message_that_stops_in_the_middle_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "_STALLED", 1)
    here, there = socket.socketpair()
    with Questions(here) as pipe, there:
        there.sendall(struct.pack("!i", 100) + b"x")
        with pytest.raises(HostLost):
            pipe.answer()


def test_a_message_that_is_too_large_is_refused() -> None:
    here, there = socket.socketpair()
    with Questions(here) as pipe, there:
        there.sendall(struct.pack("!i", -1) + struct.pack("!Q", 1 << 40) + b"x")
        with pytest.raises(HostLost):
            pipe.answer()


HOSTILE = """
import os, pickle, struct, sys
from pathlib import Path
from torch.utils.data import DataLoader

class Payload:
    def __reduce__(self):
        return os.system, (f"touch {CANARY!r}",)

CANARY = str(Path(__file__).with_name("canary"))

def write(content):
    Path(CANARY).with_name("wrote").touch()
    for descriptor in range(3, 64):
        try:
            if os.readlink(f"/proc/self/fd/{descriptor}").startswith("socket:"):
                os.write(descriptor, struct.pack("!i", len(content)) + content)
        except OSError:
            pass

WHEN = os.environ["HOSTILE_WHEN"]
if WHEN == "import":
    write(pickle.dumps(("importing", Payload())))

def make():
    if WHEN == "factory":
        write(pickle.dumps(("result", (0, Payload()))))
    return DataLoader(range(8), batch_size=2)
"""


@pytest.mark.scan
@pytest.mark.skipif(sys.platform != "linux", reason="looks for the socket in /proc")
@pytest.mark.parametrize("when", ["import", "factory"])
def test_a_loader_that_writes_into_the_socket_runs_nothing(tmp_path: Path, when: str) -> None:
    (tmp_path / "hostile.py").write_text(HOSTILE)
    before = descendants()
    scan = [sys.executable, "-m", "dataguard", "scan", "hostile:make", "--select", "DG301", "--timeout", "5"]
    environment = {**os.environ, "HOSTILE_WHEN": when}
    done = subprocess.run(scan, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=100, check=False)
    assert (tmp_path / "wrote").exists()
    assert not (tmp_path / "canary").exists()
    assert "Traceback" not in done.stdout + done.stderr
    assert done.returncode in (1, 2), done.stdout + done.stderr
    assert "no answer of dataguard (it names posix.system)" in " ".join((done.stdout + done.stderr).split())
    assert left_over(before) == []
