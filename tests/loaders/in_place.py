"""Images and masks that are changed where the decoder put them."""

from __future__ import annotations

import cv2
import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from sample_datasets._parts import PHOTOGRAPHS, scratch

SIZE = (32, 32)


class Shapes(Dataset[tuple[Tensor, Tensor]]):
    """Photographs with a mask of their brightest parts, in PNG files."""

    def __init__(self) -> None:
        self.folder = scratch("in_place")
        for number, path in enumerate(PHOTOGRAPHS):
            image = cv2.resize(np.asarray(cv2.imread(str(path))), SIZE)
            cv2.imwrite(str(self.folder / f"image{number}.png"), image)
            cv2.imwrite(str(self.folder / f"mask{number}.png"), np.uint8(image.mean(-1) > image.mean()))

    def __len__(self) -> int:
        return len(PHOTOGRAPHS)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        index = range(len(self))[index]
        image = np.asarray(cv2.imread(str(self.folder / f"image{index}.png")))
        cv2.cvtColor(image, cv2.COLOR_BGR2RGB, dst=image)
        mask = np.asarray(cv2.imread(str(self.folder / f"mask{index}.png"), cv2.IMREAD_GRAYSCALE))
        mask[mask > 1] = 1
        return torch.from_numpy(image).permute(2, 0, 1) / 255, torch.from_numpy(mask).long()


def make_loader() -> DataLoader[tuple[Tensor, Tensor]]:
    return DataLoader(Shapes(), batch_size=4, num_workers=2, shuffle=True)
