"""Lines that a user can run to see a finding again."""

from __future__ import annotations

from collections.abc import Sequence

from dataguard.incident import Incident
from dataguard.lab.core.loader_facts import LoaderFacts
from dataguard.target.loading import Target


class Repros:
    """The part of a lab that writes such lines."""

    target: Target

    @property
    def facts(self) -> LoaderFacts:
        """The loader's settings."""
        raise NotImplementedError

    def repro(self, expression: str) -> str:
        """A line that builds the loader again and evaluates an expression of it, such as `.dataset[17]`."""
        return f'python -c "from dataguard.target.loading import load; print({self._build_line}{expression})"'

    def repro_of(self, incident: Incident) -> str | None:
        """A line that reads the sample at which the user's code failed, where it was one with an index."""
        return self.repro(f".dataset[{incident.index}]") if incident.stage == "sample" and incident.index else None

    def repro_batch(self, indices: Sequence[object]) -> str:
        """A line that builds the loader again and collates these samples, in a worker where the loader has any."""
        samples = f"[loader.dataset[i] for i in {list(indices)!r}]"
        imports, work = "", f"loader.collate_fn({samples})"
        if self.facts.num_workers:
            imports = "from torch.utils.data import DataLoader; "
            own = "collate_fn=loader.collate_fn, worker_init_fn=loader.worker_init_fn"
            work = f"next(iter(DataLoader(loader.dataset, batch_sampler={[list(indices)]!r}, num_workers=1, {own})))"
        build = f"from dataguard.target.loading import load; {imports}loader = {self._build_line}"
        return f'python -c "{build}; print({work})"'

    def repro_reads(self, indices: Sequence[object]) -> str:
        """A line that builds the loader again and reads these samples, one after the other."""
        work = f"dataset = {self._build_line}.dataset; print([dataset[i] for i in {list(indices)!r}])"
        return f'python -c "from dataguard.target.loading import load; {work}"'

    @property
    def _build_line(self) -> str:
        return f"load({self.target.spelling!r}).build({self.facts.name!r})"
