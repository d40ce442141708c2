"""Build the package and try it in empty environments: `python -m tests.bench.release PYTHON[:TORCH] ...`.

Each PYTHON is an interpreter, and TORCH a version of torch, the newest if there is none:
`python -m tests.bench.release python3.10:2.4.1 python3.13`. Needs the `dev` extra and a package index; prints a
markdown table. In each environment, outside the repository, a healthy loader must pass and a broken one must be found,
from the command line and by pytest.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROJECT = """\
import numpy
import torch
from torch.utils.data import DataLoader, Dataset


class Noisy(Dataset):
    def __init__(self, own):
        self.rng = numpy.random.default_rng(0) if own else None

    def __len__(self):
        return 64

    def __getitem__(self, index):
        noise = (self.rng or numpy.random).normal(size=8)
        return torch.from_numpy(noise).float(), index % 4


def good():
    return DataLoader(Noisy(own=False), batch_size=8, shuffle=True, num_workers=2)


def bad():
    return DataLoader(Noisy(own=True), batch_size=8, shuffle=True, num_workers=2)
"""


def build(folder: Path) -> Path:
    """Build sdist and wheel, have twine check both, and return the wheel."""
    subprocess.run([sys.executable, "-m", "build", "--outdir", str(folder), str(ROOT)], check=True, capture_output=True)
    made = sorted(folder.iterdir())
    subprocess.run([sys.executable, "-m", "twine", "check", "--strict", *map(str, made)], check=True)
    (wheel,) = folder.glob("*.whl")
    packed = zipfile.ZipFile(wheel).namelist()
    foreign = [
        name for name in packed if not name.startswith(("dataguard/", f"{wheel.name.rsplit('-', 3)[0]}.dist-info/"))
    ]
    assert not foreign, f"the wheel holds {foreign}"
    return wheel


def tried(wheel: Path, python: str, torch: str, folder: Path) -> str:
    """A row of the table: versions, and what each door said in an environment of this interpreter and torch."""
    subprocess.run([python, "-m", "venv", str(folder / "venv")], check=True)
    own, project = folder / "venv" / "bin", folder / "project"
    project.mkdir()
    (project / "shop.py").write_text(PROJECT)
    wanted = f"torch=={torch}" if torch else "torch"
    subprocess.run([own / "pip", "install", "-q", str(wheel), wanted, "pytest"], check=True)

    def run(*command: str) -> tuple[int, str]:
        done = subprocess.run([own / command[0], *command[1:]], cwd=project, capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    doors = {
        "scan good": (run("dataguard", "scan", "shop:good"), 0, "no findings"),
        "scan bad": (run("dataguard", "scan", "shop:bad"), 1, "DG101"),
        "pytest good": (run("python", "-m", "pytest", "-q", "--dataguard=shop:good"), 0, "passed"),
        "pytest bad": (run("python", "-m", "pytest", "-q", "--dataguard=shop:bad"), 1, "DG101-cloned-worker-rng[bad]"),
        "html": (
            run("dataguard", "scan", "shop:bad", "--select", "DG101", "--output", "a.html"),
            1,
            "written to a.html",
        ),
        "doctor": (run("dataguard", "doctor"), None, "torch"),
    }
    for door, ((code, text), expected, words) in doors.items():
        assert words in text, f"{door}: {code}\n{text}"
        assert code in ((0, 1) if expected is None else (expected,)), f"{door}: {code}\n{text}"
    versions = "import platform, torch, numpy; print(platform.python_version(), torch.__version__, numpy.__version__)"
    return f"| {' | '.join(run('python', '-c', versions)[1].split())} | {', '.join(doors)} |"


def main(environments: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        wheel = build(Path(folder) / "dist")
        sys.stdout.write(f"`{wheel.name}`\n\n| Python | torch | numpy | works |\n|---|---|---|---|\n")
        for number, environment in enumerate(environments):
            python, _, torch = environment.partition(":")
            place = Path(folder) / str(number)
            place.mkdir()
            sys.stdout.write(tried(wheel, python, torch, place) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
