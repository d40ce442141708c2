"""DG101: workers share one random stream."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import TYPE_CHECKING

from dataguard.model import Finding, Judgement, Looked, NotApplicable, Severity, Undecided, check
from dataguard.odds import Agreement, Groups, agreement, log_odds

if TYPE_CHECKING:
    from dataguard.lab import Lab
    from dataguard.lab.workers import SameItems

_EFFORTS = 3


@check("DG101", "cloned-worker-rng", Severity.ERROR)
def dg101_cloned_worker_rng(lab: Lab) -> Judgement:
    """Workers draw the same random numbers, so that augmentation diversity falls to one over the number of workers.

    Symptom: no error at all; a model that generalises a little worse than it should.
    Cause: every worker starts from a copy of one generator. torch seeds the global generators of python, numpy and
        torch for each worker, but not a generator that a dataset, transform or `collate_fn` holds, nor cv2's, nor a
        library's own; and a `worker_init_fn` that seeds a constant undoes what torch did.
    Fix: create the generator lazily inside the worker, as `numpy.random.default_rng(torch.initial_seed())`, or use a
        global generator; in `worker_init_fn`, seed from `torch.initial_seed()`, and cv2 by `cv2.setRNGSeed`.
    Links: https://docs.pytorch.org/docs/stable/data.html#randomness-in-multi-process-data-loading
    """
    if lab.facts.num_workers < 2:
        raise NotApplicable(f"num_workers={lab.facts.num_workers}: no two workers can draw alike{_latent(lab)}")
    for effort in range(_EFFORTS):
        draws = lab.same_items(effort)
        certain, unsure = _clones(draws)
        if certain:
            yield _finding(lab, draws, certain)
        if not unsure or certain:
            return Looked({"draws": draws.draws, "items": draws.items, "workers": draws.workers})
    raise Undecided(f"workers agree in {', '.join(unsure)}, but {draws.draws} draws do not exclude coincidence")


_Clones = dict[str, tuple[int, int, Groups]]


def _clones(draws: SameItems) -> tuple[_Clones, list[str]]:
    """Leaves that two workers draw alike: certain ones, with the two workers, and those that may be chance."""
    certain: _Clones = {}
    unsure: list[str] = []
    for run in (draws.pinned, draws.as_is):
        for path, by in run.items():
            found = [(_compare(by, one, two), one, two) for one, two in combinations(range(draws.workers), 2)]
            alike = next(((one, two) for verdict, one, two in found if verdict is Agreement.CERTAIN), None)
            if alike:
                certain.setdefault(path, (*alike, by[alike[0], 0]))
            elif any(verdict is Agreement.UNSURE for verdict, _, _ in found):
                unsure.append(path)
    return certain, unsure


def _compare(by: Mapping[tuple[int, int], Groups], one: int, two: int) -> Agreement:
    return agreement(by.get((one, 0), ()), by.get((two, 0), ()))


def _finding(lab: Lab, draws: SameItems, certain: _Clones) -> Finding:
    in_samples = {path: clone for path, clone in certain.items() if path.startswith("sample")}
    leaves = in_samples or certain
    path, (one, two, groups) = next(iter(leaves.items()))
    count = sum(map(len, groups))
    return Finding(
        message=(
            f"workers {one} and {two} drew the same {count} random values of {path} "
            f"for items {', '.join(draws.shown[:4])}{', ...' if draws.items > 4 else ''}"
        ),
        evidence={
            "leaves": list(leaves),
            "drawn by": "collate_fn" if not in_samples else "the dataset",
            "values drawn": len({digest for group in groups for digest in group}),
            "odds of coincidence": f"10^{log_odds(groups):.0f}",
            "start method": lab.facts.start_method,
        },
    )


def _latent(lab: Lab) -> str:
    """What two workers would do, where the user has fewer: said, but not held against the loader."""
    certain, _ = _clones(lab.same_items(num_workers=2))
    return "; two workers would: create the generator inside the worker before raising num_workers" if certain else ""
