from __future__ import annotations

import argparse

import torch
from torch.utils.data import DataLoader, TensorDataset


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default="data")
    parser.add_argument("--epochs", type=int, default=1)
    arguments = parser.parse_args()
    data = TensorDataset(torch.rand(40, 8), torch.arange(40) % 5)
    train_loader = DataLoader(data, batch_size=8, shuffle=True, num_workers=2)
    for _ in range(arguments.epochs):
        for _batch in train_loader:
            pass


if __name__ == "__main__":
    main()
