from pathlib import Path

import torch
from torch.utils.data import DataLoader, Dataset

CORPUS = Path("/mnt/corpora/digits")


class Digits(Dataset):
    def __init__(self, split):
        lines = (CORPUS / f"{split}.tsv").read_text().splitlines()
        self.rows = [line.split("\t") for line in lines]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        name, label = self.rows[index]
        return torch.load(CORPUS / name), int(label)


def speech_loaders():
    return {
        "train": DataLoader(Digits("train"), batch_size=4, shuffle=True, num_workers=2),
        "val": DataLoader(Digits("val"), batch_size=4),
    }
