"""An object in place of another one, which it watches."""

from __future__ import annotations

from typing import Any


class Proxy:
    """Has the attributes of the object inside, and its class for `isinstance`.

    Protocols that are checked at run time (torchdata's `Stateful`) look at the class, so that it must be that of the
    object inside.
    """

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return type(self._inner)

    def __getattr__(self, name: str) -> Any:
        if name == "_inner":  # not set yet
            raise AttributeError(name)
        return getattr(self._inner, name)
