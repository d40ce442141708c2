"""The list of libraries, our verdict on each finding in them, and the defects of public releases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

REAL, INTENDED, FALSE = "real defect", "intended by the library", "false alarm"


@dataclass(frozen=True, slots=True)
class Entry:
    """A library by the name of its distribution, and the function of this package that makes its loaders.

    The `contract` says what their leaves are called, where that is not as in other libraries.
    """

    library: str
    factory: str
    contract: Mapping[str, Any] = field(default_factory=dict)

    @property
    def spelling(self) -> str:
        """The target of a scan."""
        return f"tests.ecosystem.{self.factory}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Our verdict on the findings of one check in the loaders of one factory."""

    factory: str
    code: str
    verdict: str
    why: str


@dataclass(frozen=True, slots=True)
class Bug:
    """A defect of a public release that a scan found: where it is, what it does, and how to see it without us."""

    library: str
    version: str
    place: str
    what: str
    reproduction: str


ENTRIES = (
    Entry("torchvision", "images:torchvision_folders"),
    Entry("torchvision", "images:torchvision_coco"),
    Entry("torchvision", "images:torchvision_voc"),
    Entry("timm", "images:timm_loaders"),
    Entry("albumentations", "images:albumentations_loaders"),
    Entry("albumentations", "images:albumentations_masks"),
    Entry("kornia", "images:kornia_loaders"),
    Entry("ultralytics", "images:ultralytics_loaders"),
    Entry("lightly", "images:lightly_loaders"),
    Entry("medmnist", "images:medmnist_loaders"),
    Entry("monai", "medical:monai_loaders"),
    Entry("torchio", "medical:torchio_loaders"),
    Entry("torchxrayvision", "medical:xray_loaders"),
    Entry("datasets", "text:datasets_loaders"),
    Entry("transformers", "text:transformers_collators"),
    Entry("transformers", "text:transformers_trainer"),
    Entry("sentence-transformers", "text:sentence_transformers_loaders"),
    Entry("trl", "text:trl_loaders"),
    Entry("transformers", "tokens:causal"),
    Entry("transformers", "tokens:masked"),
    Entry("transformers", "tokens:flattened"),
    Entry("transformers", "tokens:sequences"),
    Entry("transformers", "tokens:images"),
    Entry("trl", "tokens:tuned"),
    Entry("litgpt", "tokens:instructions"),
    Entry("torchtune", "tokens:packed_documents", {"tokens": "tokens"}),
    Entry("torchtitan", "tokens:pretraining", {"tokens": "input", "labels": "[1]"}),
    Entry("webdataset", "tokens:streams"),
    Entry("sentence-transformers", "tokens:embeddings"),
    Entry("lhotse", "sound:lhotse_loaders"),
    Entry("lhotse", "sound:lhotse_waveforms"),
    Entry("datasets", "sound:datasets_audio"),
    Entry("audiomentations", "sound:audiomentations_loaders"),
    Entry("webdataset", "streams:webdataset_loaders"),
    Entry("torchdata", "streams:torchdata_loaders"),
    Entry("mosaicml-streaming", "streams:streaming_loaders"),
    Entry("litdata", "streams:litdata_loaders"),
    Entry("h5py", "streams:h5py_loaders"),
    Entry("zarr", "streams:zarr_loaders"),
    Entry("tensordict", "streams:tensordict_loaders"),
    Entry("lightning", "frameworks:lightning_module"),
    Entry("lightning", "frameworks:combined"),
    Entry("accelerate", "frameworks:accelerate_loaders"),
    Entry("pytorch-ignite", "frameworks:ignite_loaders"),
    Entry("skorch", "frameworks:skorch_loaders"),
    Entry("pytorch-metric-learning", "frameworks:metric_learning_loaders"),
    Entry("torchsampler", "frameworks:torchsampler_loaders"),
    Entry("mmengine", "frameworks:mmengine_loaders"),
    Entry("fastai", "frameworks:fastai_loaders"),
    Entry("torch-geometric", "tables:geometric_loaders"),
    Entry("pytorch-forecasting", "tables:forecasting_loaders"),
    Entry("darts", "tables:darts_loaders"),
    Entry("pytorch-tabular", "tables:tabular_loaders"),
    Entry("neuralforecast", "tables:neuralforecast_loaders"),
)
"""What is scanned, by subject."""

_CLONED = "albumentations 2 draws from a generator of its own in each transform; every worker forks a copy of it"

VERDICTS = (
    Verdict("images:timm_loaders", "DG001", REAL, "posterize keeps 0 bits in some draws: see the end of this page"),
    Verdict("images:albumentations_loaders", "DG101", REAL, _CLONED),
    Verdict("images:albumentations_loaders", "DG102", REAL, _CLONED),
    Verdict("images:albumentations_masks", "DG101", REAL, _CLONED),
    Verdict("images:albumentations_masks", "DG102", REAL, _CLONED),
    Verdict("tokens:causal", "DG422", REAL, "planted: padding is the end token, which the collator ignores by its id"),
)
"""Our verdict on each finding."""

BUGS = (
    Bug(
        "albumentations",
        "2.0.8",
        "core/transforms_interface.py:163",
        "each transform makes its random generators when it is built, so every forked worker has a copy in the same "
        "state, and two workers draw the same augmentation",
        """\
  <!-- not run: needs this release of the library -->
  ```python
  import albumentations as A, numpy as np
  from torch.utils.data import DataLoader, Dataset


  class Noise(Dataset):
      augment = A.Compose([A.RandomBrightnessContrast(p=1)])

      def __len__(self):
          return 4

      def __getitem__(self, index):
          return float(self.augment(image=np.full((8, 8, 3), 100, np.uint8))["image"].mean())


  print([batch.item() for batch in DataLoader(Noise(), num_workers=2)])  # [140.0, 140.0, 63.0, 63.0]
  ```
""",
    ),
    Bug(
        "timm",
        "1.0.31, with Pillow 13",
        "data/auto_augment.py:164",
        "`PosterizeIncreasing` at magnitude 10 keeps 0 bits, which Pillow refuses; under `rand-m9-mstd0.5-inc1` the "
        "magnitude reaches 10 in 12 of 5,000 images, and training stops there",
        """\
  <!-- not run: needs this release of the library -->
  ```python
  from PIL import Image
  from timm.data.auto_augment import AugmentOp

  AugmentOp("PosterizeIncreasing", prob=1.0, magnitude=10, hparams={})(Image.new("RGB", (8, 8)))  # ValueError
  ```
""",
    ),
    Bug(
        "mmengine",
        "0.10.7",
        "dataset/sampler.py:157",
        "`InfiniteSampler` draws from one iterator forever; once an iteration is stopped, as by `break`, every later "
        "one is empty",
        """\
  <!-- not run: needs this release of the library -->
  ```python
  from itertools import islice
  from mmengine.dataset import InfiniteSampler

  sampler = InfiniteSampler(range(10), seed=0)
  print(list(islice(sampler, 3)), list(islice(sampler, 3)))  # [4, 1, 7] []
  ```
""",
    ),
    Bug(
        "accelerate",
        "1.15.0, with torchdata 0.11.0",
        "data_loader.py:503",
        "with `use_stateful_dataloader` the state has the position in an epoch, and `None` for the sampler: torch's "
        "`BatchSampler` and `RandomSampler`, which `prepare` passes on, have no state, and the seed of the order is "
        "drawn from the global generator as an epoch begins; a resumed epoch repeats some samples and leaves out as "
        "many (DG209). `use_seedable_sampler=True` seeds the order with the epoch, which training sets by `set_epoch`. "
        "[#4195](https://github.com/huggingface/accelerate/issues/4195) describes the same on several ranks",
        """\
  <!-- not run: needs this release of the library -->
  ```python
  import torch
  from accelerate import Accelerator, DataLoaderConfiguration
  from torch.utils.data import DataLoader


  def prepared():
      torch.manual_seed(0)
      configuration = DataLoaderConfiguration(use_stateful_dataloader=True)
      return Accelerator(cpu=True, dataloader_config=configuration).prepare(DataLoader(range(6), shuffle=True))


  loader = prepared()
  list(loader)
  second_epoch = iter(loader)
  read = [int(next(second_epoch)) for _ in range(3)]
  state = loader.state_dict()
  again = prepared()
  again.set_epoch(1)
  again.load_state_dict(state)
  print(read, [*map(int, second_epoch)], [*map(int, again)])  # [2, 3, 1] [5, 4, 0] [2, 1, 4]
  ```
""",
    ),
)
"""Defects of public releases."""
