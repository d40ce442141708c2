"""Libraries of sound."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

from tests.ecosystem.data import recordings, samples_of

Loaders = dict[str, Any]


def cuts() -> Any:
    """lhotse's cuts of the recordings, each with one supervision."""
    from lhotse import CutSet, Recording, SupervisionSegment
    from lhotse.cut import MonoCut

    found = []
    for number in range(48):
        recording = Recording.from_file(recordings() / f"{number}.wav", recording_id=f"rec-{number}")
        segment = SupervisionSegment(
            f"seg-{number}", recording.id, 0.0, recording.duration, text=f"word {number}", speaker=str(number % 4)
        )
        found.append(MonoCut(f"cut-{number}", 0.0, recording.duration, 0, recording=recording, supervisions=[segment]))
    return CutSet.from_cuts(found)


def lhotse_loaders() -> Loaders:
    """lhotse's dataset of speech recognition under its samplers, which yield cuts and not numbers."""
    from lhotse.dataset import (
        DynamicBucketingSampler,
        K2SpeechRecognitionDataset,
        OnTheFlyFeatures,
        SimpleCutSampler,
        SpecAugment,
    )
    from lhotse.features import Fbank

    def loader(sampler: Any, **options: Any) -> DataLoader[Any]:
        dataset = K2SpeechRecognitionDataset(input_strategy=OnTheFlyFeatures(Fbank()), **options)
        return DataLoader(dataset, sampler=sampler, batch_size=None, num_workers=2)

    buckets = DynamicBucketingSampler(cuts(), max_duration=6.0, shuffle=True, num_buckets=3, drop_last=False)
    return {
        "train": loader(buckets, input_transforms=[SpecAugment()]),
        "val": loader(SimpleCutSampler(cuts(), max_duration=6.0, shuffle=False)),
    }


class Waveforms(Dataset[Any]):
    """Waveforms of one length, under one of audiomentations' transforms."""

    def __init__(self, augment: Any) -> None:
        self.augment = augment

    def __len__(self) -> int:
        return 48

    def __getitem__(self, index: int) -> Any:
        return torch.from_numpy(self.augment(samples=samples_of(index), sample_rate=16_000)), index % 4


def audiomentations_loaders() -> Loaders:
    """audiomentations' `Compose` on numpy arrays."""
    from audiomentations import AddGaussianNoise, Compose, PitchShift, TimeStretch

    augment = Compose([AddGaussianNoise(p=0.5), TimeStretch(p=0.5), PitchShift(p=0.5)])
    return {"train": DataLoader(Waveforms(augment), batch_size=8, shuffle=True, num_workers=2)}
