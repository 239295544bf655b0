"""`wattstep compare` as a script uses it: sides, exit codes, one JSON document, one line for what is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.command_line import Command
from tests.comparison.made import recorded
from tests.refusals import id_in
from tests.wording import assert_says

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


def test_two_paths_are_two_sides(piped: Command, runs: Path) -> None:
    code, out, err = piped("compare", runs / "a0", runs / "b0", "--json")
    document = json.loads(out)
    assert code == 0
    assert [side["letter"] for side in document["sides"]] == ["A", "B"]
    assert document["metrics"]["step_time"]["of_these_processes"] == "higher"
    assert document["metrics"]["step_time"]["verdict"] == "differs here"
    assert all(
        line.startswith("comparing: ") for line in err.splitlines()
    )  # of two seconds or more


def test_with_gathers_several_runs_into_a_side(piped: Command, runs: Path) -> None:
    code, out, err = piped(
        "compare", runs / "a0", runs / "a1", "--with", runs / "b0", runs / "b1", "--json", "--quiet"
    )
    document = json.loads(out)
    assert [len(side["runs"]) for side in document["sides"]] == [2, 2]
    assert document["metrics"]["step_time"]["verdict"] == "higher"
    assert_says(document["answer"][0], "Time:", "B takes")
    assert (code, err) == (0, "")


def test_a_folder_of_three_configurations_is_a_matrix(piped: Command, runs: Path) -> None:
    code, out, _ = piped("compare", runs / "many", "--json", "--metric", "throughput")
    document = json.loads(out)
    assert code == 0
    assert document["metric"] == "throughput"
    assert [side["title"] for side in document["sides"]] == ["threads 1", "threads 2", "threads 4"]
    assert [pair["verdict"] for pair in document["pairs"]] == ["higher"] * 3


def test_a_metric_makes_a_table_of_two_sides_too(piped: Command, runs: Path) -> None:
    code, out, _ = piped(
        "compare", runs / "a0", runs / "b0", "--metric", "energy_per_step", "--json"
    )
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
def test_the_exit_code_says_whether_there_is_a_regression(
    piped: Command, runs: Path, options: list[str], code: int, outcome: str
) -> None:
    base = ["--baseline", runs / "a0", "--baseline", runs / "a1"]
    found, out, _ = piped("compare", *base, runs / "b0", runs / "b1", *options, "--json")
    document = json.loads(out)
    assert found == document["exit_code"] == code
    assert document["metrics"]["step_time"]["outcome"] == outcome


def test_a_gate_prints_one_line_a_metric(piped: Command, runs: Path) -> None:
    code, out, _ = piped("compare", "--baseline", runs / "a0", runs / "b0", "--metric", "step_time")
    lines = [line for line in out.splitlines() if line.startswith("step_time:")]
    assert code == 0
    assert len(lines) == 1
    assert_says(lines[0], "step_time:", "cannot exclude", "5.0 %", "+20 %")
    verdict = out.splitlines()[-1]
    assert verdict.startswith("pass:")
    assert_says(verdict, "5.0 %")


@pytest.mark.parametrize(
    ("arguments", "id", "named"),
    [
        (["a0", "nothing"], "no-such-run", "nothing"),
        (["a0", "a0"], "repeated-run", "a0"),
        (["a0", "many"], "mixed-side", "many"),
        (["a0", "many/2-0"], "other-configuration", "number of threads"),
        (["a0", "--with"], "empty-side", "--with"),
        (["a0", "b0", "--jsn"], "unknown-option", "--jsn"),
        (["a0", "b0", "--across", "speed"], "unknown-facet", "--across speed"),
        (["a0", "b0", "--metric", "speed"], "unknown-metric", "step_time"),
        (["a0", "b0", "--strict"], "needs-baseline", "--strict"),
        (["a0", "b0", "--tolerance", "3%"], "needs-baseline", "--tolerance"),
        (["a0/run.json", "b0"], "file-not-run", "a0/run.json"),
        (["a0", "--with", "b0", "--baseline", "a1"], "one-baseline", "--baseline"),
        (["a0", "--baseline", "a1", "--tolerance", "lots"], "not-a-share", "5%"),
        (["a0", "--baseline", "a1", "--metric", "x"], "unknown-metric", "--metric x"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    piped: Command,
    runs: Path,
    arguments: list[str],
    id: str,
    named: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(runs)
    code, out, err = piped("compare", *arguments, "--quiet", "--json")
    assert (code, id_in(out)) == (2, id)
    assert named in err
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
