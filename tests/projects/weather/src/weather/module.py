from pathlib import Path

import numpy as np
import pandas as pd
import torch
from lightning.pytorch import LightningDataModule
from torch.utils.data import DataLoader, Dataset

TABLE = Path(__file__).parents[2] / "data" / "stations.csv"


class Windows(Dataset):
    """A day of measurements of a station, and whether it rained on the next one."""

    def __init__(self, values, rain, augment=False):
        self.values = values
        self.rain = rain
        self.augment = augment

    def __len__(self):
        return len(self.values) - 24

    def __getitem__(self, index):
        window = self.values[index : index + 24]
        if self.augment:
            window += np.float32(0.01) * torch.randn(24, 4).numpy()  # planted: DG307, in place
        return torch.from_numpy(window.copy()), self.rain[index + 24]


class Weather(LightningDataModule):
    def __init__(self, batch_size=16):
        super().__init__()
        self.batch_size = batch_size

    def setup(self, stage=None):
        table = pd.read_csv(TABLE)
        columns = ["temperature", "pressure", "humidity", "wind"]
        values = table[columns].to_numpy()
        values = (values - values.mean(0)) / values.std(0)  # planted: DG521, of all rows
        rain = table["rain"].to_numpy()
        cut = 300
        self.train = Windows(values[:cut].astype(np.float32), rain[:cut], augment=True)
        self.val = Windows(values[cut:], rain[cut:], augment=False)  # planted: DG406, float64

    def train_dataloader(self):
        return DataLoader(self.train, batch_size=self.batch_size, shuffle=True, num_workers=2)

    def val_dataloader(self):
        return DataLoader(self.val, batch_size=self.batch_size, shuffle=True, num_workers=2)
