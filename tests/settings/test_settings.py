"""Settings: every key, every layer, every way to get one wrong, and the same reach from every front door."""

from __future__ import annotations

import re
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from dataguard.checks import CATALOGUE as EVERY
from dataguard.core.model import RUNNING, Severity, Status, UsageError
from dataguard.engine import scan
from dataguard.settings.settings import (
    UNREADABLE,
    Settings,
    chosen,
    expectation,
    require_known,
    resolve,
    unselected,
)
from tests.support.sample_reports import CATALOGUE

GOOD: dict[str, tuple[Any, Any]] = {
    "targets": (["mypkg.data:make", "val=mypkg.data:val"], ("mypkg.data:make", "val=mypkg.data:val")),
    "pythonpath": (["."], (".",)),
    "select": (["DG101", "DG4, ragged-collate"], ("DG101", "DG4", "ragged-collate")),
    "ignore": ("DG406", ("DG406",)),
    "samples": (12, 12),
    "budget": (1.5, 1.5),
    "all": (True, True),
    "pictures": (True, True),
    "timeout": (3, 3.0),
    "import_timeout": (9, 9.0),
    "seed": (0, 0),
    "workers": (0, 0),
    "start_method": ("spawn", "spawn"),
    "ranks": (2, 2),
    "model": ("a:net(depth=3)", "a:net(depth=3)"),
    "loss": ("torch.nn:MSELoss", "torch.nn:MSELoss"),
    "step": ("a:step", "a:step"),
    "checks": ("2026.1", "2026.1"),
    "fail_on": ("error", Severity.ERROR),
    "fail_on_undecided": (True, True),
    "expect": ({"DG401": "depth maps are not RGB"}, {"DG401": "depth maps are not RGB"}),
    "baseline": ("known.json", "known.json"),
    "roles": ({"a": "train"}, {"a": "train"}),
    "contract": ({"num_classes": 10}, {"num_classes": 10}),
    "hypothesis": ({"seed": 3, "database": ".examples"}, {"seed": 3, "database": ".examples"}),
    "overrides": ({"val": {"import-timeout": 9}}, {"val": {"import_timeout": 9.0}}),
}
NEEDED = {key: {"model": "a:net"} for key in ("loss", "step")}
"""What a key is refused without."""
BAD: list[tuple[str, Any, str]] = [
    ("targets", 3, "expected a list of targets, got 3"),
    ("pythonpath", 3, "expected a list of strings"),
    ("pythonpath", ["scr"], "no such folder: "),
    ("select", ["DG101", 4], "expected a list of strings"),
    ("ignore", {"DG101": True}, "expected a list of strings"),
    ("samples", 0, "expected an integer of at least 1, got 0"),
    ("samples", True, "expected an integer"),
    ("samples", 1.5, "expected an integer"),
    ("samples", "many", "expected an integer"),
    ("all", "yes", "expected true or false, got 'yes'"),
    ("pictures", "yes", "expected true or false"),
    ("budget", 0, "expected a positive number of seconds, got 0"),
    ("budget", float("inf"), "expected at most 10000000 seconds"),
    ("budget", True, "expected a positive number of seconds"),
    ("timeout", "nan", "expected a positive number of seconds"),
    ("timeout", [], "expected a positive number of seconds"),
    ("seed", -1, "expected an integer of at least 0, got -1"),
    ("workers", "-1", "expected an integer of at least 0"),
    ("start_method", "forks", "did you mean 'fork'?"),
    ("ranks", 0, "expected an integer of at least 1"),
    ("model", "net.py", "write pkg.mod:factory"),
    ("model", 3, "expected text"),
    ("loss", "a:loss", "--loss requires --model"),
    ("step", "a:step", "--step requires --model"),
    ("checks", "", "expected text"),
    ("fail_on_undecided", "yes", "expected true or false"),
    ("fail_on", "warn", "did you mean 'warning'?"),
    ("expect", ["DG401"], "expected a table"),
    ("expect", {"DG401": ""}, "a reason is required"),
    ("expect", {"DG401": "  "}, "a reason is required"),
    ("expect", {"DG401": True}, "a reason is required"),
    ("baseline", 3, "expected text"),
    ("roles", {"a": "training"}, "did you mean 'train'?"),
    ("roles", "train", "expected a table"),
    ("contract", {"chanels": "RGB"}, "did you mean 'channels'?"),
    ("hypothesis", {"sed": 3}, "did you mean 'seed'?"),
    ("hypothesis", {"seed": 0.5}, "expected an integer of at most 64 bits, got 0.5"),
    ("hypothesis", {"database": ""}, "expected text"),
]


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_every_key_has_an_example_here() -> None:
    assert set(GOOD) == {field.name for field in fields(Settings)}


@pytest.mark.parametrize("key", GOOD)
def test_a_good_value_is_kept(key: str, tmp_path: Path) -> None:
    given, parsed = GOOD[key]
    assert getattr(resolve(start=tmp_path, **NEEDED.get(key, {}), **{key: given}), key) == parsed


@pytest.mark.parametrize(("key", "value", "message"), BAD, ids=[f"{key}={value!r}" for key, value, _ in BAD])
def test_a_bad_value_is_refused_by_name(key: str, value: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as refused:
        resolve(start=tmp_path, **{key: value})
    assert key in str(refused.value)
    assert message in str(refused.value)


def test_without_anything_the_defaults_hold(tmp_path: Path) -> None:
    assert resolve(start=tmp_path) == Settings()


def test_text_from_a_command_line_counts_as_a_number(tmp_path: Path) -> None:
    settings = resolve(start=tmp_path, samples="8", budget="2.5", workers="0")
    assert (settings.samples, settings.budget, settings.workers) == (8, 2.5, 0)


def test_an_option_that_is_none_leaves_the_file_alone(tmp_path: Path) -> None:
    write(tmp_path / "dataguard.toml", "samples = 7\nseed = 3\n")
    settings = resolve(start=tmp_path, samples=None, seed=4)
    assert (settings.samples, settings.seed) == (7, 4)


def test_every_key_can_stand_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = """
        targets = ["mypkg.data:make", "val=mypkg.data:val"]
        pythonpath = "."
        select = ["DG101", "DG4, ragged-collate"]
        ignore = "DG406"
        samples = 12
        all = true
        pictures = true
        budget = 1.5
        timeout = 3
        import_timeout = 9
        seed = 0
        workers = 0
        start-method = "spawn"
        ranks = 2
        model = "a:net(depth=3)"
        loss = "torch.nn:MSELoss"
        step = "a:step"
        checks = "2026.1"
        fail_on = "error"
        fail_on_undecided = true
        baseline = "known.json"
        [expect]
        DG401 = "depth maps are not RGB"
        [roles]
        a = "train"
        [contract]
        num_classes = 10
        [hypothesis]
        seed = 3
        database = ".examples"
        [overrides.val]
        import-timeout = 9
    """
    expected = {key: parsed for key, (_, parsed) in GOOD.items()} | {"baseline": str(tmp_path / "known.json")}
    assert resolve(write(tmp_path / "any.toml", text)) == Settings(**expected)


class TestFiles:
    def test_pyproject_is_read_from_its_table_only(self, tmp_path: Path) -> None:
        write(tmp_path / "pyproject.toml", "[project]\nname = 'x'\n[tool.dataguard]\nsamples = 5\n")
        assert resolve(start=tmp_path).samples == 5

    def test_dataguard_toml_goes_before_pyproject(self, tmp_path: Path) -> None:
        write(tmp_path / "pyproject.toml", "[tool.dataguard]\nsamples = 5\nseed = 5\n")
        write(tmp_path / "dataguard.toml", "samples = 6\n")
        assert (resolve(start=tmp_path).samples, resolve(start=tmp_path).seed) == (6, Settings().seed)

    def test_a_folder_above_counts_and_a_pyproject_without_our_table_does_not_stop_the_search(
        self, tmp_path: Path
    ) -> None:
        write(tmp_path / "pyproject.toml", "[tool.dataguard]\nsamples = 5\n")
        write(tmp_path / "a" / "pyproject.toml", "[project]\nname = 'x'\n")
        (tmp_path / "a" / "b").mkdir()
        assert resolve(start=tmp_path / "a" / "b").samples == 5

    def test_the_nearest_folder_wins(self, tmp_path: Path) -> None:
        write(tmp_path / "dataguard.toml", "samples = 5\n")
        write(tmp_path / "a" / "dataguard.toml", "samples = 6\n")
        assert resolve(start=tmp_path / "a").samples == 6

    def test_the_current_folder_is_where_the_search_starts(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write(tmp_path / "dataguard.toml", "samples = 5\n")
        monkeypatch.chdir(tmp_path)
        assert resolve().samples == 5

    def test_a_named_file_replaces_the_search(self, tmp_path: Path) -> None:
        write(tmp_path / "dataguard.toml", "samples = 5\n")
        named = write(tmp_path / "other" / "pyproject.toml", "[tool.dataguard]\nseed = 9\n")
        settings = resolve(named, start=tmp_path)
        assert (settings.samples, settings.seed) == (256, 9)

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("sample = 5\n", "unknown setting 'sample'; did you mean 'samples'?"),
            ("zzz = 5\n", "unknown setting 'zzz'; known: targets"),
            ("samples = \n", "Invalid value"),
            ('[expect]\nDG401 = ""\n', "a reason is required"),
        ],
    )
    def test_what_is_wrong_is_said_with_the_file(self, text: str, message: str, tmp_path: Path) -> None:
        path = write(tmp_path / "dataguard.toml", text)
        with pytest.raises(UsageError) as refused:
            resolve(start=tmp_path)
        assert str(path) in str(refused.value)
        assert message in str(refused.value)

    def test_a_table_that_is_none_is_refused(self, tmp_path: Path) -> None:
        path = write(tmp_path / "pyproject.toml", "[tool]\ndataguard = 3\n")
        with pytest.raises(UsageError, match="must be a table"):
            resolve(path)

    def test_a_named_file_must_exist(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="no such file"):
            resolve(tmp_path / "none.toml")

    def test_bytes_that_are_no_text_are_an_error_of_usage(self, tmp_path: Path) -> None:
        path = tmp_path / "dataguard.toml"
        path.write_bytes(b"samples = 5 # \xff\n")
        with pytest.raises(UsageError, match=r"dataguard\.toml"):
            resolve(path)


class TestChosen:
    @pytest.mark.parametrize(
        ("select", "ignore", "codes"),
        [
            ((), (), ["DG101", "DG401", "DG406", "DG803"]),
            (("DG4",), (), ["DG401", "DG406"]),
            (("DG803", "cloned-worker-rng"), (), ["DG101", "DG803"]),
            (("DG101-cloned-worker-rng",), (), ["DG101"]),
            (("DG4",), ("DG406",), ["DG401"]),
            ((), ("DG",), []),
        ],
    )
    def test_words_choose_in_the_order_of_the_catalogue(
        self, select: tuple[str, ...], ignore: tuple[str, ...], codes: list[str]
    ) -> None:
        settings = Settings(select=select, ignore=ignore)
        assert [check.code for check in chosen(CATALOGUE, settings)] == codes

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            (Settings(select=("DG999",)), "select: unknown check 'DG999'"),
            (Settings(select=("cloned-workers-rng",)), "did you mean 'cloned-worker-rng'?"),
            (Settings(ignore=("nothing",)), "ignore: unknown check 'nothing'"),
            (Settings(expect={"DG402[val]": "x"}), "expect: unknown check 'DG402'"),
        ],
    )
    def test_a_word_that_names_no_check_is_an_error(self, settings: Settings, message: str) -> None:
        with pytest.raises(UsageError) as refused:
            chosen(CATALOGUE, settings)
        assert message in str(refused.value)

    def test_whether_a_loader_runs_is_asked_whatever_is_selected(self) -> None:
        running = tuple(replace(CATALOGUE[0], code=code, name=code) for code in RUNNING)
        every = (*running, *CATALOGUE)
        assert unselected(every, Settings()) == ()
        assert unselected(every, Settings(select=("DG101",))) == running
        assert unselected(every, Settings(select=("DG002",), ignore=("DG1",))) == (running[0], running[2])
        assert unselected(every, Settings(ignore=("DG003",))) == running[2:]

    def test_samples_that_raise_are_listed_wherever_all_are_read(self) -> None:
        codes = [{one.code for one in chosen(EVERY, Settings(select=("DG0",), all=whole))} for whole in (False, True)]
        assert codes[1] - codes[0] == {UNREADABLE}
        assert not chosen(EVERY, Settings(select=("DG513",), ignore=("DG5",), all=True))

    def test_an_expectation_is_for_all_loaders_or_for_one_and_the_one_goes_first(self) -> None:
        settings = Settings(expect={"DG401": "all", "ragged-collate[val]": "only val"})
        assert expectation(settings, CATALOGUE[1], "val") == "only val"
        assert expectation(settings, CATALOGUE[1], "train") == "all"
        assert expectation(settings, CATALOGUE[0], "train") is None


@pytest.mark.parametrize(
    ("settings", "setting"),
    [
        (Settings(roles={"trian": "train"}), "roles.trian"),
        (Settings(expect={"DG301[trian]": "x"}), r"expect.DG301\[trian\]"),
    ],
)
def test_a_misspelled_loader_is_an_error(settings: Settings, setting: str) -> None:
    with pytest.raises(UsageError, match=rf"{setting}: no loader named 'trian'; did you mean 'train'\?"):
        require_known(settings, ("train", "val"))


@pytest.mark.parametrize(
    "settings",
    [
        Settings(roles={"holdout": "val"}),
        Settings(roles={"val": "val", "val2": "val"}, expect={"DG403": "x", "DG401[train]": "y"}),
        Settings(expect={"DG301[holdout]": "of another target", "DG301[val]": "y"}),
    ],
)
def test_a_name_that_resembles_no_loader_may_belong_to_another_target(settings: Settings) -> None:
    require_known(settings, ("train", "val"))


def test_a_target_has_settings_of_its_own(tmp_path: Path) -> None:
    file = tmp_path / "dataguard.toml"
    file.write_text(
        'targets = ["speech=a:b", "text=c:d"]\nbudget = 50\nroles = {"text.all" = "val", other = "test"}\n'
        'expect = {"DG401[text.all]" = "ragged"}\n'
        '[overrides.speech]\nbudget = 9\nstart-method = "spawn"\nroles = {main = "train"}\nexpect = {DG403 = "one"}\n'
    )
    settings = resolve(file)
    speech, text = settings.of_target("speech=a:b"), settings.of_target("text=c:d")
    assert (speech.budget, speech.start_method, text.budget, text.start_method) == (9, "spawn", 50, None)
    assert (speech.roles["main"], text.roles["all"], text.roles["other"]) == ("train", "val", "test")
    assert (speech.expect["DG403"], text.expect["DG401[all]"]) == ("one", "ragged")
    assert "main" not in text.roles
    assert "all" not in speech.roles
    asked = resolve(file, budget=5, roles={"main": "test"}).of_target("speech=a:b")
    assert (asked.budget, asked.roles["main"], asked.expect["DG403"]) == (5, "test", "one")


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("[overrides.speach]\nbudget = 9", "overrides.speach: no target of this name; did you mean 'speech'"),
        ("[overrides.speech]\nselect = 'DG1'", "overrides.speech: unknown key 'select'"),
        ("[overrides.speech]\nbudget = -1", "overrides.speech.budget: expected"),
    ],
)
def test_wrong_settings_of_a_target_are_errors(tmp_path: Path, table: str, message: str) -> None:
    (tmp_path / "dataguard.toml").write_text(f'targets = ["speech=a:b"]\n{table}\n')
    with pytest.raises(UsageError, match=re.escape(message)):
        resolve(tmp_path / "dataguard.toml")


def of_set(name: str | None) -> dict[str, Severity]:
    """The checks of a set, where one is of the first, two came with a second and one with a third."""
    arrived = (("DG901", "2026.1", "error"), ("DG902", "2026.2", "note"), ("DG903", "2026.2", "error"))
    later = (*arrived, ("DG904", "2026.10", "error"), ("DG905", "2026.10", "note"))
    made = [replace(CATALOGUE[0], code=code, since=since, severity=Severity(level)) for code, since, level in later]
    return {check.code: check.severity for check in chosen(made, Settings(checks=name))}


def test_a_check_set_keeps_to_what_it_had() -> None:
    error, warning, note = Severity.ERROR, Severity.WARNING, Severity.NOTE
    assert of_set("2026.1") == {"DG901": error}
    assert of_set("2026.2") == {"DG901": error, "DG902": note, "DG903": error}
    everything = {"DG901": error, "DG902": note, "DG903": error, "DG904": warning, "DG905": note}
    assert of_set(None) == everything, "what is new is a warning at most"
    assert of_set("2026.10") == everything | {"DG904": error}, "unless its set is asked for"


def test_the_first_set_is_as_severe_as_the_catalogue_says() -> None:
    assert chosen(CATALOGUE, Settings()) == chosen(CATALOGUE, Settings(checks="2026.1")) == CATALOGUE


@pytest.mark.parametrize(("name", "hint"), [("2025.1", "did you mean '2026.1'?"), ("newest", "known: 2026.1")])
def test_a_check_set_that_does_not_exist_is_an_error(name: str, hint: str) -> None:
    with pytest.raises(UsageError, match="checks: unknown check set") as refused:
        chosen(CATALOGUE, Settings(checks=name))
    assert hint in str(refused.value)


@pytest.mark.scan
def test_new_checks_are_warnings_in_a_scan(monkeypatch: pytest.MonkeyPatch) -> None:
    new = tuple(replace(check, since="2999.1") if check.code == "DG301" else check for check in EVERY)
    monkeypatch.setattr("dataguard.checks.CATALOGUE", new)
    target = "sample_datasets.dg301_overlong_len:bad"
    (result,) = scan(target, Settings(select=("DG301",))).results
    assert (result.status, result.severity) == (Status.FAILED, Severity.WARNING)
    assert not scan(target, Settings(select=("DG302",), checks="2026.1")).count(Status.FAILED)
    with pytest.raises(UsageError, match=r"unknown check in set 2026\.1 'DG301'"):
        scan(target, Settings(select=("DG301",), checks="2026.1"))


def test_folders_to_import_from_are_beside_their_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "project" / "src").mkdir(parents=True)
    (tmp_path / "project" / "dataguard.toml").write_text('pythonpath = ["src"]')
    monkeypatch.chdir(tmp_path)
    assert resolve("project/dataguard.toml").pythonpath == (str(Path("project", "src")),)
    monkeypatch.chdir(tmp_path / "project" / "src")
    assert resolve().pythonpath == (".",)
    monkeypatch.chdir(tmp_path.parent)
    assert resolve(tmp_path / "project" / "dataguard.toml").import_path[0] == str(tmp_path / "project" / "src")


@pytest.mark.parametrize("code", ["DG209", "DG412", "DG422"])
def test_checks_of_what_damages_training_are_errors_in_every_set(code: str) -> None:
    for name in (None, "2026.4"):
        (check,) = [one for one in chosen(EVERY, Settings(checks=name)) if one.code == code]
        assert check.severity is Severity.ERROR
