"""Ten questions that people ask, each answered by one command within the first screen of 80 and 120 columns."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.repeated import repeated, sentences
from tests.command_line import wattstep as wattstep_here
from tests.wording import assert_says

import wattstep
from wattstep.recorded.series import NO_SENSOR

SCREEN = 40  # lines
LIMIT = "4GiB"
SHORT = ("--threads", 1, "--power-model", "vcpu", "--quiet")
NUMBER = r"≈? ?[\d.,]+"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with short trainings of an image and of a language network."""
    home = tmp_path_factory.mktemp("home")
    for name, batch in (("a", 4), ("b", 16)):
        asked("run", "lenet", "--batch", batch, "--seconds", 2, "--name", name, *SHORT, home=home)
    words = ("run", "char-cnn", "--batch", 1, "--steps", 5, "--warmup", 1, "--trace", "none")
    asked(*words, "--name", "words", *SHORT, home=home)
    for name, batch in (
        ("bare", 4),
        ("bare16", 16),
    ):  # without any sensor, and nothing in its place
        bare = ("run", "lenet", "--batch", batch, "--steps", 20, "--threads", 1, "--quiet")
        asked(*bare, "--name", name, home=home)
    return home


def asked(*arguments: object, home: Path, columns: int = 80) -> str:
    """First screen of a command's result in one line: blanks and line ends are one blank.

    No sentence stands there twice, and but for paths and commands nothing is wider than the terminal.
    """
    done = subprocess.run(
        [sys.executable, "-m", "wattstep", *map(str, arguments)],
        cwd=home, capture_output=True, text=True, check=False,
        env={**os.environ, "COLUMNS": str(columns)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return _first_screen(done.stdout, columns)


@pytest.fixture(params=[80, 120])
def columns(request: pytest.FixtureRequest) -> int:
    return int(request.param)


def read(*arguments: object, home: Path, columns: int) -> str:
    """As `asked`, of a command that only reads: in this process."""
    done = wattstep_here(*arguments, cwd=home, env={"COLUMNS": str(columns)})
    assert done.returncode == 0, done.stderr
    return _first_screen(done.stdout, columns, full="--full" in arguments)


def _first_screen(out: str, width: int, *, full: bool = False) -> str:
    lines = out.splitlines()
    long = [line for line in lines if len(line) > width]
    assert all(re.match(r"(run|report): |.*file://|wattstep ", line) for line in long), long
    # Tables in full say the same of several runs and observations, each with its own numbers.
    told = sentences(out)
    twice = [one for one in set(told) if told.count(one) > 1] if full else repeated(out)
    assert twice == [], out
    assert " ".join(out.split()).count(NO_SENSOR) <= 1
    return " ".join(" ".join(lines[:SCREEN]).split())


def test_which_layer_costs_most_energy(home: Path, columns: int) -> None:
    layers = wattstep.load(home / "runs" / "a").report().layers
    joules = {one.layer: float(one.figures["energy"]) for one in layers if one.figures["energy"]}  # type: ignore[arg-type]
    name = max(joules, key=lambda layer: joules[layer])
    assert re.search(
        rf"top layer {re.escape(name)} .* [mµn]?J modelled",
        read("show", "runs/a", home=home, columns=columns),
    )


def test_would_batch_16_fit_into_4_gb(home: Path) -> None:
    asking = ("fits", "lenet", "--batch", 16, "--memory-limit", LIMIT, "--quiet", "--out", "fits")
    for columns in (80, 120):  # the second time nothing is left to train
        text = asked(*asking, home=home, columns=columns)
        assert re.search(rf"lenet {NUMBER} MB yes", text)
        assert "Memory limit: 4 GiB" in text


def test_is_b_better_than_a(home: Path, columns: int) -> None:
    text = read(
        "compare", "runs/a", "runs/b", "--across", "batch", "--quiet", home=home, columns=columns
    )
    for question in ("Speed:", "Energy (modelled):", "Memory:"):
        assert question in text


def test_what_should_be_changed_first(home: Path, columns: int) -> None:
    text = read("explain", "runs/a", "--quiet", home=home, columns=columns)
    assert text.startswith(("runs/a 1. ", "runs/a no advice"))


def test_how_many_joules_a_token_takes(home: Path, columns: int) -> None:
    text = read("show", "runs/words", home=home, columns=columns)
    assert re.search(rf"Energy per token {NUMBER} [mµ]?J", text)


def test_how_long_ten_epochs_take(home: Path, columns: int) -> None:
    text = read("show", "runs/a", "--samples", 600_000, home=home, columns=columns)
    each = wattstep.load(home / "runs" / "a").metrics["throughput"]
    hours, minutes, seconds = (
        int(found[1]) if (found := re.search(rf"600,000 samples:.*?(\d+) {unit}\b", text)) else 0
        for unit in ("h", "min", "s")
    )
    told = 3600 * hours + 60 * minutes + seconds * (not hours)
    assert told == pytest.approx(600_000 / float(each), abs=61)


def test_what_the_peak_of_memory_is_made_of(home: Path) -> None:
    text = asked("memory", "lenet", "--batch", 4, "--quiet", home=home, columns=120)
    # 61,706 weights of 4 bytes, and as much for their gradients.
    assert "Parameters 247 kB counted" in text
    assert "Gradients 247 kB counted" in text
    assert re.search(rf"Peak {NUMBER} MB measured", text)


def test_what_the_bottleneck_is(home: Path, columns: int) -> None:
    text = read("explain", "runs/a", "--quiet", home=home, columns=columns)
    assert re.search(r"[\d.]+ of \d+ cores", text)
    assert_says(text, "no operation running")


@pytest.mark.parametrize("runs", [("runs/a", "runs/b"), ("runs/bare", "runs/bare16")])
@pytest.mark.parametrize("full", [[], ["--full"]])
@pytest.mark.parametrize("command", ["show", "explain", "observe", "compare"])
def test_no_sentence_stands_twice_with_a_sensor_or_without(
    home: Path, columns: int, command: str, full: list[str], runs: tuple[str, str]
) -> None:
    two = {"observe": [], "compare": ["--across", "batch"]}
    given = [*runs, *two[command]] if command in two else runs[:1]
    assert read(command, *given, *full, home=home, columns=columns)


def test_a_sweep_without_a_sensor_says_it_once(home: Path) -> None:
    text = asked("sweep", "lenet", "--batch", "1,2", "--steps", 3, "--threads", 1, "--cooldown",
                 "none", "--out", "sweep", "--quiet", home=home)  # fmt: skip
    assert re.search(rf"lenet {NUMBER} MB {NUMBER} MB yes", text)


def test_which_runs_there_are_and_what_they_cost(home: Path, columns: int) -> None:
    text = read("runs", "list", home=home, columns=columns)
    for name in ("a", "b", "words"):
        assert re.search(
            rf"20\d\d-\d\d-\d\d \d\d:\d\d .*? [mµ]?s ≈ {NUMBER} m?J runs/{name}\b", text
        )


def test_what_a_training_costs_in_wh_money_and_co2(home: Path, columns: int) -> None:
    text = read(
        "show",
        "runs/a",
        "--steps",
        100_000,
        "--grid",
        400,
        "--price",
        0.3,
        home=home,
        columns=columns,
    )
    joules = float(wattstep.load(home / "runs" / "a").metrics["energy_per_step"])
    (told,) = re.findall(r"100,000 steps: .*? ≈ ([\d.]+) (m?)Wh", text)
    hours = float(told[0]) * (1e-3 if told[1] else 1)
    assert hours == pytest.approx(joules * 100_000 / 3600, rel=0.01)
    assert "CO2 at 400 g/kWh, as stated" in text
    assert "at 0.3 a kWh, as stated" in text
