"""Datasets without a loader."""

from __future__ import annotations

from sample_datasets._parts import Pictures
from sample_datasets.dg208_starved_worker import Shards
from tests.loaders.keyed import Keyed

train_pictures = Pictures(32)
train_stream = Keyed(shared=False)
train_shard = Shards(1)
