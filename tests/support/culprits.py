"""Lines to change: those of samples that are marked with `# culprit`, and the findings that point at them."""

from __future__ import annotations

from pathlib import Path

from dataguard.core.model import Finding

ROOT = Path(__file__).parents[2]
MARK = "# culprit"
FOLLOWED = (
    *("DG101", "DG102", "DG103", "DG105", "DG106", "DG107", "DG108"),
    *("DG201", "DG202", "DG203", "DG204", "DG205", "DG206", "DG207", "DG209", "DG210", "DG212"),
    *("DG301", "DG302", "DG303", "DG305", "DG306", "DG307", "DG308", "DG309", "DG312", "DG411"),
    *("DG401", "DG402", "DG403", "DG406", "DG407", "DG409", "DG410", "DG412"),
    *("DG421", "DG422", "DG423", "DG424", "DG425", "DG426", "DG427", "DG430"),
    *("DG501", "DG502", "DG503", "DG504", "DG505", "DG506", "DG507", "DG508", "DG509", "DG510", "DG511", "DG512"),
    *("DG514", "DG515", "DG516", "DG517", "DG518", "DG519", "DG520", "DG521", "DG522", "DG523", "DG524", "DG525"),
    *("DG526", "DG527", "DG528", "DG531", "DG532", "DG533", "DG534", "DG602", "DG604", "DG701"),
)
"""Checks whose findings point at a line to change."""
MISSED = {
    "DG410-bad_twice": "labels two tokens on are not followed: the place is the dataset's",
    "DG422-bad_places": "placed where the mask is padded, one line below",
    "DG427-bad_padding_item": "the row is seen when it is cut, after the items were numbered",
    "DG508-bad_folder": "placed where the dataset is made, as every finding about a library's dataset",
    "DG604-bad_descriptor": "no container holds the files that stay open, so that no line adds one",
    "DG517-bad_entropy_once.val": "the number is drawn at the first read, so that no two reads of a process differ",
    "DG525-bad_keys": "keys of HDF5 are sorted in `__getitem__`: no list of files shows the line",
    "DG105-bad_view_beside": "placed at the DataLoader's line: what is sent is made when workers take it apart",
    "DG202-bad_group_spawned": "placed where ranks share out, one line below that which asks for the rank",
    "DG209-bad_manual": "the loader's own `__iter__` skips, and is not followed",
    "DG402-bad_labels": "placed one line below, where rows are zipped",
    "DG402-bad_range": "the same",
    **dict.fromkeys(("DG406-bad_scores", "DG406-bad_target"), "numbers have no dtype before they are collated"),
    **dict.fromkeys(("DG506-bad_stacked", "DG507-bad_stacked"), "the first line that handles a stack is named"),
    "DG508-bad_astray": "placed where the file is decoded, one line above that which turns the image",
    "DG509-bad_coarse": "placed where the file is decoded; the flag comes from the line that calls",
    **dict.fromkeys(("DG511-bad_jpeg", "DG511-bad_jpeg_classes", "DG511-bad_jpeg_clipped"), "files are to blame"),
    **dict.fromkeys(
        ("DG512-bad_memory_mosaic", "DG512-bad_tiles"), "four images become one, of which none is followed"
    ),
    **dict.fromkeys(
        ("DG514-bad_samplers.val", "DG514-bad_windows.val", "DG514-bad_windows_of_channels.val"),
        "placed where the split is assigned; the numbers of its rows come from the line that calls",
    ),
    **dict.fromkeys(
        ("DG515-bad_logarithm.val", "DG515-bad_gain.val", "DG515-bad_rate.val"),
        "placed where the split is assigned; its function comes from the line that calls",
    ),
    "DG515-bad_depth.val": "placed where the sample is returned, three lines below the division",
    "DG521-bad_mean.val": "placed where the rows are divided, one line above the mean",
    "DG524-bad_archive": "placed where the archive is written, and not where it is listed",
    "DG526-bad_members": "placed where the window is returned, one line below",
    "DG532-bad_kept": "recordings are decoded in the factory, and not when a sample is read",
    "DG701-bad_order": "placed where the generator is made, which gets another seed later",
}
"""Faces whose place is another one, and why."""


def is_followed(code: str, face: str) -> bool:
    """Whether the findings about a face, such as `bad` or `bad.val` of two loaders, point at a marked line."""
    return code in FOLLOWED and face.startswith("bad") and f"{code}-{face}" not in MISSED


def line_of(finding: Finding, root: str) -> str:
    """The line of the sample's source that a finding points at."""
    assert finding.at is not None, finding
    assert finding.at.file, finding
    assert finding.at.line, finding
    return source_at(ROOT / Path(finding.at.file).relative_to(root), finding.at.line)


def source_at(file: Path, line: int) -> str:
    return file.read_text(encoding="utf-8").splitlines()[line - 1]
