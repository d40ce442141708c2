"""DG102: every epoch replays the same random numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.model import Finding, Judgement, Looked, NotApplicable, Severity, Undecided, check
from dataguard.odds import Agreement, Groups, agreement, log_odds

if TYPE_CHECKING:
    from dataguard.lab import Lab
    from dataguard.lab.workers import SameItems

_EFFORTS = 3


@check("DG102", "replayed-epoch", Severity.ERROR)
def dg102_replayed_epoch(lab: Lab) -> Judgement:
    """Every epoch draws the same random numbers, so that the model sees one fixed set of augmented samples.

    Symptom: no error at all; the model overfits as if there were hardly any augmentation.
    Cause: workers are started anew for each epoch from a parent whose generator never moves, or `worker_init_fn` seeds
        from the worker id alone.
    Fix: seed from `torch.initial_seed()`, which differs from epoch to epoch, inside the worker; or keep the workers
        with `persistent_workers=True`, if the generators also differ between workers.
    Links: https://docs.pytorch.org/docs/stable/data.html#randomness-in-multi-process-data-loading
    """
    if lab.facts.num_workers == 0:
        raise NotApplicable("num_workers=0: the main process draws on from epoch to epoch")
    for effort in range(_EFFORTS):
        draws = lab.same_items(effort)
        certain, unsure = _replays(draws)
        if certain:
            yield _finding(draws, certain)
        if not unsure or certain:
            return Looked({"draws": 2 * draws.draws, "items": draws.items, "workers": draws.workers, "epochs": 2})
    raise Undecided(f"epochs agree in {', '.join(unsure)}, but {draws.draws} draws do not exclude coincidence")


_Replays = dict[str, tuple[int, Groups]]


def _replays(draws: SameItems) -> tuple[_Replays, list[str]]:
    """Leaves that are random, and yet follow the position in the epoch: certain ones, with a worker, and doubtful."""
    certain: _Replays = {}
    unsure: list[str] = []
    for run in (draws.pinned, draws.as_is):
        for path, by in run.items():
            found = {
                worker: agreement(by.get((worker, 0), ()), by.get((worker, 1), ())) for worker in range(draws.workers)
            }
            alike = next((worker for worker, verdict in found.items() if verdict is Agreement.CERTAIN), None)
            if alike is not None:
                certain.setdefault(path, (alike, by[alike, 0]))
            elif Agreement.UNSURE in found.values():
                unsure.append(path)
    return certain, unsure


def _finding(draws: SameItems, certain: _Replays) -> Finding:
    in_samples = {path: replay for path, replay in certain.items() if path.startswith("sample")}
    leaves = in_samples or certain
    path, (worker, groups) = next(iter(leaves.items()))
    count = sum(map(len, groups))
    return Finding(
        message=f"worker {worker} drew the same {count} random values of {path} in epoch 0 and in epoch 1",
        evidence={
            "leaves": list(leaves),
            "drawn by": "collate_fn" if not in_samples else "the dataset",
            "items": list(draws.shown),
            "values drawn": len({digest for group in groups for digest in group}),
            "odds of coincidence": f"10^{log_odds(groups):.0f}",
        },
    )
