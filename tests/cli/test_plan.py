"""`wattstep plan` tells how to train within a budget in one screen, and `run --plan` trains so."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.command_line import Command
from tests.refusals import id_in
from tests.wording import assert_says

ASKED = ("lenet", "--on", "jetson-orin-nano", "--samples", "640")


def test_one_screen_and_a_page_have_plan_front_losers_and_risks(
    command: Command, tmp_path: Path
) -> None:
    code, out, _ = command(
        "plan", *ASKED, "--every", "day", "--budget", "30 min, 60 °C, 1 Wh", "--why-not", "batch=4",
        "-o", "plan.html",
    )  # fmt: skip
    assert code == 0
    words = " ".join(out.split())
    for part in (
        "Recommended: batch 16", "30 min", "60 °C", "1 Wh", "> 99 %", "A day (1 session)",
        "Beaten by none", "Why others lose", "Why not that", "batch 4 × 4",
        "could go wrong", "nobody measured torch",
    ):  # fmt: skip
        assert part in words
    assert len(out.splitlines()) < 45
    page = (tmp_path / "plan.html").read_text(encoding="utf-8")
    for part in ("The plan", "batch 16", "Why others lose", "could go wrong", "predicted"):
        assert part in page


def test_a_plan_s_run_has_predicted_beside_measured(command: Command, tmp_path: Path) -> None:
    code, out, _ = command("plan", *ASKED, "--json", "-o", "plan.json")
    assert code == 0
    document = json.loads(out)
    assert document["chosen"]["configuration"]["batch"] == 16
    assert document["chosen"]["figures"]["time"]["status"] == "predicted"
    assert document["searched"] > 5
    trained = subprocess.run(
        [
            sys.executable, "-m", "wattstep", "run", "--plan", "plan.json", "--processor", "cpu", "--steps", "5",
            "--threads", "1", "--trace", "none", "--cooldown", "none", "--no-canary", "--json",
        ],
        capture_output=True, text=True, check=False, timeout=600, cwd=tmp_path,
    )  # fmt: skip
    assert trained.returncode == 0, trained.stderr
    assert_says(trained.stderr, "--processor cpu", "plan's cuda")
    (run,) = json.loads(trained.stdout)["runs"]
    assert (run["workload"], run["batch_size"]) == ("lenet", 16)
    planned = run["planned"]
    assert planned["device"] == "jetson-orin-nano"
    (changed,) = planned["changed"]
    assert_says(changed, "processor cpu", "cuda")
    rows = {row["metric"]: row for row in planned["rows"]}
    assert rows["step_time"]["predicted"] == document["chosen"]["figures"]["step_time"]
    assert rows["step_time"]["measured"]["value"] == run["metrics"]["step_time"]["value"]
    assert rows["energy_per_step"]["inside"] is None  # no power sensor
    (folder,) = (tmp_path / "runs").iterdir()
    code, out, _ = command("show", str(folder))
    assert code == 0
    assert "Predicted by" in out
    assert "inside?" in out


@pytest.mark.parametrize(
    ("arguments", "id"),
    [
        (("--budget", "5 %"), "budget-not-on-device"),
        (("--budget", "soon"), "malformed-budget"),
        (("--allow", "magic"), "unknown-allowance"),
        (("--least", "effort"), "unknown-cost"),
        (("--sure", "100"), "out-of-range"),
        (("--every", "never"), "malformed-duration"),
        (("--batch", "0"), "out-of-range"),
        (("--out", "plan.txt"), "unknown-format"),
        (("--precision", "int4"), "unknown-precision"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_captured(
    command: Command, arguments: tuple[str, ...], id: str
) -> None:
    code, out, errors = command("plan", *ASKED, *arguments, "--json")
    assert code == 2
    assert id_in(out) == id
    assert len(errors.splitlines()) == 1


def test_nothing_that_fits_is_told_and_nothing_is_written(command: Command, tmp_path: Path) -> None:
    code, out, errors = command("plan", *ASKED, "--budget", "1 s, 26 °C", "-o", "plan.json")
    assert code == 2
    assert "No plan:" in out
    assert "would change that" in out
    assert_says(errors, "plan.json")
    assert not (tmp_path / "plan.json").exists()


def test_a_run_needs_a_workload_or_a_plan(command: Command) -> None:
    code, out, _ = command("run", "--json")
    assert (code, id_in(out)) == (2, "nothing-to-train")
