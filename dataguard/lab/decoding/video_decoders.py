"""Videos decoded by OpenCV or PyAV: each frame is replaced before the user's code receives it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

Paint = Callable[[Any, str], Any]
"""Returns the replacement of a frame with the given channel order."""
_ORDERS = {"rgb24": "RGB", "rgba": "RGB", "bgr24": "BGR", "bgra": "BGR"}
"""The channel orders of FFmpeg's interleaved byte formats."""


class _Through:
    """Delegates to an object of a library whose classes cannot be subclassed.

    A subclass of OpenCV's fails in some calls, and PyAV creates its objects itself.
    """

    def __init__(self, held: Any, paint: Paint) -> None:
        object.__setattr__(self, "_held", held)
        object.__setattr__(self, "_paint", paint)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._held, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._held, name, value)


def opencv_video(original: Any, paint: Paint) -> Any:
    """A `cv2.VideoCapture` whose frames are replaced."""

    class VideoCapture(_Through):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(original(*args, **kwargs), paint)

        def read(self, *args: Any) -> tuple[bool, Any]:
            return self._charted(self._held.read(*args))

        def retrieve(self, *args: Any) -> tuple[bool, Any]:
            return self._charted(self._held.retrieve(*args))

        def _charted(self, given: tuple[bool, Any]) -> tuple[bool, Any]:
            there, frame = given
            return there, self._paint(frame, "BGR") if there else frame

    return VideoCapture


def pyav_video(original: Any, paint: Paint) -> Any:
    """An `av.open` that replaces the frames of videos by charts; audio and output containers are unchanged."""

    @functools.wraps(original)
    def opening(*args: Any, **kwargs: Any) -> Any:
        opened = original(*args, **kwargs)
        return _Container(opened, paint) if hasattr(opened, "decode") else opened

    return opening


class _Container(_Through):
    def __enter__(self) -> _Container:
        self._held.__enter__()
        return self

    def __exit__(self, *reason: object) -> None:
        self._held.__exit__(*reason)

    def decode(self, *args: Any, **kwargs: Any) -> Iterator[Any]:
        return (_framed(frame, self._paint) for frame in self._held.decode(*args, **kwargs))

    def demux(self, *args: Any, **kwargs: Any) -> Iterator[Any]:
        for packet in self._held.demux(*args, **kwargs):
            yield _Packet(packet, self._paint) if packet.stream.type == "video" else packet


class _Packet(_Through):
    def decode(self) -> list[Any]:
        return [_framed(frame, self._paint) for frame in self._held.decode()]


class _Frame(_Through):
    def reformat(self, *args: Any, **kwargs: Any) -> _Frame:
        return _Frame(self._held.reformat(*args, **kwargs), self._paint)

    def to_rgb(self, **kwargs: Any) -> _Frame:
        return _Frame(self._held.to_rgb(**kwargs), self._paint)

    def to_image(self, **kwargs: Any) -> Any:
        return self._paint(self._held.to_image(**kwargs), "RGB")

    def to_ndarray(self, *args: Any, **kwargs: Any) -> Any:
        pixels = self._held.to_ndarray(*args, **kwargs)
        asked = kwargs.get("format") or self._held.format
        order = _ORDERS.get(getattr(asked, "name", asked))
        return self._paint(pixels, order) if order else pixels


def _framed(frame: Any, paint: Paint) -> Any:
    """A frame that is replaced when it is converted to an image; audio frames are unchanged."""
    return _Frame(frame, paint) if hasattr(frame, "to_image") else frame
