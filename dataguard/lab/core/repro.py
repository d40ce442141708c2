"""Commands that reproduce a finding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dataguard.incident import Incident


@dataclass(frozen=True, slots=True)
class Repro:
    """Writes such commands for one loader of a target, by its spelling and the loader's name."""

    target: str
    loader: str
    num_workers: int

    def expression(self, expression: str) -> str:
        """A command that builds the loader and evaluates an expression of it, such as `.dataset[17]`."""
        return f'python -c "from dataguard.target.loading import load; print({self._build}{expression})"'

    def incident(self, incident: Incident, times: int = 1) -> str | None:
        """A command that reads the sample at which the user's code failed, if it has an index, so many times."""
        if incident.stage != "sample" or not incident.index:
            return None
        return self.expression(f".dataset[{incident.index}]") if times == 1 else self._repeated(incident.index, times)

    def batch(self, indices: Sequence[object]) -> str:
        """A command that builds the loader and collates these samples, in a worker if the loader has any."""
        samples = f"[loader.dataset[i] for i in {list(indices)!r}]"
        imports, work = "", f"loader.collate_fn({samples})"
        if self.num_workers:
            imports = "from torch.utils.data import DataLoader; "
            own = "collate_fn=loader.collate_fn, worker_init_fn=loader.worker_init_fn"
            work = f"next(iter(DataLoader(loader.dataset, batch_sampler={[list(indices)]!r}, num_workers=1, {own})))"
        build = f"from dataguard.target.loading import load; {imports}loader = {self._build}"
        return f'python -c "{build}; print({work})"'

    def reads(self, indices: Sequence[object]) -> str:
        """A command that builds the loader and reads these samples, one after the other."""
        work = f"dataset = {self._build}.dataset; print([dataset[i] for i in {list(indices)!r}])"
        return f'python -c "from dataguard.target.loading import load; {work}"'

    def _repeated(self, index: str, times: int) -> str:
        work = f"dataset = {self._build}.dataset; any(dataset[{index}] is None for _ in range({times}))"
        return f'python -c "from dataguard.target.loading import load; {work}"'

    def apart(self, index: object) -> str:
        """A command that reads a sample in one process, and then in another."""
        command = self.expression(f".dataset[{index!r}]")
        return f"{command}; {command}"

    @property
    def _build(self) -> str:
        return f"load({self.target!r}).build({self.loader!r})"
