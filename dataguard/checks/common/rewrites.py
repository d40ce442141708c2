"""The line to write in place of the one that a finding points at, where the change is known. Standard library only.

Each rewrite takes the statement of that line and returns it with the change, or None if it does not hold what is to be
changed. Names are those of the user's file, and the library is the one that the line calls.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from dataguard.core.statements import Edit, Statement

if TYPE_CHECKING:
    from dataguard.core.model import Location
    from dataguard.lab.lab import Lab

Rewrite = Callable[[Statement], "str | None"]


def rewritten(lab: Lab, at: Location | None, *rewrites: Rewrite) -> str | None:
    """The statement at a place as the first of these rewrites that applies changes it."""
    statement = lab.places.statement(at) if at and at.line else None
    if statement is None:
        return None
    return next(filter(None, (rewrite(statement) for rewrite in rewrites)), None)


def _calls_of(statement: Statement, *names: str) -> Iterator[tuple[str, ast.Call]]:
    """The calls of functions and methods whose names end so."""
    for name, call in statement.calls(statement.tree):
        if name.rpartition(".")[2] in names:
            yield name, call


def _term(statement: Statement, node: ast.AST) -> str:
    """The text of a part, in brackets where an operator beside it could take it apart."""
    text = statement.source(node)
    return f"({text})" if isinstance(node, _COMPOUND) else text


_COMPOUND = (ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Lambda, ast.NamedExpr, ast.Await)


# Interpolation ------------------------------------------------------------------------------------------------------

_OPENCV = {"resize": "interpolation", "warpAffine": "flags", "warpPerspective": "flags", "remap": "interpolation"}
_BY_INTERPOLATION = {
    *("Resize", "RandomResizedCrop", "RandomRotation", "RandomAffine", "RandomPerspective", "ElasticTransform"),
    *("resize", "resized_crop", "rotate", "affine", "perspective", "elastic"),
}
_BY_ORDER = ("scipy.ndimage", "skimage.transform")
_SMOOTH = ("BILINEAR", "BICUBIC", "LANCZOS", "BOX", "HAMMING")


def nearest(statement: Statement) -> str | None:
    """With the nearest neighbour as interpolation, where one call interpolates."""
    edits = [edit for name, call in statement.calls(statement.tree) if (edit := _by_nearest(statement, name, call))]
    return statement.edited(*edits) if len(edits) == 1 else None


def _by_nearest(statement: Statement, name: str, call: ast.Call) -> Edit | None:
    """The call, or its argument, and what is written in its place."""
    module, _, function = name.rpartition(".")
    if module == "cv2" and function in _OPENCV:
        value = statement.spelled("cv2.INTER_NEAREST")
        return call, _with_argument(statement, call, _OPENCV[function], _CV2_PLACES.get(function), value)
    if module.startswith("torchvision.transforms") and function in _BY_INTERPOLATION:
        modes = [local for local, whole in statement.imports.items() if whole.endswith(".InterpolationMode")]
        mode = f"{modes[0] if modes else statement.spelled('torchvision.transforms.InterpolationMode')}.NEAREST"
        given = [one for one in call.args if isinstance(one, ast.Attribute) and one.attr in _SMOOTH]
        return (given[0], mode) if given else (call, statement.with_keyword(call, "interpolation", mode))
    if name == "torch.nn.functional.interpolate":
        smooth = statement.without_keywords(call, "mode", "align_corners", "antialias")
        return call, f'{smooth[:-1]}, mode="nearest")'
    if module.startswith(_BY_ORDER) and function in ("zoom", "rotate", "shift", "affine_transform", "resize"):
        return call, statement.with_keyword(call, "order", "0")
    of_self = isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value) == "self"
    if (
        name in (".resize", ".rotate")
        and not of_self
        and any(whole.split(".")[0] == "PIL" for whole in statement.imports.values())
    ):
        value = f"{statement.spelled('PIL.Image')}.Resampling.NEAREST"
        return call, _with_argument(statement, call, "resample", 1, value)
    return None


_CV2_PLACES = {"remap": 3}
"""The position of an argument that is often given without its name."""


def _with_argument(statement: Statement, call: ast.Call, name: str, place: int | None, value: str) -> str:
    if place is not None and len(call.args) > place:
        return statement.with_keyword(_as_keyword(call, place, name), name, value)
    return statement.with_keyword(call, name, value)


def _as_keyword(call: ast.Call, place: int, name: str) -> ast.Call:
    """A call whose positional argument has a name, at the places of the original."""
    keyword = ast.keyword(name, call.args[place])
    return ast.copy_location(ast.Call(call.func, call.args[:place], [keyword, *call.keywords]), call)


# Values -------------------------------------------------------------------------------------------------------------


def channels_turned(statement: Statement) -> str | None:
    """Without the conversion that exchanges red and blue, or else with one of what OpenCV decodes."""
    for name, call in statement.calls(statement.tree):
        if name == "cv2.cvtColor" and len(call.args) > 1 and statement.source(call.args[1]).endswith(_TURNS):
            return statement.edited((call, statement.source(call.args[0])))
    turn, code = statement.spelled("cv2.cvtColor"), statement.spelled("cv2.COLOR_BGR2RGB")
    decoded = [call for name, call in statement.calls(statement.tree) if name in ("cv2.imread", "cv2.imdecode")]
    return statement.edited(*((call, f"{turn}({statement.source(call)}, {code})") for call in decoded))


_TURNS = ("COLOR_BGR2RGB", "COLOR_RGB2BGR")


def unscaled(statement: Statement) -> str | None:
    """With torchvision's conversion that leaves the values of a mask as they are."""
    for name, call in statement.calls(statement.tree):
        if name in ("torchvision.transforms.ToTensor", "torchvision.transforms.v2.ToTensor"):
            module = statement.source(call.func.value) + "." if isinstance(call.func, ast.Attribute) else ""
            return statement.edited((call, f"{module}PILToTensor()"))
    return None


def undivided(statement: Statement) -> str | None:
    """Without its only division by 255."""
    return statement.edited(
        *_one(
            (node, _term(statement, node.left))
            for node in ast.walk(statement.tree)
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and _is_number(node.right, 255)
        )
    )


def divided(statement: Statement) -> str | None:
    """With a division by 255 of the only value that becomes floating point there."""
    calls = list(statement.calls(statement.tree))
    unscaled_types = [
        (call, statement.with_keyword(call, "scale", "True"))
        for name, call in calls
        if name.endswith(".ToDtype") and not any(one.arg == "scale" for one in call.keywords)
    ]
    casts = [
        (call, f"{statement.source(call)} / 255")
        for name, call in calls
        if name == ".float" or (name in _CASTS and "float" in ast.unparse(call))
    ]
    return statement.edited(*_one(unscaled_types or casts))


_CASTS = (".astype", ".to", "numpy.asarray", "numpy.array")


def _one(edits: Iterable[Edit]) -> Sequence[Edit]:
    """An edit, if it is the only one: of several it is unknown which is meant."""
    found = list(edits)
    return found if len(found) == 1 else ()


def _is_number(node: ast.AST, value: float) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) in (int, float) and node.value == value


def number_replaced(wrong: float, right: float, statement: Statement) -> str | None:
    """With another number."""
    numbers = [(node, f"{right:g}") for node in ast.walk(statement.tree) if _is_number(node, wrong)]
    return statement.edited(*_one(numbers))


def unturned(statement: Statement) -> str | None:
    """Without `[::-1]`."""
    turned = [
        (node, _term(statement, node.value))
        for node in ast.walk(statement.tree)
        if isinstance(node, ast.Subscript) and ast.unparse(node.slice) == "::-1"
    ]
    return statement.edited(*turned) if turned else None


def assigned(statement: Statement) -> str | None:
    """With its result assigned to the variable that the call is given, or whose method it is."""
    call = statement.tree.value if isinstance(statement.tree, ast.Expr) else None
    if not isinstance(call, ast.Call):
        return None
    given = [one for one in call.args if isinstance(one, ast.Name)]
    owner = call.func.value if isinstance(call.func, ast.Attribute) and not given else None
    name = given[0] if given else owner
    return f"{name.id} = {statement.text}" if isinstance(name, ast.Name) else None


# Files --------------------------------------------------------------------------------------------------------------


def upright(statement: Statement) -> str | None:
    """With the EXIF orientation applied, by the library that decodes."""
    for name, call in statement.calls(statement.tree):
        if name == "PIL.Image.open":
            transposed = f"{statement.spelled('PIL.ImageOps')}.exif_transpose({statement.source(call)})"
            return statement.edited((call, transposed))
        if name.startswith("torchvision.io.") and name.rpartition(".")[2] in ("decode_image", "read_image"):
            return statement.edited((call, statement.with_keyword(call, "apply_exif_orientation", "True")))
        if name in ("cv2.imread", "cv2.imdecode"):
            flags = [one for one in call.args if statement.source(one).endswith("IMREAD_UNCHANGED")]
            return statement.edited(*((one, statement.spelled("cv2.IMREAD_COLOR")) for one in flags)) if flags else None
    return None


def in_three_channels(statement: Statement) -> str | None:
    """With the image that Pillow opens converted to RGB."""
    opened = [call for name, call in statement.calls(statement.tree) if name == "PIL.Image.open"]
    converted = any(name == ".convert" for name, _ in statement.calls(statement.tree))
    if not opened or converted:
        return None
    return statement.edited((opened[0], f'{statement.source(opened[0])}.convert("RGB")'))


# Memory -------------------------------------------------------------------------------------------------------------


def out_of_place(statement: Statement) -> str | None:
    """With a new array in place of one that is changed: `image = image / 255`, `image.mul(2)`."""
    tree = statement.tree
    if isinstance(tree, ast.AugAssign) and isinstance(tree.target, ast.Name):
        sign = statement.text[len(tree.target.id) :].lstrip().partition("=")[0].strip()
        return f"{tree.target.id} = {tree.target.id} {sign} {_term(statement, tree.value)}"
    for name, call in statement.calls(tree):
        method = name.rpartition(".")[2]
        if isinstance(call.func, ast.Attribute) and method.endswith("_") and not method.startswith("_"):
            function = f"{statement.source(call.func)[:-1]}"
            changed = function + statement.source(call)[len(function) + 1 :]
            if isinstance(tree, ast.Expr) and tree.value is call:
                changed = f"{statement.source(call.func.value)} = {changed}"
            return statement.edited((call, changed))
    return None


def copied_before(statement: Statement) -> str | None:
    """A line to put before one that writes into a part of a variable."""
    tree = statement.tree
    targets = tree.targets if isinstance(tree, ast.Assign) else [tree.target] if isinstance(tree, ast.AugAssign) else []
    for target in targets:
        if isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name):
            name = target.value.id
            return f"{name} = copy.deepcopy({name}), before this line"
    return None


# Indices and orders -------------------------------------------------------------------------------------------------


def unlimited(statement: Statement) -> str | None:
    """With the index as it is, and not modulo the length or at most the last one."""
    edits: list[Edit] = []
    for node in ast.walk(statement.tree):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) and isinstance(node.left, ast.Name):
            edits.append((node, node.left.id))
        elif isinstance(node, ast.Call) and statement.named(node.func) == "min" and len(node.args) == 2:
            edits += [(node, one.id) for one in node.args if isinstance(one, ast.Name)]
    return statement.edited(*_one(edits))


def yielding_copy(statement: Statement) -> str | None:
    """With a new list of what is yielded."""
    value = statement.tree.value if isinstance(statement.tree, ast.Expr) else None
    if not isinstance(value, ast.Yield) or not isinstance(value.value, ast.Name | ast.Attribute):
        return None
    return statement.edited((value.value, f"list({ast.unparse(value.value)})"))


_LISTINGS = ("glob", "iglob", "rglob", "iterdir", "listdir", "scandir")


def sorted_listing(statement: Statement) -> str | None:
    """With `sorted` around what lists files, unless it is sorted already."""
    inside_sorted = {
        one for name, call in statement.calls(statement.tree) if name == "sorted" for one in ast.walk(call)
    }
    edits: list[Edit] = []
    for _, call in _calls_of(statement, *_LISTINGS):
        if call not in inside_sorted:
            by_name = ", key=lambda entry: entry.name" if statement.named(call.func).endswith("scandir") else ""
            edits.append((call, f"sorted({statement.source(call)}{by_name})"))
    return statement.edited(*edits) if edits else None


def sorted_by_number(statement: Statement) -> str | None:
    """With names sorted by the last number in each."""
    for name, call in statement.calls(statement.tree):
        if name == "sorted" and call.args:
            key = r'lambda name: int(re.findall(r"\d+", str(name))[-1])'
            return statement.edited((call, statement.with_keyword(call, "key", key)))
    return None


def sorted_alike(statement: Statement) -> str | None:
    """With the settings of the first `sorted` in the others as well."""
    calls = [call for name, call in statement.calls(statement.tree) if name == "sorted" and call.args]
    calls.sort(key=lambda call: call.col_offset)
    if len({tuple(map(ast.unparse, call.keywords)) for call in calls}) < 2:
        return None
    first = next((call for call in calls if any(one.arg == "key" for one in call.keywords)), None)
    settings = "".join(f", {statement.source(one)}" for one in first.keywords) if first else ""
    edits = [(call, f"sorted({statement.source(call.args[0])}{settings})") for call in calls]
    return statement.edited(*[edit for edit in edits if edit[1] != statement.source(edit[0])])


def cut_at_one_place(statement: Statement) -> str | None:
    """With the second part of each table cut where the first ends: `rows[:cut], rows[cut:]`."""
    heads: dict[str, str] = {}
    edits: list[Edit] = []
    slices = [node for node in ast.walk(statement.tree) if isinstance(node, ast.Subscript)]
    for node in sorted(slices, key=lambda node: node.col_offset):
        part = node.slice
        if not isinstance(part, ast.Slice) or part.step:
            continue
        table = statement.source(node.value)
        if part.upper and not part.lower:
            heads.setdefault(table, statement.source(part.upper))
        elif part.lower and not part.upper and table in heads and statement.source(part.lower) != heads[table]:
            edits.append((part, f"{heads[table]}:"))
    return statement.edited(*edits) if edits else None


# Loaders, workers and ranks -----------------------------------------------------------------------------------------


def with_setting(name: str, value: str, statement: Statement) -> str | None:
    """With another value of an argument that is given, or else with one more argument of the DataLoader."""
    for _, call in statement.calls(statement.tree):
        if any(one.arg == name for one in call.keywords):
            return statement.edited((call, statement.with_keyword(call, name, value)))
    for _, call in _calls_of(statement, "DataLoader"):
        if not {one.arg for one in call.keywords} & {*_EXCLUDED[name], None}:
            return statement.edited((call, statement.with_keyword(call, name, value)))
    return None


_EXCLUDED = {"shuffle": ("sampler", "batch_sampler"), "drop_last": ("batch_sampler",)}
"""Arguments that torch takes in place of one; `**settings` may hold any."""


def without_setting(name: str, statement: Statement) -> str | None:
    """Without an argument of whatever is called."""
    for _, call in statement.calls(statement.tree):
        if any(one.arg == name for one in call.keywords):
            return statement.edited((call, statement.without_keywords(call, name)))
    return None


shuffled: Rewrite = partial(with_setting, "shuffle", "True")
cut: Rewrite = partial(with_setting, "drop_last", "True")
uncut: Rewrite = partial(without_setting, "drop_last")


def shared_among_workers(statement: Statement) -> str | None:
    """With every n-th item of what is iterated for each of n workers, unless each draws an order of its own."""
    loops = [node.iter for node in ast.walk(statement.tree) if isinstance(node, ast.For | ast.comprehension)]
    if not loops or any(True for _ in _calls_of(_part(statement, loops[0]), *_RANDOM)):
        return None
    items = loops[0]
    source = statement.source(items)
    if isinstance(items, ast.Call) and statement.named(items.func) == "range":
        part = f"{source}[worker::workers]"
    else:
        part = f"{statement.spelled('itertools.islice')}({source}, worker, None, workers)"
    changed = statement.edited((items, part))
    info = f"{statement.spelled('torch.utils.data.get_worker_info')}()"
    return changed and f"{changed}  # with worker, workers = (i.id, i.num_workers) if (i := {info}) else (0, 1)"


_RANDOM = ("randperm", "permutation", "permuted", "shuffled", "sample", "choice", "choices", "multinomial", "randint")


def _part(statement: Statement, node: ast.AST) -> Statement:
    return replace(statement, text=statement.source(node))


def even_parts(statement: Statement) -> str | None:
    """With a part of the same size for each rank: what is left over is dropped."""
    edits: list[Edit] = []
    for node in ast.walk(statement.tree):
        if isinstance(node, ast.Call) and statement.named(node.func) == "range" and len(node.args) == 3:
            last, step = (_term(statement, one) for one in node.args[1:])
            edits.append((node.args[1], f"{last} // {step} * {step}"))
        elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice) and node.slice.step:
            table, step = _term(statement, node.value), _term(statement, node.slice.step)
            first = statement.source(node.slice.lower) if node.slice.lower else ""
            if not node.slice.upper and first:
                edits.append((node, f"{table}[{first} : len({table}) // {step} * {step} : {step}]"))
    return statement.edited(*_one(edits))


def shared_among_ranks(statement: Statement) -> str | None:
    """With a sampler that gives each rank its own part."""
    for _, call in _calls_of(statement, "DataLoader"):
        keywords = {one.arg: one.value for one in call.keywords}
        if not call.args or {"sampler", "batch_sampler", None} & keywords.keys():
            return None
        shuffle = statement.source(keywords["shuffle"]) if "shuffle" in keywords else "False"
        data = statement.source(call.args[0])
        held = data if isinstance(call.args[0], ast.Name | ast.Attribute) else "dataset"
        given = [data if held == data else f"{held} := {data}"]
        given += [statement.source(one) for one in call.args[1:]]
        ranks = "".join(
            f", {argument}={own}"
            for argument, own in (("num_replicas", "world_size"), ("rank", "rank"))
            if {"rank", "world_size"} <= set(statement.parameters)
        )
        distributed = statement.spelled("torch.utils.data.DistributedSampler")
        given += [f"sampler={distributed}({held}{ranks}, shuffle={shuffle})"]
        given += [statement.source(one) for one in call.keywords if one.arg != "shuffle"]
        return statement.edited((call, f"{statement.source(call.func)}({', '.join(given)})"))
    return None


_SEEDED = ("manual_seed", "seed", "default_rng", "RandomState", "Random", "PCG64")


def reseeded(statement: Statement) -> str | None:
    """With a seed from torch's global generator, as torch's own samplers draw it."""
    drawn = f"int({statement.spelled('torch.randint')}(2**31, ()))"
    calls = [call for _, call in _calls_of(statement, *_SEEDED) if len(call.args) + len(call.keywords) == 1]
    return statement.edited(*_one(((*call.args, *(one.value for one in call.keywords))[0], drawn) for call in calls))


def seeded_by_rank(statement: Statement) -> str | None:
    """With a seed of its own for each rank."""
    number = "rank" if "rank" in statement.parameters else f'int({statement.spelled("os.environ")}.get("RANK", 0))'
    seeds = [
        call.args[0]
        for _, call in _calls_of(statement, *_SEEDED)
        if len(call.args) == 1 and "rank" not in ast.unparse(call.args[0])
    ]
    return statement.edited(
        *_one(
            (seed, f"{'' if _is_number(seed, 0) else _term(statement, seed) + ' + '}1000 * {number}") for seed in seeds
        )
    )
