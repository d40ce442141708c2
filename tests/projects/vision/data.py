from pathlib import Path

import cv2
import numpy as np
import torch
from torch.utils.data import Dataset

MEAN = torch.tensor([0.485, 0.456, 0.406])[:, None, None]
STD = torch.tensor([0.229, 0.224, 0.225])[:, None, None]


class Photographs(Dataset):
    def __init__(self, folder, train):
        self.files = sorted(Path(folder).rglob("*.png"))
        self.classes = sorted({file.parent.name for file in self.files})
        self.train = train
        self.rng = np.random.default_rng(0)  # planted: DG101

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        file = self.files[index]
        image = cv2.imread(str(file))  # planted: DG505
        if self.train:
            top, left = self.rng.integers(0, 17, size=2)
        else:
            top, left = 8, 8
        image = image[top : top + 48, left : left + 48]
        tensor = torch.from_numpy(image.transpose(2, 0, 1).copy()).float() / 255
        return (tensor - MEAN) / STD, self.classes.index(file.parent.name)
