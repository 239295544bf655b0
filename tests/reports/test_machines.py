"""On which machine a run was made: an emulated board never looks like one that was measured."""

from __future__ import annotations

from typing import Any

from tests.wording import assert_says

from wattstep.report import machines
from wattstep.report.wording import summary, titles
from wattstep.schema.run_report import RunReport

SERVER = {"model": "unknown machine", "cpu": "AMD EPYC", "cores": 2, "virtual": True}
BOARD = {"model": "NVIDIA Jetson TX2", "cpu": "4 Cortex-A57 + 2 Denver2", "cores": 6}


def run(device: dict[str, Any]) -> RunReport:
    return RunReport(title="LeNet-5", batch_size=4, engine="torch 2.13.0", device=device)


LOCAL = run(SERVER)
EMULATED = run({**BOARD, "emulated_on": SERVER})
REPLAYED = run({**SERVER, "sensors_of": "recording x.log (tegrastats, jetson-tx2)"})


def test_an_emulated_board_is_not_what_trained() -> None:
    first = summary(EMULATED)[0]
    assert_says(first, "torch 2.13.0", "on AMD EPYC, a virtual machine")
    assert "an emulated NVIDIA Jetson TX2" in first
    assert "Cortex" not in first
    assert machines.named(EMULATED.device) == "AMD EPYC"
    assert_says(machines.short(EMULATED.device), "AMD EPYC (sensors:", "NVIDIA Jetson TX2)")
    assert "2 cores" in machines.machine(EMULATED.device)


def test_a_replayed_run_says_whose_sensors_it_shows() -> None:
    assert "a recording x.log (tegrastats, jetson-tx2)" in summary(REPLAYED)[0]
    assert "sensors: a recording x.log (tegrastats, jetson-tx2)" in machines.machine(
        REPLAYED.device
    )


def test_runs_of_one_workload_are_told_apart_by_their_sensors() -> None:
    parts = [title.split(" · ") for title in titles([LOCAL, EMULATED, REPLAYED])]
    assert [part[:2] for part in parts] == [["LeNet-5", "batch 4"]] * 3
    assert [part[2:] for part in parts] == [
    [], ["an emulated NVIDIA Jetson TX2"], ["a recording x.log (tegrastats, jetson-tx2)"],
    ]  # fmt: skip


def test_a_run_of_this_machine_says_nothing_of_sensors() -> None:
    assert machines.sensors(LOCAL.device) == ""
    assert "sensors" not in " ".join(machines.machine(LOCAL.device))
