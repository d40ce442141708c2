"""However a dataset holds its decoder, what it decodes can be replaced."""

from __future__ import annotations

import functools
import inspect
import pickle
import sys
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import simplejpeg
from PIL import Image

from dataguard.core.model import Status
from dataguard.engine import scan
from dataguard.lab.decoding.decoders import redirect, redirect_method
from dataguard.settings.settings import Settings


@pytest.mark.scan
@pytest.mark.parametrize(("target", "code"), [("swapped", "DG505"), ("unscaled", "DG506"), ("sideways", "DG508")])
def test_a_bug_is_found_however_the_decoder_is_held(target: str, code: str) -> None:
    report = scan(f"tests.loaders.held_decoders:{target}", Settings(select=(code,)))
    silent = {result.loader: result.reason for result in report.results if result.status is not Status.FAILED}
    assert silent == {}
    assert len(report.results) >= (40 if target == "swapped" else 5)  # the others are tried with a tenth


@pytest.mark.scan
def test_images_that_the_factory_decodes_are_replaced_although_it_ran_before() -> None:
    settings = Settings(select=("DG505",))  # one target: its observations are forks of the process of the factory
    (result,) = scan("sample_datasets.dg505_swapped_channels:bad_kept", settings).results
    assert result.status is Status.FAILED, result.reason


@pytest.fixture
def photograph(tmp_path: Path) -> Path:
    path = tmp_path / "photograph.jpg"
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (24, 32, 3), np.uint8)).save(path)
    return path


def test_a_redirected_function_can_do_what_it_did(photograph: Path) -> None:
    functions: list[tuple[Any, Any]] = [
        (cv2.imread, str(photograph)),
        (cv2.imdecode, None),
        (simplejpeg.decode_jpeg, photograph.read_bytes()),
        (Image.open, photograph),
        (np.load, None),
    ]
    for function, given in functions:
        held = functools.partial(function)
        name, signature = repr(function), _signature(function)
        expected: Any = None if given is None else np.asarray(held(given))
        seen: list[Any] = []

        def around(original: Any, seen: list[Any] = seen) -> Any:
            def call(*args: Any, **kwargs: Any) -> Any:
                seen.append((args, kwargs))
                return original(*args, **kwargs)

            return call

        undo = redirect(function, around)
        if function is simplejpeg.decode_jpeg and sys.version_info < (3, 11):  # functions of Cython are left alone
            assert undo is None
            continue
        assert undo is not None
        try:
            if given is not None:
                assert np.array_equal(np.asarray(held(given)), expected)
                assert seen == [((given,), {})]
            assert repr(function) == name
            assert _signature(function) == signature
            assert pickle.loads(pickle.dumps(function)) is function
            with pytest.raises((TypeError, cv2.error)):
                function()
        finally:
            undo()
        seen.clear()
        if given is not None:
            assert np.array_equal(np.asarray(function(given)), expected)
        assert seen == []


def _signature(function: Any) -> Any:
    try:
        return inspect.signature(function)
    except ValueError:
        return None


def test_a_decorated_function_keeps_its_closure() -> None:
    def decorated(function: Any) -> Any:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        return call

    @decorated
    def add(one: int, *, two: int = 2) -> int:
        return one + two

    undo = redirect(add, lambda original: lambda *args, **kwargs: -original(*args, **kwargs))
    assert undo is not None
    assert (add(1), add(1, two=5)) == (-3, -6)
    undo()
    assert (add(1), inspect.unwrap(add).__name__) == (3, "add")


def test_an_object_of_another_kind_is_left_alone() -> None:
    partial = functools.partial(cv2.imread)
    assert redirect(partial, lambda original: original) is None
    assert redirect(len, lambda original: original) is None  # built in with a convention of one argument


def test_methods_of_compiled_classes_are_replaced_for_objects_that_exist(photograph: Path) -> None:
    video = cv2.VideoCapture(str(photograph))
    original = cv2.VideoCapture.__dict__["isOpened"]
    redirect_method(cv2.VideoCapture, "isOpened", lambda original: lambda itself: not original(itself))
    try:
        assert not video.isOpened()
    finally:
        redirect_method(cv2.VideoCapture, "isOpened", lambda _: original)
    assert video.isOpened()
