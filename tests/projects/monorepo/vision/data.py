import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset


class Shapes(Dataset):
    """Squares of two sizes, drawn from a table of centres."""

    def __init__(self, seed, train):
        rows = np.random.default_rng(seed)
        self.centres = rows.integers(8, 24, size=(96, 2))
        self.sizes = rows.integers(3, 7, size=96)
        self.train = train

    def __len__(self):
        return 96

    def __getitem__(self, index):
        image = torch.zeros(1, 32, 32)
        (y, x), size = self.centres[index], self.sizes[index]
        image[:, y - size : y + size, x - size : x + size] = 1
        mask = image.clone()
        if self.train and torch.rand(()) < 0.5:
            image = image.flip(-1)  # planted: DG512, the mask stays
        return image + 0.05 * torch.rand(1, 32, 32), mask


def vision_loaders():
    return {
        "train": DataLoader(
            Shapes(1, True), batch_size=5, shuffle=True, num_workers=2
        ),  # planted: DG403, 96 = 19 * 5 + 1
        "val": DataLoader(Shapes(2, False), batch_size=8),
    }
