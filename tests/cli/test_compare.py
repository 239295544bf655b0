"""`wattstep compare` as a script uses it: sides, exit codes, one JSON document, one line for what is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.comparison.made import recorded

from wattstep.cli import run_command_line
from wattstep.cli.compare import parse_tolerance, split
from wattstep.errors import InvalidValueError


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    for name, slower in (("a", 1.0), ("b", 1.2)):
        for n in range(2):
            recorded(folder / f"{name}{n}", slower + 0.001 * n)
    for threads in (1, 2, 4):
        for n in range(2):
            recorded(folder / "many" / f"{threads}-{n}", 1 / threads + 0.001 * n, threads=threads)
    return folder


@pytest.fixture
def wattstep(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> object:
    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["wattstep", "compare", *map(str, arguments)])
        code = run_command_line()
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


def test_two_paths_are_two_sides(wattstep, runs: Path) -> None:  # type: ignore[no-untyped-def]
    code, out, err = wattstep(runs / "a0", runs / "b0", "--json")
    document = json.loads(out)
    assert code == 0
    assert [side["letter"] for side in document["sides"]] == ["A", "B"]
    assert document["metrics"]["step_time"]["of_these_processes"] == "higher"
    assert document["metrics"]["step_time"]["verdict"] == "differs here"
    assert all(
        line.startswith("comparing: ") for line in err.splitlines()
    )  # of two seconds or more


def test_with_gathers_several_runs_into_a_side(wattstep, runs: Path) -> None:  # type: ignore[no-untyped-def]
    code, out, err = wattstep(
        runs / "a0", runs / "a1", "--with", runs / "b0", runs / "b1", "--json", "--quiet"
    )
    document = json.loads(out)
    assert [len(side["runs"]) for side in document["sides"]] == [2, 2]
    assert document["metrics"]["step_time"]["verdict"] == "higher"
    assert document["answer"][0].startswith("Time: a step of B takes")
    assert (code, err) == (0, "")


def test_a_folder_of_three_configurations_is_a_matrix(wattstep, runs: Path) -> None:  # type: ignore[no-untyped-def]
    code, out, _ = wattstep(runs / "many", "--json", "--metric", "throughput")
    document = json.loads(out)
    assert code == 0
    assert document["metric"] == "throughput"
    assert [side["title"] for side in document["sides"]] == ["threads 1", "threads 2", "threads 4"]
    assert [pair["verdict"] for pair in document["pairs"]] == ["higher"] * 3


def test_a_metric_makes_a_table_of_two_sides_too(wattstep, runs: Path) -> None:  # type: ignore[no-untyped-def]
    code, out, _ = wattstep(runs / "a0", runs / "b0", "--metric", "energy_per_step", "--json")
    assert code == 0
    assert len(json.loads(out)["pairs"]) == 1


@pytest.mark.parametrize(
    ("options", "code", "outcome"),
    [
        ([], 1, "regression"),
        (["--tolerance", "30%"], 0, "no regression"),
        (["--tolerance", "0.3", "--strict"], 0, "no regression"),
        (["--tolerance", "20%"], 0, "cannot exclude"),
        (["--tolerance", "20%", "--strict"], 1, "cannot exclude"),
    ],
)
def test_the_exit_code_says_whether_there_is_a_regression(  # type: ignore[no-untyped-def]
    wattstep, runs: Path, options: list[str], code: int, outcome: str
) -> None:
    base = ["--baseline", runs / "a0", "--baseline", runs / "a1"]
    found, out, _ = wattstep(*base, runs / "b0", runs / "b1", *options, "--json")
    document = json.loads(out)
    assert found == document["exit_code"] == code
    assert document["metrics"]["step_time"]["outcome"] == outcome


def test_a_gate_prints_one_line_a_metric(wattstep, runs: Path) -> None:  # type: ignore[no-untyped-def]
    code, out, _ = wattstep("--baseline", runs / "a0", runs / "b0", "--metric", "step_time")
    lines = [line for line in out.splitlines() if line.startswith("step_time:")]
    assert code == 0
    assert len(lines) == 1
    assert lines[0].startswith("step_time: cannot exclude a worsening beyond 5.0 %; +20 %.")
    assert out.splitlines()[-1].startswith("pass: no worsening beyond 5.0 % is shown")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["a0", "nothing"], "there is no such run"),
        (["a0", "a0"], "is given twice"),
        (["a0", "many"], "is not one configuration"),
        (["a0", "many/2-0"], "differ in the number of threads"),
        (["a0", "--with"], "--with stands between runs"),
        (["a0", "b0", "--jsn"], "there is no option --jsn"),
        (["a0", "b0", "--across", "speed"], "--across speed: there are"),
        (["a0", "b0", "--metric", "speed"], "--metric speed: there are step_time"),
        (["a0", "b0", "--strict"], "--strict goes with --baseline"),
        (["a0", "b0", "--tolerance", "3%"], "--tolerance goes with --baseline"),
        (["a0/run.json", "b0"], "is a file, and a run is a folder"),
        (["a0", "--with", "b0", "--baseline", "a1"], "runs are held against one baseline"),
        (["a0", "--baseline", "a1", "--tolerance", "lots"], "a share such as 5% or 0.05"),
        (["a0", "--baseline", "a1", "--metric", "x"], "--metric x"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(  # type: ignore[no-untyped-def]
    wattstep, runs: Path, arguments: list[str], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(runs)
    code, out, err = wattstep(*arguments, "--quiet")
    assert code == 2
    assert out == ""
    assert words in err
    assert len(err.splitlines()) == 1


def test_groups_are_parted_by_with() -> None:
    assert split(["a", "b", "--with", "c"]) == [[Path("a"), Path("b")], [Path("c")]]
    assert split(["a"]) == [[Path("a")]]


@pytest.mark.parametrize(
    ("text", "value"), [("5%", 0.05), ("0.05", 0.05), (" 12 %", 0.12), ("0", 0.0)]
)
def test_a_tolerance_is_a_share(text: str, value: float) -> None:
    assert parse_tolerance(text) == pytest.approx(value)


@pytest.mark.parametrize("text", ["-1%", "nan", "inf", "", "%"])
def test_what_is_no_share_is_refused(text: str) -> None:
    with pytest.raises(InvalidValueError):
        parse_tolerance(text)
