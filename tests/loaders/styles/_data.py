"""The data of the loaders: photographs, and street scenes with masks, boxes and joints, written once a process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from sample_datasets._parts import PHOTOGRAPHS, scratch

CLASSES = sorted({path.parent.name for path in PHOTOGRAPHS})
IMAGENET_MEAN, IMAGENET_STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
HEIGHT, WIDTH, SCENES = 64, 80, 24


def class_of(path: Path) -> int:
    return CLASSES.index(path.parent.name)


def _scene(number: int) -> tuple[np.ndarray, np.ndarray, list[list[float]], list[list[float]]]:
    rng = np.random.default_rng(number)
    image = rng.integers(0, 90, (HEIGHT, WIDTH, 3), dtype=np.uint8)
    mask = np.zeros((HEIGHT, WIDTH), np.uint8)
    boxes = []
    for label in (1, 3):
        top, left = int(rng.integers(4, 30)), int(rng.integers(2, 24)) + (40 if label == 3 else 0)
        image[top : top + 22, left : left + 14] = rng.integers(120, 250, 3)
        mask[top : top + 22, left : left + 14] = label
        boxes.append([float(left), float(top), float(left + 14), float(top + 22)])
    x, y, _, _ = boxes[0]
    joints = [[x + 7, y + 2], [x + 3, y + 6], [x + 11, y + 6], [x + 4, y + 18], [x + 10, y + 18]]
    return image, mask, boxes, joints


def write_scenes() -> Path:
    root = scratch("styles-")
    for folder in ("images", "masks", "labels"):
        (root / folder).mkdir()
    for number in range(SCENES):
        image, mask, boxes, joints = _scene(number)
        Image.fromarray(image).save(root / "images" / f"{number:03d}.png")
        Image.fromarray(mask).save(root / "masks" / f"{number:03d}.png")
        record = {"boxes": boxes, "labels": [1, 3], "joints": joints}
        (root / "labels" / f"{number:03d}.json").write_text(json.dumps(record), encoding="utf-8")
    return root


ROOT = write_scenes()


def files(folder: str) -> list[Path]:
    return sorted((ROOT / folder).iterdir())


def record_of(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((ROOT / "labels" / f"{path.stem}.json").read_text(encoding="utf-8"))
    return found


def table(rows: int = 240, columns: int = 6) -> np.ndarray:
    """Sensor readings whose level drifts with time."""
    rng = np.random.default_rng(5)
    drift = np.linspace(0, 4, rows)[:, None]
    return (rng.normal(size=(rows, columns)) * np.arange(1, columns + 1) + drift).astype(np.float32)


def vectors(count: int = 48, size: int = 12) -> np.ndarray:
    return np.random.default_rng(11).normal(size=(count, size)).astype(np.float32)
