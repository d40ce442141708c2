"""Curves of greys that fall back by a period, and those that change otherwise on purpose."""

from __future__ import annotations

import numpy as np
import pytest

from dataguard.lab.images.grey_curves import FINE_GREYS, _jump, _saturated, _wrapped

GREYS = np.array(FINE_GREYS)
RANGES = {"[0]": np.array([[0.0], [255.0]])}


@pytest.mark.parametrize(
    ("curve", "before"),
    [
        ((GREYS + 3) % 256, 252),
        ((GREYS + 100) % 256, 152),
        ((GREYS - 5) % 256, 4),
        (GREYS * 3 // 2 % 256, 168),
        (GREYS * 3 % 256, 80),
        (255 - (GREYS + 40) % 256, 208),
        (((GREYS + 40) % 256 / 255 - 0.485) / 0.229, 208),
    ],
)
def test_a_curve_that_falls_by_a_period_wraps(curve: np.ndarray, before: int) -> None:
    found = _jump(curve.astype(np.float64), float(np.ptp(curve)))
    assert found is not None
    assert FINE_GREYS[found] == before


@pytest.mark.parametrize(
    "curve",
    [
        GREYS,
        255 - GREYS,
        np.where(GREYS >= 200, 255 - GREYS, GREYS),  # solarized
        np.where(GREYS >= 250, 255 - GREYS, GREYS),
        np.where(GREYS < 128, np.minimum(GREYS + 110, 255), GREYS),  # only dark pixels are brightened
        np.where(GREYS < 60, GREYS + 195, GREYS),
        GREYS & 0xC0,  # posterized
        GREYS & 15,  # low bits
        np.where(GREYS > 127, 255, 0),
        np.clip(GREYS * 1.5 - 40, 0, 255),
        np.random.default_rng(0).uniform(0, 255, len(GREYS)),
        np.zeros(len(GREYS)),
    ],
)
def test_a_curve_that_breaks_otherwise_does_not_wrap(curve: np.ndarray) -> None:
    assert _jump(curve.astype(np.float64), 255) is None


def test_few_wrapped_values_are_dead_pixels() -> None:
    curves = np.repeat(GREYS[:, None, None], 300, axis=1).astype(np.float64)
    curves[:, 0] = (curves[:, 0] + 40) % 256
    assert not list(_wrapped({"[0]": curves}, RANGES, 0))
    curves[:, :30] = (GREYS[:, None, None] + 40) % 256
    (wrapped,) = _wrapped({"[0]": curves}, RANGES, 0)
    assert wrapped.share == pytest.approx(0.1)


def test_a_leaf_that_is_full_in_all_draws_does_not_saturate() -> None:
    full = np.full((6, 100, 1), 255.0)
    full[0] = 0
    assert not list(_saturated(None, [{"[0]": full}] * 2, RANGES))  # type: ignore[arg-type] # it is not read
