"""The package's own training script."""

from __future__ import annotations

import argparse

from .data import build_loader

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default="data")
    parser.parse_args()
    for _ in build_loader("train"):
        pass
