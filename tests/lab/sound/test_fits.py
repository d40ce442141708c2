"""Known rates, scales, mixes and frequency scales are recovered from what real libraries make of tones."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO

import librosa
import numpy as np
import pytest
import soundfile
import torch
from scipy import signal

from dataguard.lab.batches.collate_trials import duplicate
from dataguard.lab.core.leaves import iter_leaves
from dataguard.lab.decoding.sound_files import SoundHeader, read_sound_header
from dataguard.lab.sound.tone_fits import (
    LOUDER,
    TONES,
    SpectrogramFit,
    amplitude,
    chart,
    extremes,
    fit_spectrogram,
    fit_waveform,
    joined_as,
    tones_of,
    wav,
)

EXACT = 1e-3
LEVEL = 0.4


def header(rate: int, channels: int = 1, bits: int = 16, *, is_float: bool = False) -> SoundHeader:
    return SoundHeader("Wave", rate, channels, bits, 2 * rate, is_float)


@pytest.mark.parametrize("rate", [8_000, 11_025, 16_000, 22_050, 44_100, 48_000, 96_000])
@pytest.mark.parametrize(("bits", "is_float"), [(8, False), (16, False), (24, False), (32, False), (32, True)])
def test_a_chart_is_a_file_that_libraries_read(rate: int, bits: int, is_float: bool) -> None:
    own = header(rate, 2, bits, is_float=is_float)
    content = wav(chart(own, LEVEL), rate, own)
    assert read_sound_header(content) == own
    values, read = soundfile.read(BytesIO(content), always_2d=True)
    assert read == rate
    assert np.abs(values - chart(own, LEVEL)).max() < 2.1 / 2**bits + 1e-7


@pytest.mark.parametrize("suffix", ["wav", "flac", "mp3", "ogg", "aiff"])
def test_headers_of_real_files(suffix: str) -> None:
    file = BytesIO()
    soundfile.write(file, chart(header(44_100, 2), LEVEL), 44_100, format=suffix)
    found = read_sound_header(file.getvalue())
    assert found is not None
    assert (found.rate, found.channels) == (44_100, 2)
    assert found.frames == pytest.approx(88_200, rel=0.02)  # mp3 files are padded


@pytest.mark.parametrize("content", [b"", b"RIFF", b"\x89PNG\r\n\x1a\n" + bytes(64), b"\xff\xd8\xff\xe0" + bytes(64)])
def test_no_sound_has_no_header(content: bytes) -> None:
    assert read_sound_header(content) is None


@pytest.mark.parametrize("source", [8_000, 16_000, 44_100, 48_000])
@pytest.mark.parametrize("target", [8_000, 16_000, 22_050, 48_000])
@pytest.mark.parametrize("library", ["scipy", "soxr"])
def test_rate_and_scale_through_resampling(source: int, target: int, library: str) -> None:
    own = header(source)
    values = chart(own, LEVEL)[:, 0]
    if source != target and library == "scipy":
        values = signal.resample_poly(values, target, source)
    elif source != target:
        values = librosa.resample(values, orig_sr=source, target_sr=target)
    fit = fit_waveform("", (3 * values).astype(np.float32), own, LEVEL)
    assert fit is not None
    assert fit.rate == pytest.approx(target, rel=EXACT)
    assert fit.full_scale == pytest.approx(3, rel=5 * EXACT)  # the filter of scipy attenuates some tones


@pytest.mark.parametrize("mix", [(0.5, 0.5), (1.0, 0.0), (0.2, 0.8), (1.0, 1.0)])
def test_the_mix_of_channels(mix: tuple[float, float]) -> None:
    own = header(44_100, 2)
    mono = signal.resample_poly(chart(own, LEVEL) @ np.array(mix), 160, 441)
    fit = fit_waveform("", mono, own, LEVEL)
    assert fit is not None
    assert fit.rate == pytest.approx(16_000, rel=EXACT)
    assert fit.mix[0] == pytest.approx(mix, abs=2 * EXACT)


def test_a_shifted_waveform_keeps_its_scale() -> None:
    own = header(16_000)
    fit = fit_waveform("", chart(own, LEVEL)[:, 0] / 2 + 0.5, own, LEVEL)
    assert fit is not None
    assert (fit.full_scale, fit.offset) == pytest.approx((0.5, 0.5), abs=EXACT)


@pytest.mark.parametrize("values", [np.random.default_rng(0).normal(size=16_000), np.zeros(16_000), np.ones((80, 90))])
def test_what_holds_no_tones_has_no_fit(values: np.ndarray) -> None:
    assert fit_waveform("", values, header(16_000), LEVEL) is None


def test_padding_is_left_out() -> None:
    own = header(16_000)
    fit = fit_waveform("", np.pad(chart(own, LEVEL)[:9_000, 0], (400, 30_000)), own, LEVEL)
    assert fit is not None
    assert fit.full_scale == pytest.approx(1, rel=EXACT)


def test_joined_channels() -> None:
    own = header(16_000, 2)
    values = chart(own, LEVEL)
    assert joined_as(values.reshape(-1), own, LEVEL) == "interleaved"
    assert joined_as(values.T.reshape(-1), own, LEVEL) == "one after the other"
    assert joined_as(values.mean(1), own, LEVEL) is None
    assert joined_as(values[:, 0], own, LEVEL) is None


def test_clipped_and_overflowing_values_are_at_the_ends_or_jump() -> None:
    loud = chart(header(16_000), 0.95)[:, 0]
    plain, clipped = extremes(loud), extremes(np.clip(3 * loud, -1, 1))
    wrapped = extremes((loud * 32_767).astype(np.int16) * np.int16(3))
    assert plain is not None
    assert clipped is not None
    assert wrapped is not None
    assert plain[0] < 0.01 < 0.2 < clipped[0]
    assert plain[1] < 0.6 < 0.9 < wrapped[1]


def fitted(transform: Callable[[np.ndarray], np.ndarray], rate: int = 16_000) -> SpectrogramFit:
    """The fit of what a library makes of a chart at two levels."""
    own = header(rate)
    silence, soft, loud = (
        transform(chart(own, level)[:, 0].astype(np.float32)) for level in (0, LEVEL / LOUDER, LEVEL)
    )
    fit = fit_spectrogram("", silence, soft, loud, TONES)
    assert fit is not None
    return fit


@pytest.mark.parametrize("size", [400, 512, 1024, 2048])
@pytest.mark.parametrize("values", ["magnitudes", "powers", "logarithms"])
def test_spectrograms_show_the_rate(size: int, values: str) -> None:
    def transform(sound: np.ndarray) -> np.ndarray:
        window = torch.hann_window(size)
        found = torch.stft(torch.from_numpy(sound), size, size // 4, window=window, return_complex=True).abs()
        if values == "magnitudes":
            return found.numpy()
        return (found**2 if values == "powers" else (found**2 + 1e-8).log10()).numpy()

    fit = fitted(transform)
    assert (fit.values, fit.scale) == (values, "linear")
    assert fit.rate == pytest.approx(16_000, rel=EXACT)
    loud = LEVEL * amplitude(header(16_000), 0)
    assert (
        fit.full_scale(loud) is None if values == "logarithms" else fit.full_scale(loud) == pytest.approx(1, rel=0.05)
    )


@pytest.mark.parametrize("bands", [40, 64, 80, 128])
@pytest.mark.parametrize("htk", [True, False])
def test_mel_spectrograms_show_their_frequencies(bands: int, htk: bool) -> None:
    def transform(sound: np.ndarray) -> np.ndarray:
        size = 2048 if bands > 100 else 1024
        mel = librosa.feature.melspectrogram(y=sound, sr=16_000, n_fft=size, n_mels=bands, htk=htk, norm=None)
        return np.asarray(np.log(mel + 1e-6)).T

    fit = fitted(transform)
    assert fit.scale == ("mel (HTK)" if htk else "mel (Slaney)")
    assert fit.high == pytest.approx(8_000, rel=2 * EXACT)
    assert fit.low == pytest.approx(0, abs=3)


def test_cepstra_are_no_spectrograms() -> None:
    own = header(16_000)
    silence, soft, loud = (
        librosa.feature.mfcc(y=chart(own, level)[:, 0], sr=16_000, n_mfcc=40) for level in (0, 0.1, LEVEL)
    )
    fit = fit_spectrogram("", silence, soft, loud, TONES)
    assert fit is None or not fit.scale


@pytest.mark.parametrize("channels", [1, 2, 3, 6, 9])
def test_every_channel_has_a_tone(channels: int) -> None:
    tones = tones_of(16_000, channels)
    assert len(tones) == channels
    assert all(tones)
    assert len({tone for own in tones[:6] for tone in own}) == sum(map(len, tones[:6]))


def test_an_open_decoder_is_neither_entered_nor_copied() -> None:
    """It holds addresses of native memory, which a copy would share, and which differ between two runs."""
    file = BytesIO()
    soundfile.write(file, chart(header(8_000), LEVEL), 8_000, format="wav")
    file.seek(0)
    with soundfile.SoundFile(file) as decoder:
        sample = {"audio": decoder, "x": torch.ones(3)}
        assert [path for path, _ in iter_leaves(sample)] == ["['audio']", "['x']"]
        copied = duplicate(sample)
        assert copied["audio"] is decoder
        assert copied["x"] is not sample["x"]
