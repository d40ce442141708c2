"""Train a small classifier: python train.py --data data, or torchrun --nproc-per-node 4 train.py --data data."""

import argparse
import os

import torch
import torch.distributed as dist
from data import Photographs
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--epochs", type=int, default=3)
    return parser.parse_args()


def main():
    args = parse()
    if "RANK" in os.environ:
        dist.init_process_group("gloo")
    ranks = {"num_replicas": int(os.environ.get("WORLD_SIZE", 1)), "rank": int(os.environ.get("RANK", 0))}
    train_set = Photographs(f"{args.data}/train", train=True)
    val_set = Photographs(f"{args.data}/val", train=False)
    sampler = DistributedSampler(train_set, **ranks)
    train_loader = DataLoader(train_set, batch_size=8, sampler=sampler, num_workers=2, drop_last=True)
    val_loader = DataLoader(val_set, batch_size=8, num_workers=2, drop_last=True)  # planted: DG211
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 3))
    if dist.is_initialized():
        model = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(args.epochs):  # planted: DG206, no sampler.set_epoch
        for images, labels in train_loader:
            loss = nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            right = sum((model(images).argmax(1) == labels).sum() for images, labels in val_loader)
        print(f"accuracy {right / len(val_set):.2f}")


if __name__ == "__main__":
    main()
