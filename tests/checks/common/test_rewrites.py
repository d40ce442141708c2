"""The line to write in place of another: with the names of the user's file, and none where it is not known."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from dataguard.checks.common import rewrites as R
from dataguard.core.statements import Statement, statement_at

IMPORTS = {
    "cv2": "cv2",
    "np": "numpy",
    "F": "torch.nn.functional",
    "TF": "torchvision.transforms.functional",
    "T": "torchvision.transforms",
    "ndi": "scipy.ndimage",
    "Image": "PIL.Image",
    "InterpolationMode": "torchvision.transforms.InterpolationMode",
    "torch": "torch",
    "os": "os",
}
STATISTICS = partial(R.number_replaced, 0.255, 0.225)


@pytest.mark.parametrize(
    ("rewrite", "text", "expected"),
    [
        (R.nearest, "m = cv2.resize(m, size)", "m = cv2.resize(m, size, interpolation=cv2.INTER_NEAREST)"),
        (R.nearest, "m = cv2.remap(m, x, y, cv2.INTER_CUBIC)", "m = cv2.remap(m, x, y, cv2.INTER_NEAREST)"),
        (R.nearest, "m = cv2.warpAffine(m, a, s, flags=1)", "m = cv2.warpAffine(m, a, s, flags=cv2.INTER_NEAREST)"),
        (R.nearest, "m = TF.rotate(m, 3)", "m = TF.rotate(m, 3, interpolation=InterpolationMode.NEAREST)"),
        (R.nearest, "m = TF.resize(m, s, InterpolationMode.BICUBIC)", "m = TF.resize(m, s, InterpolationMode.NEAREST)"),
        (R.nearest, "T.Resize((4, 4)),", "T.Resize((4, 4), interpolation=InterpolationMode.NEAREST),"),
        (
            R.nearest,
            'm = F.interpolate(m, scale_factor=2, mode="bilinear", align_corners=False)',
            'm = F.interpolate(m, scale_factor=2, mode="nearest")',
        ),
        (R.nearest, "m = ndi.zoom(m, 2)", "m = ndi.zoom(m, 2, order=0)"),
        (R.nearest, "m = m.resize(size)", "m = m.resize(size, resample=Image.Resampling.NEAREST)"),
        (R.nearest, "m = m.resize(size, Image.BILINEAR)", "m = m.resize(size, Image.Resampling.NEAREST)"),
        (R.nearest, "image, m = cv2.resize(image, s), cv2.resize(m, s)", None),
        (R.nearest, "m = self.resize(m)", None),
        (R.unscaled, "T.Compose([T.ToTensor()])", "T.Compose([T.PILToTensor()])"),
        (R.channels_turned, "x = cv2.imread(p)", "x = cv2.cvtColor(cv2.imread(p), cv2.COLOR_BGR2RGB)"),
        (R.channels_turned, "x = cv2.cvtColor(x, cv2.COLOR_BGR2RGB)", "x = x"),
        (R.channels_turned, "x = Image.open(p)", None),
        (R.undivided, "x = (a + b) / 255 * c", "x = (a + b) * c"),
        (R.undivided, "x = a / 255 - b / 255", None),
        (R.divided, "return x.float(), y", "return x.float() / 255, y"),
        (R.divided, "return x.float(), y.float()", None),
        (STATISTICS, "Normalize(M, (0.229, 0.224, 0.255))", "Normalize(M, (0.229, 0.224, 0.225))"),
        (R.unturned, "Normalize(M[::-1], S[::-1])", "Normalize(M, S)"),
        (R.out_of_place, "x /= a + b", "x = x / (a + b)"),
        (R.out_of_place, "x.mul_(2)", "x = x.mul(2)"),
        (R.out_of_place, "return x.clamp_(0, 1), y", "return x.clamp(0, 1), y"),
        (R.out_of_place, "self.x *= 2", None),
        (R.copied_before, "x[0] = 1", "x = copy.deepcopy(x), before this line"),
        (R.unlimited, "return self.rows[i % len(self.rows)]", "return self.rows[i]"),
        (R.unlimited, "return self.rows[min(i, len(self) - 1)]", "return self.rows[i]"),
        (R.unlimited, 'return open("%d" % i)', None),
        (R.sorted_listing, "x = os.listdir(p)", "x = sorted(os.listdir(p))"),
        (R.sorted_listing, "x = sorted(os.listdir(p))", None),
        (
            R.sorted_by_number,
            "x = sorted(y)",
            r'x = sorted(y, key=lambda name: int(re.findall(r"\d+", str(name))[-1]))',
        ),
        (R.sorted_alike, "f(sorted(a, key=k), sorted(b))", "f(sorted(a, key=k), sorted(b, key=k))"),
        (R.sorted_alike, "f(sorted(a, reverse=True), sorted(b))", "f(sorted(a), sorted(b))"),
        (R.sorted_alike, "f(sorted(a), sorted(b))", None),
        (R.cut_at_one_place, "a, b = rows[:cut], rows[cut - 10 :]", "a, b = rows[:cut], rows[cut:]"),
        (R.cut_at_one_place, "a, b = rows[:cut], others[cut - 10 :]", None),
        (R.shuffled, "x = DataLoader(d, 4)", "x = DataLoader(d, 4, shuffle=True)"),
        (R.shuffled, "x = DataLoader(d, shuffle=False)", "x = DataLoader(d, shuffle=True)"),
        (R.shuffled, "x = DataLoader(d, sampler=s)", None),
        (R.shuffled, "x = DataLoader(d, **settings)", None),
        (R.uncut, "x = DataLoader(d, drop_last=True)", "x = DataLoader(d)"),
        (
            R.shared_among_workers,
            "for x in self.rows:",
            "for x in itertools.islice(self.rows, worker, None, workers):  # with worker, workers = "
            "(i.id, i.num_workers) if (i := torch.utils.data.get_worker_info()) else (0, 1)",
        ),
        (R.shared_among_workers, "for x in torch.randperm(16):", None),
        (R.shared_among_workers, "return x", None),
        (
            R.shared_among_ranks,
            "x = DataLoader(d, 4, shuffle=True)",
            "x = DataLoader(d, 4, sampler=torch.utils.data.DistributedSampler(d, shuffle=True))",
        ),
        (R.even_parts, "x = range(rank, n + 1, size)", "x = range(rank, (n + 1) // size * size, size)"),
        (R.even_parts, "x = rows[rank::size]", "x = rows[rank : len(rows) // size * size : size]"),
        (R.reseeded, "g.manual_seed(7)", "g.manual_seed(int(torch.randint(2**31, ())))"),
        (R.seeded_by_rank, "torch.manual_seed(0)", 'torch.manual_seed(1000 * int(os.environ.get("RANK", 0)))'),
        (R.seeded_by_rank, "torch.manual_seed(3 + rank)", None),
    ],
)
def test_a_line_is_written_in_place_of_another(rewrite: R.Rewrite, text: str, expected: str | None) -> None:
    assert rewrite(Statement(text, IMPORTS)) == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (3, "for row in rows:"),
        (4, "größe = f(row)"),
        (6, "row,"),
        (7, "g(a=[\n1]),"),
        (9, None),
        (10, 'x = """a\nb"""'),
    ],
)
def test_a_statement_is_read_without_its_comment(line: int, expected: str | None, tmp_path: Path) -> None:
    file = tmp_path / "data.py"
    file.write_text(
        "import cv2 as c\ndef load(rows, rank):\n    for row in rows:  # all # of them\n        größe = f(row)  # one\n"
        '    return h(\n        row,  # the first\n        g(a=[\n1]),\n    )\nx = """a\nb"""\n',
        encoding="utf-8",
    )
    statement = statement_at(str(file), line)
    if expected is None or line in (7, 10):
        assert statement is None or "\n" not in statement.text
    else:
        assert statement is not None
        assert statement.text == expected
        assert statement.imports == {"c": "cv2"}
        assert statement.parameters == ["rows", "rank"]
