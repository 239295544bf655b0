"""Processes that train on played GPUs beside a played NVML: killed, forked, several at once, on slices."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.wording import assert_says

import wattstep
from wattstep.run.run import Run

HERE = Path(__file__).parent
A, B = ("aaaaaaaa-0000-0000-0000-000000000000", "bbbbbbbb-0000-0000-0000-000000000000")


def start(run: Path, steps: int = 60, number: int = 0, **environment: str) -> subprocess.Popen[str]:
    """The script at work."""
    paths = [str(HERE / "nvml"), str(HERE.parents[1]), os.environ.get("PYTHONPATH", "")]
    return subprocess.Popen(
        [sys.executable, str(HERE / "trainer.py"), str(run), str(steps), str(number)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), **environment},
        stdout=subprocess.PIPE,
        text=True,
    )


def trained(run: Path, number: int = 0, steps: int = 60, **environment: str) -> Run:
    with start(run, steps, number=number, **environment) as process:
        process.communicate(timeout=600)
    assert process.returncode == 0
    return wattstep.load(run)


def test_a_killed_run_names_its_gpu(tmp_path: Path) -> None:
    with start(tmp_path / "run", 10**6) as process:
        assert process.stdout is not None
        while process.stdout.readline().strip() != "60":
            pass
        process.send_signal(signal.SIGKILL)
    run = wattstep.load(tmp_path / "run")
    assert run.info.state == "recovered"
    assert run.info.processor == "cuda"
    assert run.info.device["gpu"]["name"] == "Played GPU 1"
    assert run.info.device["gpu"]["uuid"] == B
    assert run.info.device_clock["device"] == "gpu0"
    assert len(run.series.steps.index) >= 59


def test_each_process_has_the_numbers_of_its_own_gpu(tmp_path: Path) -> None:
    """torch's first GPU is the driver's second: each is known by its UUID, never by its number."""
    processes = [
        start(tmp_path / name, CUDA_VISIBLE_DEVICES=visible)
        for name, visible in (("index", "0"), ("uuid", f"GPU-{A[:8]}"))
    ]
    for process in processes:
        process.communicate(timeout=600)
    for name, uuid, watts, load in (("index", B, 300, 0.9), ("uuid", A, 100, 0.1)):
        run = wattstep.load(tmp_path / name)
        assert run.info.device["gpu"]["uuid"] == uuid
        assert run.series.steps.device == "gpu0"  # each sees one GPU, which is its first
        assert run.metrics["gpu_utilization"].value == pytest.approx(load, abs=0.01)
        (rail,) = (r for r in run.series.rails if r.endswith("energy"))
        curve = run.series.rails[rail].curve
        seconds = float(curve.t_ns[-1] - curve.t_ns[0]) * 1e-9
        assert float(curve.total[-1]) == pytest.approx(watts * seconds, rel=0.01)
        assert not any("which of the" in note for note in run.report().notes)


def test_of_two_gpus_the_second_trains(tmp_path: Path) -> None:
    run = trained(tmp_path / "run", number=1)
    assert run.series.steps.device == "gpu1"
    assert run.info.device["gpu"]["number"] == 1
    assert run.info.device["gpu"]["uuid"] == A  # the slower one, and the driver's first
    assert run.metrics["gpu_utilization"].value == pytest.approx(0.1, abs=0.01)


def test_an_instance_of_a_gpu_that_is_cut(tmp_path: Path) -> None:
    run = trained(tmp_path / "run", PLAYED_NVML="mig")
    assert run.info.device["gpu"]["name"] == "Played GPU 1 MIG 1g.2gb"
    assert run.info.device["gpu"]["uuid"].startswith("dddddddd")
    # The other GPU's load is not taken for it, and the driver tells none of its own.
    utilization = run.metrics["gpu_utilization"]
    assert utilization.value is None
    assert "cut into instances (MIG)" in utilization.reason
    (power,) = (c for c in run.series.channels.values() if c.role == "energy_part")
    assert power.name == "gpu1.energy"
    assert_says(power.note, "whole card", "2 instances")


def test_a_gpu_whose_driver_loses_it_in_the_middle_keeps_what_was_read(tmp_path: Path) -> None:
    """Its events still come: what is lost is the driver's readings, from there on, with the reason."""
    run = trained(tmp_path / "run", steps=150, PLAYED_NVML="lost")
    assert "nvml" in run.info.lost
    assert any("GPU 1" in note and "error 15" in note for note in run.info.notes)
    t_ns, value = run.series.raw("gpu1.energy")
    known = np.isfinite(value)  # a read that fails is a gap
    assert 0 < known.sum() < len(known)
    assert t_ns[known][-1] <= run.info.lost["nvml"] <= run.series.steps.end_ns[-1]
    assert np.isfinite(run.series.raw("gpu1.utilization")[1]).all()  # what is still told goes on
    assert run.series.steps.device == "gpu0"
    assert len(run.series.steps.index) == 150


def test_a_driver_that_is_newer_than_the_bindings(tmp_path: Path) -> None:
    run = trained(tmp_path / "run", PLAYED_NVML="newer")
    assert run.metrics["gpu_utilization"].value == pytest.approx(0.9, abs=0.01)
    (power,) = (c for c in run.series.channels.values() if c.role == "power_part")
    assert power.source == "NVML instant power"
    t_ns, value = run.series.raw("gpu1.throttle_reasons")
    assert len(t_ns)
    assert (value == 0x4000_0000).all()  # a reason that is not known is one, and is not hidden


def test_workers_of_a_data_loader_leave_the_timeline_alone(tmp_path: Path) -> None:
    with start(tmp_path / "run", FORKS="1") as process:
        out, _ = process.communicate(timeout=600)
    assert "forked True" in out
    run = wattstep.load(tmp_path / "run")
    assert list(run.series.steps.index) == list(range(60))
    assert run.series.steps.host_ns is not None
    assert run.metrics["step_time"].value >= 0.0095  # that of its kernels; more on a busy machine
