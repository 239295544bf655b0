"""`wattstep predict` tells a training of the user's own module in one screen, or in one line why not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from zipfile import ZipFile

import pytest
from tests.command_line import Command
from tests.refusals import id_in
from tests.wording import assert_says

KEPT = Path(__file__).parent.parent / "fixtures" / "runs" / "kept"
MODEL = """
from torch import nn


def make():
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10)
    )


def nothing():
    return nn.ReLU()


def number():
    return 3


def loud():
    print("made")
    return make()


def leaves():
    raise SystemExit(0)
"""


@pytest.fixture
def asked(command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:
    """`wattstep predict` in a folder that has a model."""
    (tmp_path / "mine.py").write_text(MODEL)
    monkeypatch.setenv("COLUMNS", "120")
    return partial(command, "predict")


INPUT = ("--input", "3x32x32", "--classes", "10")


def test_one_screen_has_figures_with_intervals_and_whether_it_fits(asked: Command) -> None:
    code, out, _ = asked("mine.py:make", "--on", "tx2", "--batch", "4,64", *INPUT)
    assert code == 0
    lines, out = len(out.splitlines()), " ".join(out.split())
    assert "NVIDIA Jetson TX2, torch-1.6, fp32: predicted" in out
    assert out.count("yes, > 99 %") == 2
    assert_says(out, "98 %", "Up to batch")
    assert "waiting for" in out
    assert " ! Beyond " in out
    assert lines < 24


def test_shares_by_phase_are_those_of_the_json(asked: Command) -> None:
    arguments = ("mine.py:make", "--on", "tx2", "--batch", "64", "--data-time", "1us", *INPUT)
    _, screen, _ = asked(*arguments)
    _, document, _ = asked(*arguments, "--json")
    (run,) = json.loads(document)["runs"]
    wanted = {row["phase"]: row["share"]["value"] for row in run["phases"]}
    wanted |= {name: costs["share"]["value"] for name, costs in run["rests"].items()}
    assert sum(wanted.values()) == pytest.approx(1)
    said = " ".join(screen.split()).partition("; by phase ")[2].partition(". ")[0].split(", ")
    shares = {name: float(share) for name, share in (each[:-2].rsplit(" ", 1) for each in said)}
    assert shares == {name: pytest.approx(100 * share, abs=0.51) for name, share in wanted.items()}


def test_its_json_has_reports_of_status_predicted(asked: Command) -> None:
    code, out, _ = asked("mine.py:make", "--on", "tx2", "--batch", "4,64", *INPUT, "--json")
    assert code == 0
    document = json.loads(out)
    assert [run["batch_size"] for run in document["runs"]] == [4, 64]
    assert document["runs"][0]["metrics"]["step_time"]["status"] == "predicted"
    # Weights and biases: 3·16·9 + 16 and 16·10 + 10.
    assert document["runs"][0]["model"]["parameters"] == 448 + 170
    assert document["fits"]["probability"]["4"] > 0.98
    assert document["fits"]["largest_batch"]["0.98"] <= document["fits"]["largest_batch"]["0.5"]


def test_what_the_file_prints_is_no_part_of_the_json(asked: Command) -> None:
    code, out, errors = asked("mine.py:loud", "--on", "tx2", "--batch", "4", *INPUT, "--json")
    assert code == 0
    assert json.loads(out)["fits"]["searched_to"] == 1 << 20
    assert "made" in errors


@pytest.mark.parametrize(
    ("what", "arguments", "id", "named"),
    [
        ("mine.py:make", (), "needs-input", "--input 3x224x224"),
        ("mine.py:make", ("--input", "3by32"), "malformed-shape", "3by32"),
        ("mine.py:make", ("--input", "4x32x32"), "unfit-inputs", "4x32x32"),
        ("mine.py:make", ("--input", "3x32x32", "--classes", "7"), "other-scores", "10"),
        (
            "mine.py:make",
            (*INPUT, "--optimizer", "newton"),
            "unknown-optimizer",
            "sgd, adam, adamw, rmsprop",
        ),
        (
            "mine.py:make",
            (*INPUT, "--optimizer", "sgd,momentum"),
            "malformed-optimizer",
            "--optimizer 'sgd,momentum'",
        ),
        ("lenet", ("--optimizer", "sgd,lr=nan"), "malformed-optimizer", "sgd,lr=nan"),
        ("lenet", ("--optimizer", "sgd,lr=1,lr=2"), "malformed-optimizer", "once"),
        ("lenet", ("--optimizer", "sgd,lr=-1"), "malformed-optimizer", "-1"),
        ("mine.py:make", (*INPUT, "--batch", "0"), "out-of-range", "--batch 0"),
        ("mine.py:other", INPUT, "no-such-function", "'other'"),
        ("mine.py:nothing", INPUT, "nothing-to-train", "nothing"),
        ("mine.py:number", INPUT, "not-a-module", "torch.nn.Module"),
        ("yours.py:make", INPUT, "no-such-file", "yours.py"),
        ("lenett", (), "unknown-workload", "lenet"),
        ("lenet", ("--input", "3x32x32"), "needless-option", "--image-size"),
        ("lenet", ("--train-last", "9"), "too-few-layers", "5"),
        ("lenet", ("--lora", "0"), "out-of-range", "--lora 0"),
        ("mine.py:make", (*INPUT, "--lora", "2", "--train-last", "1"), "two-that-train", "--lora"),
        ("lenet", ("--optimizer", "paged-adamw"), "needs-gpu", "adamw"),
        ("mine.py:make", (*INPUT, "--image-size", "32"), "needless-option", "--image-size"),
        ("mine.py:leaves", INPUT, "unfit-inputs", "SystemExit"),
        ("mine.py:make", (*INPUT, "--engine", "tflite"), "unknown-framework", "torch, torch-1.6"),
        ("mine.py:make", (*INPUT, "--batch", "100000000000000000000"), "out-of-range", "1,048,576"),
        ("nowhere.py:make", (*INPUT, "--batch", "4,2000000"), "out-of-range", "batch 2,000,000"),
    ],
)
def test_what_cannot_be_predicted_is_one_line(
    asked: Command, what: str, arguments: tuple[str, ...], id: str, named: str
) -> None:
    code, out, errors = asked(what, "--on", "tx2", "--json", *arguments)
    assert (code, id_in(out)) == (2, id)
    # A capture that takes long says so before.
    *progress, line = errors.strip().splitlines()
    assert all(each.startswith("predicting: ") for each in progress)
    assert named in line


KEPT_COMMAND = """
import sys
from wattstep.cli import run_command_line
sys.argv = ["wattstep", "predict", "lenet", "--on", "jetson-orin-nano", "--json"]
code = run_command_line()
print("torch" in sys.modules, file=sys.stderr)
sys.exit(code)
"""


def test_a_second_prediction_is_the_same_and_loads_no_torch(tmp_path: Path) -> None:
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    first, second = (
        subprocess.run(
            [sys.executable, "-c", KEPT_COMMAND],
            env=environment, capture_output=True, text=True, check=True,
        )
        for _ in range(2)
    )  # fmt: skip
    assert [each.stderr.split()[-1] for each in (first, second)] == ["True", "False"]
    assert second.stdout == first.stdout


def test_an_unknown_device_is_one_line(asked: Command) -> None:
    code, _, errors = asked("lenet", "--on", "abacus")
    assert code == 2
    assert "jetson-tx2" in errors


def test_a_run_of_another_device_is_one_line(asked: Command, tmp_path: Path) -> None:
    with ZipFile(KEPT / "lenet.zip") as archive:
        archive.extractall(tmp_path / "lenet")
    (run,) = (path.parent for path in (tmp_path / "lenet").rglob("run.json"))
    code, out, errors = asked("lenet", "--on", "tx2", "--like", str(run), "--json")
    assert (code, id_in(out)) == (2, "evidence-of-another-device")
    assert "AMD EPYC" in errors
    assert "NVIDIA Jetson TX2" in errors
