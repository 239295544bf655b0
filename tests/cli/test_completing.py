"""A shell completes workloads, devices, boards, and runs of the folder that is typed."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.command_line import wattstep

from wattstep import boards, devices, workloads


@pytest.fixture
def home(tmp_path: Path) -> Path:
    for run in ("runs/lenet-1", "runs/vgg-1", "elsewhere/deep/gpt-1"):
        (tmp_path / run).mkdir(parents=True)
        (tmp_path / run / "run.json").write_text("{}")
    return tmp_path


def completed(words: str, cwd: Path) -> list[str]:
    """What bash is offered for the last word, by the protocol of typer's own scripts."""
    number = len(words.split(" ")) - 1
    asked = {"_WATTSTEP_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(number)}
    return wattstep(cwd=cwd, env=asked).stdout.split()


@pytest.mark.parametrize("command", ["run", "memory", "fits", "sweep", "suite", "daily", "predict"])
def test_workloads(command: str, home: Path) -> None:
    expected = [name for name in workloads.names() if name.startswith("resnet")]
    assert len(expected) > 3
    assert completed(f"wattstep {command} resnet", home) == expected


def test_devices_and_boards(home: Path) -> None:
    orin = [name for name in devices.names() if name.startswith("jetson-o")]
    assert completed("wattstep devices jetson-o", home) == orin != []
    assert completed("wattstep predict lenet --on jetson-o", home) == orin
    tx = [name for name in boards.names() if name.startswith("jetson-tx")]
    assert completed("wattstep boards jetson-tx", home) == tx != []


@pytest.mark.parametrize("command", ["show", "explain", "compare", "report", "observe", "export"])
def test_runs_of_the_folder_that_is_typed(command: str, home: Path) -> None:
    assert completed(f"wattstep {command} runs/", home) == ["runs/lenet-1", "runs/vgg-1"]
    assert completed(f"wattstep {command} runs/v", home) == ["runs/vgg-1"]
    assert completed(f"wattstep {command} elsewhere/", home) == ["elsewhere/deep/"]
    assert completed(f"wattstep {command} ", home) == [
        "elsewhere/", "runs/", "runs/lenet-1", "runs/vgg-1"
    ]  # fmt: skip
