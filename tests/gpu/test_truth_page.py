"""The page of `benchmarks/gpu_truth.py` is made to its end, on a played GPU."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import wattstep

# A profiler of five steps: a kernel of 3 ms, a copy of 1 ms each.
NSYS = """#!/bin/sh
test "$1" = stats || exit 0
echo "Start (ns),Duration (ns),CorrId,Bytes (MB),Device,Ctx,Strm,Name"
for step in 1 2 3 4 5; do
    echo "${step}0000000,3000000,${step}1,,Played GPU (0),1,7,kernel"
    echo "${step}4000000,1000000,${step}2,1.000,Played GPU (0),1,7,[CUDA memcpy Host-to-Device]"
done
"""
HERE = Path(__file__).parent
BENCHMARK = HERE.parents[1] / "benchmarks" / "gpu_truth.py"
PARTS = ("steps", "marks", "cost", "kernels", "energy", "memory")


def test_every_part_makes_its_table_and_power_agrees_with_nvml_s_counter(tmp_path: Path) -> None:
    """Of a GPU that draws 300 W always; figures of its steps are held against the truth elsewhere."""
    page, shipped, programs = tmp_path / "page.md", tmp_path / "shipped", tmp_path / "bin"
    programs.mkdir()
    (programs / "nsys").write_text(NSYS)
    (programs / "nsys").chmod(0o755)
    paths = [str(HERE / "nvml"), str(HERE.parents[1]), os.environ.get("PYTHONPATH", "")]
    done = subprocess.run(
        [
            sys.executable, str(HERE / "truth.py"), "--workloads", "lenet", "--seconds", "0.3",
            "--output", str(page), "--keep", str(shipped),
        ],
        env={
            **os.environ, "PYTHONPATH": os.pathsep.join(paths),
            "PATH": os.pathsep.join([str(programs), os.environ["PATH"]]),
        },
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    text = page.read_text()
    assert "Not measured" not in text
    sections = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", text, re.M | re.S))
    assert tuple(sections) == PARTS
    for section in sections.values():
        assert re.search(r"^\|---.*\n\| ", section, re.M), section
    energy = next(line for line in sections["energy"].splitlines() if line.startswith("| lenet"))
    _, _, counter, sampled, off, *_ = (cell.strip() for cell in energy.split("|"))
    (told,) = map(float, re.findall(r"^([\d.]+) J$", counter))
    gained, covered = map(float, re.findall(r"([\d.]+) J of ([\d.]+)%", sampled)[0])
    # Where a busy machine kept the sampler from reading, the run has a gap, and says so.
    assert gained / (covered / 100) == pytest.approx(told, rel=0.05)
    assert off.endswith("%")
    kernels = next(line for line in sections["kernels"].splitlines() if line.startswith("| lenet"))
    summed, by, _, time_off, energy_off = (cell.strip() for cell in kernels.split("|")[3:8])
    assert (summed, by) == ("4.000 ms", "nsys")
    assert abs(float(time_off)) < 1e-6
    # The card averages over a second: of a run that a busy machine does not make longer nothing is told.
    assert energy_off.startswith("no energy") or abs(float(energy_off)) < 1e-6
    memory = next(line for line in sections["memory"].splitlines() if line.startswith("| lenet"))
    assert memory.split("|")[3].strip() == "0 B"
    run = wattstep.load(shipped / "gpu-lenet")
    assert run.info.device_clock["device"] == "gpu0"
    assert sum(file.stat().st_size for file in shipped.rglob("*")) < 4 * 2**20


def test_energy_that_parts_leave_out_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """2 + 1 J in rows and 1 in what is not resolved of 5 J; a rail whose parts make its step."""
    monkeypatch.syspath_prepend(str(BENCHMARK.parent))
    truth: Any = importlib.import_module("gpu_truth")

    def row(seconds: float, joules: float) -> dict[str, Any]:
        rail = {"rail.GPU": {"value": joules / 2}}
        return {"time": {"value": seconds}, "energy": {"value": joules}, "energy_by_rail": rail}

    document = {
        "operations": [row(0.5, 2.0), row(0.25, 1.0)], "rests": {"idle": row(0.25, 0.0)},
        "metrics": {"step_time": {"value": 1.0}, "energy_per_step": {"value": 5.0}},
        "energy_by_rail": {"rail.GPU": {"value": 1.5}},
        "not_resolved": {"operations": {"energy": {"value": 1.0}}},
    }  # fmt: skip
    assert truth._not_conserved(document) == (0.0, "-2.0e-01")


def test_what_the_minutes_leave_out_is_said(tmp_path: Path) -> None:
    """With none left each part names all of its trainings, and the page is written."""
    page = tmp_path / "page.md"
    done = subprocess.run(
        [
            sys.executable, str(BENCHMARK), "--processor", "cpu", "--minutes", "0", "--parts",
            "cost,kernels", "--workloads", "lenet,gpt", "--output", str(page),
        ],
        env={**os.environ, "PYTHONPATH": str(HERE.parents[1] / "src")},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    assert page.read_text().count("was over: lenet, gpt") == 2
