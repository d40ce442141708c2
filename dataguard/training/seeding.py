"""The recommended way to seed a loader: the process, its workers, and the order.

    seed_everything(seed + rank)
    DataLoader(..., worker_init_fn=seed_worker, generator=make_generator(seed + rank))

Each function says what it covers. What none of them covers: generators that a dataset, a transform or a library keeps
for itself, `os.urandom`, time, the order in which a directory is listed, and threads that finish in any order.
`dataguard scan` finds those.
"""

from __future__ import annotations

import random
import sys

import numpy as np
import torch

LARGEST_SEED = 2**32 - 1
"""The largest seed that numpy takes."""


def seed_everything(seed: int) -> None:
    """Seed the global random generators of this process.

    Covered: `random`, `numpy.random`, torch on the CPU and on all accelerators (CUDA before its first use, too), and
    the generator of cv2 in the calling thread, if cv2 is imported.

    Not covered: generators created as objects, such as `numpy.random.default_rng()`; cv2 in other threads and in
    workers (see `seed_worker`); the order of sets of strings, which needs `PYTHONHASHSEED` in the environment before
    Python starts; and which algorithm an operation uses: see `torch.use_deterministic_algorithms` and
    `torch.backends.cudnn.benchmark`.

    In distributed training pass another seed on each rank, such as `seed + rank`: workers derive their seeds from this
    one, so equal seeds are equal augmentations on all ranks. DDP makes the initial weights equal by itself.

    Raises ValueError unless 0 <= seed < 2**32.
    """
    if not 0 <= seed <= LARGEST_SEED:
        raise ValueError(f"a seed is between 0 and {LARGEST_SEED}, not {seed}")
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    _seed_cv2(seed)


def seed_worker(worker_id: int) -> None:
    """Seed what torch leaves unseeded in a worker; pass it as `worker_init_fn`.

    torch itself seeds `random`, `numpy.random` and torch in each worker, from the loader's `generator` and the worker's
    id, with other numbers in each epoch unless the workers are persistent. This adds cv2, whose generator is otherwise
    the same in all workers and epochs; cv2 must be imported by then, as it is if the module of the dataset imports it.

    Not covered: generators that the dataset holds. Create those in the worker, at the first read, as
    `numpy.random.default_rng(torch.initial_seed())`.
    """
    _seed_cv2(torch.initial_seed())


def make_generator(seed: int) -> torch.Generator:
    """A CPU generator for `DataLoader(generator=...)`, from which torch draws the order and the seeds of the workers.

    With it, the order is the same for every number of workers and whatever else draws from torch's global generator.
    Without it, later epochs depend on both. What workers draw still depends on how many they are, and from the second
    epoch on, order and draws depend on `persistent_workers`.

    Not covered: samplers with their own seed, such as DistributedSampler, and without workers what the dataset draws;
    `seed_everything` covers that.

    Create it once. One that is made again in every epoch repeats the order (DG206).
    """
    return torch.Generator().manual_seed(seed)


def _seed_cv2(seed: int) -> None:
    """Seed the generator of cv2 in this thread, if cv2 is imported; it takes a C int."""
    cv2 = sys.modules.get("cv2")
    if cv2 is not None:
        cv2.setRNGSeed(seed % 2**31)
