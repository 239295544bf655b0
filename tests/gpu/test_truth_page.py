"""The page of `benchmarks/gpu_truth.py` is made to its end, on a played GPU."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PARTS = ("steps", "marks", "cost", "kernels", "energy", "memory")


def test_every_part_makes_its_table_and_power_agrees_with_nvml_s_counter(tmp_path: Path) -> None:
    """Of a GPU that draws 300 W always; figures of its steps are held against the truth elsewhere."""
    page = tmp_path / "page.md"
    paths = [str(HERE / "nvml"), str(HERE.parents[1]), os.environ.get("PYTHONPATH", "")]
    done = subprocess.run(
        [
            sys.executable, str(HERE / "truth.py"), "--workloads", "lenet", "--seconds", "0.3",
            "--output", str(page),
        ],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
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
