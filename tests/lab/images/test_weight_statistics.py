"""Weights and models name the statistics that they were trained with."""

from __future__ import annotations

import importlib.util

import pytest

from dataguard.core.model import Undecided
from dataguard.lab.images.chart_fit import statistics_of
from dataguard.stats.normalization import (
    KNOWN,
)


def test_weights_have_statistics() -> None:
    assert statistics_of("torchvision:ResNet50_Weights.IMAGENET1K_V2").mean == KNOWN["imagenet"].mean
    assert statistics_of("ResNet50_Weights.IMAGENET1K_V2").std == KNOWN["imagenet"].std
    for name, words in (("torchvision:ResNet5_Weights.V1", "torchvision has no"), ("keras:resnet50", "keras")):
        with pytest.raises(Undecided, match=words):
            statistics_of(name)


def test_models_of_timm_have_statistics() -> None:
    if importlib.util.find_spec("timm") is None:
        with pytest.raises(Undecided, match="needs timm"):
            statistics_of("timm:resnet50")
        return
    assert statistics_of("timm:vit_base_patch16_clip_224.openai").mean == KNOWN["clip"].mean
    with pytest.raises(Undecided, match="did you mean 'resnet50"):
        statistics_of("timm:resnett50")
