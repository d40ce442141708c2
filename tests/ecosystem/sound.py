"""Libraries of sound."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

from tests.ecosystem.data import mixed_recordings, recordings, samples_of

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


def lhotse_waveforms() -> Loaders:
    """lhotse's waveforms at one rate of stereo recordings of two rates, with speed perturbation."""
    from lhotse import CutSet, Recording, SupervisionSegment
    from lhotse.cut import MultiCut
    from lhotse.dataset import AudioSamples, K2SpeechRecognitionDataset, SimpleCutSampler

    found = []
    for number in range(48):
        recording = Recording.from_file(mixed_recordings() / f"{number}.wav", recording_id=f"rec-{number}")
        segment = SupervisionSegment(
            f"seg-{number}", recording.id, 0.0, recording.duration, channel=[0, 1], text=f"word {number}"
        )
        cut = MultiCut(f"cut-{number}", 0.0, recording.duration, [0, 1], recording=recording, supervisions=[segment])
        found.append(cut.resample(16_000))
    stereo = CutSet.from_cuts(found)

    def loader(cuts: Any, *, shuffle: bool) -> DataLoader[Any]:
        dataset = K2SpeechRecognitionDataset(input_strategy=AudioSamples())
        sampler = SimpleCutSampler(cuts, max_duration=4.0, shuffle=shuffle)
        return DataLoader(dataset, sampler=sampler, batch_size=None, num_workers=2)

    faster = stereo + stereo.perturb_speed(1.1)
    return {"train": loader(faster, shuffle=True), "val": loader(stereo, shuffle=False)}


def datasets_audio() -> Loaders:
    """Rows of `datasets` whose `Audio` is decoded at one rate and mixed to mono, padded in collate."""
    from datasets import Audio
    from datasets import Dataset as Rows

    paths = [str(mixed_recordings() / f"{number}.wav") for number in range(48)]
    rows = Rows.from_dict({"audio": paths, "label": [number % 4 for number in range(48)]})
    rows = rows.cast_column("audio", Audio(sampling_rate=16_000, num_channels=1))

    def collate(batch: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
        waves = [torch.as_tensor(row["audio"]["array"], dtype=torch.float32) for row in batch]
        return {
            "input_values": torch.nn.utils.rnn.pad_sequence(waves, batch_first=True),
            "lengths": torch.tensor([len(wave) for wave in waves]),
            "labels": torch.tensor([row["label"] for row in batch]),
        }

    split = rows.train_test_split(12, seed=0)
    return {
        "train": DataLoader(split["train"], batch_size=8, shuffle=True, drop_last=True, collate_fn=collate),
        "val": DataLoader(split["test"], batch_size=8, collate_fn=collate),
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
