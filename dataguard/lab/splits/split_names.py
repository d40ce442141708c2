"""Which loaders of a target are splits of one dataset, by their names."""

from __future__ import annotations

import re

from dataguard.incident import LoaderFailed
from dataguard.lab.subject import Subject
from dataguard.settings.role_names import spelled_role


def are_splits(one: Subject, two: Subject) -> bool:
    """Whether the names of two loaders do not denote different folds or datasets.

    Loaders of separate factories belong together if the factories' names contain their roles.
    """
    targets = {one.target.name, two.target.name}
    if len(targets) > 1 and not all(map(spelled_role, targets)):
        return False
    try:
        first, second = _name_stem(one.facts.name), _name_stem(two.facts.name)
    except LoaderFailed:
        return False
    return first == second or not first or not second


def _name_stem(name: str) -> tuple[str, ...]:
    """The words and numbers of a loader's name without those for its role or for a loader."""
    words = [word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+|\d+", name)]
    return tuple(word for word in words if not _COMMON.fullmatch(word))


_COMMON = re.compile(
    r"train(ing)?|fit|val(id(ation)?)?|eval(uation)?|dev|test(ing)?|predict(ion)?|infer(ence)?|"
    r"(data)?loaders?|data(set)?s?|dl|ds|set|split"
)
