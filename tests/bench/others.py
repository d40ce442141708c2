"""What other tools report of twenty loaders of `sample_datasets`: `python -m tests.bench.others [TOOL]...`.

Run it in an environment that has the tools beside dataguard. A tool finds a defect if it reports something of `bad()`
that it does not report of `good()`, its healthy relative; what it reports of `good()` is counted apart. Tools that
read source get the module without the functions of the other one.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import importlib
import inspect
import io
import json
import re
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

SAMPLES = Path(__file__).parents[2] / "sample_datasets"
CODES = (
    *("dg101", "dg102", "dg201", "dg202", "dg204", "dg206", "dg207", "dg303", "dg307", "dg403"),
    *("dg406", "dg407", "dg421", "dg501", "dg502", "dg504", "dg505", "dg506", "dg512", "dg514"),
)
"""Defects of random numbers, streams, datasets, batches, tokens, values, images and splits: those that other tools look
for are among them."""
MOST_BATCHES, MOST_IMAGES = 10, 64
"""What is handed to a tool that takes batches or images."""
SECONDS = 120


RANKS = 2


def loaders_of(module: str, face: str, rank: int = 0) -> dict[str, Any]:
    """The loaders that a function of a sample makes, by name; those of a rank, if it takes one."""
    factory = getattr(importlib.import_module(f"sample_datasets.{module}"), face)
    given = {"rank": rank, "world_size": RANKS}
    made = factory(**{name: value for name, value in given.items() if name in inspect.signature(factory).parameters})
    return dict(made) if isinstance(made, Mapping) else {"train": made}


def preflight_ml(module: str, face: str) -> set[str]:
    """Its checks of data and splits."""
    run_checks = importlib.import_module("preflight.runner").run_checks
    first, *others = loaders_of(module, face).values()
    results = run_checks(dataloader=first, config={"val_dataloader": others[0]} if others else {})
    return {result.name for result in results if not result.passed}


def torch_audit(module: str, face: str) -> set[str]:
    """Its rules of data and of stability, in a training of a linear model; those of the model itself are left out."""
    import torch

    audit_dynamic = importlib.import_module("torch_audit").audit_dynamic
    found = set()
    for loader in loaders_of(module, face).values():
        for batch in islice(loader, MOST_BATCHES):
            model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.LazyLinear(4))
            with audit_dynamic(model, reporters=[]) as auditor:
                auditor.audit_data(batch)
                inputs = next((one for one in leaves(batch) if isinstance(one, torch.Tensor)), None)
                if inputs is not None and inputs.ndim > 1:
                    auditor.backward(auditor.forward(inputs.float()).mean())
                found |= {one.rule_id for one in auditor.findings if one.rule_id.startswith(("TA1", "TA3"))}
    return found


def traintools(module: str, face: str) -> set[str]:
    """Its inspector of batches, with inputs and targets apart."""
    inspector = importlib.import_module("traintools").BatchInspector()
    found = set()
    for loader in loaders_of(module, face).values():
        for batch in islice(loader, MOST_BATCHES):
            inputs, targets = batch if isinstance(batch, list | tuple) and len(batch) == 2 else (batch, None)
            report = inspector.inspect(inputs, targets)
            found |= {"".join(one for one in words if not one.isdigit()) for words in report.warnings}
    return found


def trainparity(module: str, face: str) -> set[str]:
    """Its audit that each sample is yielded once; a sample is identified by its content, read in one process."""
    import torch

    api = importlib.import_module("trainparity.api")

    def rows(batch: Any) -> Iterator[str]:
        leaf = next(one for one in leaves(batch) if isinstance(one, torch.Tensor) and one.ndim)
        return (hashlib.sha1(row.numpy().tobytes()).hexdigest() for row in leaf)

    found = set()
    ranks = [loaders_of(module, face, rank) for rank in range(RANKS)]
    for name, loader in ranks[0].items():
        dataset = loader.dataset
        samples = list(dataset) if isinstance(dataset, torch.utils.data.IterableDataset) else dataset
        expected = {next(rows(torch.utils.data.default_collate([samples[at]]))) for at in range(len(samples))}
        given = (
            {rank: loaders[name] for rank, loaders in enumerate(ranks)} if _takes_rank(module, face) else {0: loader}
        )
        result = api.audit_rank_iterables(given, sample_id_extractor=rows, policy=api.ExactlyOnce(tuple(expected)))
        if result.first_violation is not None:
            found.add(result.first_violation.path)
    return found


def cleanvision(module: str, face: str) -> set[str]:
    """Its issues of the images that the datasets of the loaders return, in one folder."""
    import numpy as np
    import torch
    from PIL import Image

    with tempfile.TemporaryDirectory() as folder:
        for name, loader in loaders_of(module, face).items():
            for number in range(min(len(loader.dataset), MOST_IMAGES)):
                sample = loader.dataset[number]
                image = next(one for one in leaves(sample) if isinstance(one, torch.Tensor) and one.ndim == 3)
                pixels = image.movedim(0, -1).squeeze(-1).double().numpy()
                pixels = pixels if pixels.max() > 1 or pixels.min() < 0 else pixels * 255
                Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(f"{folder}/{name}{number}.png")
        lab = importlib.import_module("cleanvision").Imagelab(data_path=folder)
        lab.find_issues(n_jobs=1, verbose=False)
        summary = lab.issue_summary
        return set(summary[summary["num_images"] > 0]["issue_type"])


def deepchecks(module: str, face: str) -> set[str]:
    """Its suite for two splits of images and labels."""
    import numpy as np

    vision, suites = (importlib.import_module(f"deepchecks.{name}") for name in ("vision", "vision.suites"))

    def batches(loader: Any) -> Iterator[Any]:
        for images, labels in islice(loader, MOST_BATCHES):
            pixels = images.movedim(1, -1).double().numpy()
            pixels = pixels if pixels.max() > 1 or pixels.min() < 0 else pixels * 255
            yield {"images": list(pixels.clip(0, 255).astype(np.uint8)), "labels": labels.tolist()}

    two = list(loaders_of(module, face).values())
    train, test = (
        vision.VisionData(batches(loader), task_type="classification", reshuffle_data=False)
        for loader in (two[0], two[-1])
    )
    result = suites.train_test_validation().run(train, test)
    return {one.get_header() for one in result.get_not_passed_checks()}


def torchfix(module: str, face: str) -> set[str]:
    """All its rules, on the source."""
    return of_source(module, face, [sys.executable, "-m", "torchfix", "--select", "ALL"], r"TOR\d+")


def torch_preflight(module: str, face: str) -> set[str]:
    """All its rules, on the source."""
    return of_source(module, face, [sys.executable, "-m", "torch_preflight", "check"], r"TG\d+")


def of_source(module: str, face: str, command: list[str], rule: str) -> set[str]:
    """The rules that a command names for the source of one function of a sample, and what it uses."""
    tree = ast.parse((SAMPLES / f"{module}.py").read_text(encoding="utf-8"))
    tree.body = [node for node in tree.body if not _is_other(node, face)]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "data.py")
        file.write_text(ast.unparse(tree), encoding="utf-8")
        done = subprocess.run([*command, str(file)], capture_output=True, text=True, check=False, cwd=folder)
    if done.returncode not in (0, 1):
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    return set(re.findall(rule, done.stdout))


def _is_other(node: ast.stmt, face: str) -> bool:
    return isinstance(node, ast.FunctionDef) and node.name.startswith(("bad", "good")) and node.name != face


def _takes_rank(module: str, face: str) -> bool:
    factory = getattr(importlib.import_module(f"sample_datasets.{module}"), face)
    return "rank" in inspect.signature(factory).parameters


def leaves(value: Any) -> Iterator[Any]:
    """The values of a sample or batch, without its structure."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for one in value:
            yield from leaves(one)
    else:
        yield value


TOOLS: Mapping[str, Callable[[str, str], set[str]]] = {
    "preflight-ml": preflight_ml,
    "torch-audit": torch_audit,
    "traintools": traintools,
    "TrainParity": trainparity,
    "cleanvision": cleanvision,
    "deepchecks": deepchecks,
    "TorchFix": torchfix,
    "torch-preflight": torch_preflight,
}


def asked(tool: str, module: str, face: str) -> list[str] | str:
    """What a tool reports of a function, in a process of its own; or why it cannot."""
    command = [sys.executable, "-m", "tests.bench.others", "--one", tool, module, face]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return f"takes more than {SECONDS} s"
    lines = done.stdout.strip().splitlines()
    answer: list[str] | str = json.loads(lines[-1]) if lines else done.stderr.strip()[-200:]
    return answer


def one(tool: str, module: str, face: str) -> None:
    """Print what a tool reports as JSON: a list of its names, or an exception as text."""
    warnings.simplefilter("ignore")
    answer: list[str] | str
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            answer = sorted(TOOLS[tool](module, face))
        except Exception as error:  # noqa: BLE001 - a tool may raise anything of a loader that it cannot read
            answer = f"{type(error).__name__}: {error}"[:200]
    sys.stdout.write(f"{json.dumps(answer)}\n")


def table(tools: list[str]) -> Iterator[str]:
    """A row for each tool: the defects that it finds, and healthy loaders of which it reports something."""
    yield "| tool | found, of 20 | reports on a healthy loader, of 20 | could not read |"
    yield "|---|---|---|---|"
    modules = [next(SAMPLES.glob(f"{code}_*.py")).stem for code in CODES]
    for tool in tools:
        found, alarms, unread = [], 0, 0
        for module in modules:
            bad, good = asked(tool, module, "bad"), asked(tool, module, "good")
            sys.stderr.write(f"{tool} {module}: {bad} | {good}\n")
            if isinstance(bad, str) or isinstance(good, str):
                unread += 1
                continue
            found += [module[:5].upper()] if set(bad) - set(good) else []
            alarms += bool(good)
        names = f": {', '.join(found)}" if found else ""
        yield f"| {tool} | {len(found)}{names} | {alarms} | {unread} |"


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        one(*sys.argv[2:5])
    else:
        sys.stdout.write("\n".join(table(sys.argv[1:] or list(TOOLS))) + "\n")
