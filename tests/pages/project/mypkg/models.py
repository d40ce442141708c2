from __future__ import annotations

from torch import nn


def make_model() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 5))


Net = make_model
