"""Loaders of which the contract says what their labels and boxes mean."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils.data import DataLoader

from sample_datasets import dg502_label_out_of_range as ranges
from sample_datasets import dg503_label_form as forms
from sample_datasets import dg504_blank_sample as blanks
from sample_datasets._parts import Pictures, picture


class Columns(Pictures):
    """Pictures with boxes as lists of four, in a dictionary."""

    def __getitem__(self, index: int) -> Any:
        return {"image": picture(index, 24, 24), "box": torch.tensor([4.0, 5.0, 20.0, 4.0 + index % 16])}


def single_boxes() -> DataLoader[Any]:
    """One box for each picture, some of which have their corners the wrong way round."""
    return DataLoader(Columns(16), batch_size=4)


everything = {
    "labelled": ranges.good,
    "unlabelled": ranges.good_unlabelled,
    "void": ranges.good_void,
    "background": ranges.good_background,
    "words": ranges.good_tokens,
    "shares": forms.good_shares,
    "several": forms.good_several,
    "masks": forms.good_channels,
    "corners": blanks.good_negatives,
    "relative": blanks.good_shares,
    "single": single_boxes,
}
