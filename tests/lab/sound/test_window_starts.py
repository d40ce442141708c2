"""Where in its file a waveform begins."""

from __future__ import annotations

import numpy as np

from dataguard.lab.sound.window_starts import start_of


def test_a_waveform_is_found_in_its_file() -> None:
    noise = np.random.default_rng(0).uniform(-1, 1, 30_000)
    assert start_of(noise[12_345:20_000] * -0.2 + 0.1, noise) == 12_345
    assert start_of(np.random.default_rng(1).uniform(-1, 1, 8_000), noise) is None
    assert start_of(noise[::2], noise) is None, "at another rate"
