"""Commands that reproduce a finding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from shlex import join, quote

from dataguard.in_memory_targets import is_held, program, script_of, shown
from dataguard.incident import Incident


@dataclass(frozen=True, slots=True)
class Repro:
    """Writes such commands for one loader of a target, by its spelling and the loader's name."""

    target: str
    loader: str
    num_workers: int
    pythonpath: tuple[str, ...] = ()

    def scan(self, code: str, options: str) -> str:
        """A command that runs one check."""
        if is_held(self.target):
            return f"dataguard.check({self._build}, select=[{code!r}])"
        if script := script_of(self.target):
            return f"dataguard run --select {code}{options} {program(script[0])} {join(script[1:])}".rstrip()
        return f"dataguard scan {quote(self.target)} --select {code}{options}"

    def expression(self, expression: str) -> str:
        """A command that builds the loader and evaluates an expression of it, such as `.dataset[17]`."""
        return self._command(f"print({self._build}{expression})")

    def incident(self, incident: Incident, times: int = 1) -> str | None:
        """A command that reads the sample at which the user's code failed, if it has an index, so many times."""
        if incident.stage != "sample" or not incident.index:
            return None
        index = incident.index
        if times == 1:
            return self.expression(f".dataset[{index}]")
        return self._command(
            f"dataset = {self._build}.dataset", f"any(dataset[{index}] is None for _ in range({times}))"
        )

    def batch(self, indices: Sequence[object]) -> str:
        """A command that builds the loader and collates these samples, in a worker if the loader has any."""
        samples = f"[loader.dataset[i] for i in {list(indices)!r}]"
        imports, work = [], f"loader.collate_fn({samples})"
        if self.num_workers:
            imports = ["from torch.utils.data import DataLoader"]
            own = "collate_fn=loader.collate_fn, worker_init_fn=loader.worker_init_fn"
            work = f"next(iter(DataLoader(loader.dataset, batch_sampler={[list(indices)]!r}, num_workers=1, {own})))"
        build = [] if self._build == "loader" else [f"loader = {self._build}"]
        return self._command(*imports, *build, f"print({work})")

    def reads(self, indices: Sequence[object]) -> str:
        """A command that builds the loader and reads these samples, one after the other."""
        reads = f"print([dataset[i] for i in {list(indices)!r}])"
        return self._command(f"dataset = {self._build}.dataset", reads)

    def apart(self, index: object) -> str:
        """A command that reads a sample in one process, and then in another."""
        command = self.expression(f".dataset[{index!r}]")
        return f"{command}; {command}"

    def _command(self, *statements: str) -> str:
        """A shell command that runs these statements of Python; for an object in hand, the statements."""
        if is_held(self.target):
            return "; ".join(statements)
        program = "; ".join(["from dataguard.targets.loading import load", *statements])
        plain = not set(program) & set('"$`\\!\n')  # then double quotes are enough, and the easiest to read
        path = f"PYTHONPATH={quote(':'.join(self.pythonpath))} " if self.pythonpath else ""
        return f'{path}python -c "{program}"' if plain else f"{path}python -c {quote(program)}"

    @property
    def _build(self) -> str:
        if is_held(self.target):
            name = shown(self.target)
            return name if self.loader == name else f"{name}[{self.loader!r}]"
        return f"load({self.target!r}).build({self.loader!r})"
