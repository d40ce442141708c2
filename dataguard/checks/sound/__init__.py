"""Checks of waveforms and spectrograms."""
