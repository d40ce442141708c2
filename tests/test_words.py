"""Messages, evidence keys, docstrings and documents use the terms of the field: a list of phrases and better words."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCUMENTS = [
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    *(path for folder in (".changelog", ".github", "docs") for path in sorted((ROOT / folder).rglob("*.md"))),
]
MODULES = sorted((ROOT / "dataguard").rglob("*.py"))

BETTER = (
    # randomness
    (r"seats?", "worker (and epoch)"),
    (r"moved? on", "advanced"),
    (r"h[au]ngs? on", "depends on"),
    (r"(held|holds?) still", "frozen"),
    (r"(run|draw|drew)s? alike", "share RNG state"),
    (r"(lies?|lay) over|hidden under", "masked by"),
    (r"wild", "uncontrolled"),
    (r"made sure", "confirmed by"),
    (r"and once(?! (under|with))", "other draw"),
    (r"drew the same(?! items)|augmented alike|made anew", "share RNG state; get the same augmentation"),
    (r"draws? on from|given ever after", "continues from; always gets"),
    # images, masks, boxes
    (r"films?", "video"),
    (r"drawn over|painted", "replaced by a chart"),
    (r"turned(?! (off|on|into))", "rotated, flipped, reversed; has an EXIF rotation"),
    (r"on (its|their) side", "rotated 90°"),
    (r"to be turned", "with an EXIF rotation"),
    (r"mirrored", "flipped"),
    (r"left to right", "horizontally"),
    (r"as it was(?! read)", "unchanged"),
    (r"cut to", "cropped to"),
    (r"stuffed", "probed by overfilling"),
    (r"blue first|files? of 16 bits", "BGR; 16-bit image"),
    # labels
    (r"numbers of (the )?classes|class numbers?", "class indices"),
    # streams, ranks, processes
    (r"(known|knows?) of", "rank-aware"),
    (r"passe?s? for an?", "emulates"),
    (r"process(es)? of (its|their|one's) own", "a separate process"),
    (r"of one's own", "your own"),
    (r"wardens?|nurser(y|ies)|janitors?|errands?|hoards?|heavies|easel", "the field's term"),
    (r"of the card", "of the GPU"),
    (r"beside computation", "overlaps compute"),
    (r"samples? by (worker|rank)", "sharded between workers, ranks"),
    (r"nobody to share|each for itself|in each other's way", "one process only; separately; contend"),
    (
        r"shorter than it says|does? not take both|nested otherwise",
        "len() is wrong; cannot be combined; another structure",
    ),
    (r"survive the way|forget that with", "survive the transfer; add an exception"),
    # verbs
    (r"told|tells", "reported, says, shows"),
    (r"(is|are) said", "is reported"),
    (r"(go|goes|going|gone|went) on", "continue"),
    (r"(come|comes|came) out", "is yielded, is returned"),
    (r"(puts?|putting) together", "collate, merge"),
    (r"(takes?|taken|took) down", "record"),
    (r"heeds?", "uses (ignores the index)"),
    (r"mend(s|ed|ing)?", "fix"),
    (r"thrown away|throws? away", "discarded"),
    (r"be had", "available"),
    (r"spoilt", "corrupted"),
    (r"astray|amiss", "wrong, unreadable"),
    (r"taken for wrong", "counts as an error"),
    # phrases
    (r"is another one", "differs"),
    (r"is no (function|image|leaf)", "is not a"),
    (r"no two reads|as far as can be seen|none the worse", "never; nothing found; still works"),
    (r"set of texts|texts", "strings"),
    (r"gone through", "iterated"),
    (r"what chance could explain", "differences within noise"),
    (r"this is no pass", "no check could run"),
    (r"play(s|ed)? (one|a|the same) part", "have the same role"),
    (r"stands? (beside|behind|there|first|in both|below)", "is next to, is in"),
    (r"in silence", "silently"),
    (r"for ever", "forever"),
    (r"anew|afresh", "again, new"),
    (r"write down where", "name it as"),
    (r"real ranks", "DDP ranks"),
)
"""A phrase, as a pattern of whole words, and what the field says instead."""
PATTERNS = [
    (re.compile(r"\b(?:" + phrase.replace(" ", r"\s+") + r")\b", re.IGNORECASE), better) for phrase, better in BETTER
]
_NAME = re.compile(r"`[^`\n]+`")


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """The texts of a file and the lines they start in: a whole document, or the string literals of a module."""
    source = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        yield 1, source
        return
    tree = ast.parse(source)
    formatted = [node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)]
    parts = {id(part) for node in formatted for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield (
                node.lineno,
                "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values),
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
            yield node.lineno, node.value


def puzzling(path: Path) -> Iterator[str]:
    """Each phrase of the list in a file, with its line and the better word; names in backticks are not prose."""
    for line, text in texts(path):
        prose = _NAME.sub(lambda name: " " * len(name[0]), text)
        for pattern, better in PATTERNS:
            for match in pattern.finditer(prose):
                at = f"{path.relative_to(ROOT)}:{line + prose.count(chr(10), 0, match.start())}"
                yield f"{at}: {match[0]!r}, better: {better}"


@pytest.mark.parametrize("path", [*DOCUMENTS, *MODULES], ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_uses_the_terms_of_the_field(path: Path) -> None:
    found = list(puzzling(path))
    assert not found, "\n".join(found)


def test_a_phrase_is_found_with_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}.ROOT", tmp_path)
    module = tmp_path / "module.py"
    module.write_text('"""A check.\n\nIt hangs\non `told` draws."""\nkey = f"{1} was drawn over"\n')
    assert list(puzzling(module)) == [
        "module.py:3: 'hangs\\non', better: depends on",
        "module.py:5: 'drawn over', better: replaced by a chart",
    ]
