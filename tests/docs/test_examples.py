"""The examples run as they stand, and each leaves the run that it speaks of."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

import wattstep
from wattstep.schema.figure import Status

# A line of the fixtures' Orin NX, with a power that is easy to multiply by.
TEGRASTATS = (
    "06-25-2025 09:43:11 RAM 3412/15657MB (lfb 176x4MB) SWAP 0/7828MB (cached 0MB) CPU [50%@1984,"
    "0%@1984,0%@1984,0%@1984,0%@1036,0%@1036,0%@1036,0%@1036] GR3D_FREQ 0% cpu@55.062C gpu@51.75C "
    "tj@55.562C VDD_IN 5000mW/5000mW VDD_CPU_GPU_CV 1213mW/1213mW VDD_SOC 1579mW/1579mW"
)
EXAMPLES = Path(__file__).parents[2] / "examples"


def run_example(name: str, *arguments: str | Path, code: int = 0) -> str:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *map(str, arguments)],
        capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", ["own_loop.py", "gan.py"])
def test_a_loop_of_one_s_own(name: str, tmp_path: Path) -> None:
    text = run_example(name, tmp_path / "run")
    run = wattstep.load(tmp_path / "run")
    assert run.report().steps.recorded == 200
    assert run.metrics["energy_per_step"].status is Status.MODELLED
    assert "ms" in text or "µs" in text


def test_joules_a_token(tmp_path: Path) -> None:
    text = run_example("lora_tokens.py", tmp_path / "run")
    metrics = wattstep.load(tmp_path / "run").metrics
    sample, token = metrics["energy_per_sample"], metrics["energy_per_token"]
    assert float(token) == pytest.approx(float(sample) / 64)
    # Rank 4 beside 64 x 256 and 256 x 64, in two layers.
    assert text.startswith(f"{2 * 2 * 4 * (64 + 256):,} weights are trained")


@pytest.mark.parametrize(
    ("name", "library", "steps"),
    [("lightning_fit.py", "lightning", 100), ("transformers_trainer.py", "accelerate", 16)],
)
def test_trainers_of_others(name: str, library: str, steps: int, tmp_path: Path) -> None:
    pytest.importorskip(library, reason=f"{library} is not installed")
    text = run_example(name, tmp_path / "runs")
    (path,) = {file.parent for file in (tmp_path / "runs").glob("*/run.json")}
    run = wattstep.load(path)
    assert run.report().steps.recorded == steps
    assert run.metrics["throughput"].value
    assert "Energy per sample" in text


def test_a_board(tmp_path: Path) -> None:
    text = run_example("board.py", "emulate:jetson-tx2", tmp_path / "run")
    assert "jetson" in text.lower()
    assert "Energy per step" in text


def test_a_build_fails_only_where_the_interval_bears_it_out(tmp_path: Path) -> None:
    for name in ("a", "b"):
        run_example("own_loop.py", tmp_path / name)
    text = run_example("compare_in_ci.py", tmp_path / "a", tmp_path / "b", "10000")
    assert text.startswith("step time, ")
    ratio = wattstep.compare(tmp_path / "a", tmp_path / "b").metrics["step_time"].ratio
    # An allowance of -90 %; steps that differ much, as on a busy machine, may have no interval.
    worse = ratio.low is not None and ratio.low > 0.1
    run_example("compare_in_ci.py", tmp_path / "a", tmp_path / "b", "-90", code=int(worse))


def test_a_trace_of_a_profiler(tmp_path: Path) -> None:
    text = run_example("import_trace.py", tmp_path / "run")
    run = wattstep.load(tmp_path / "run")
    assert "AddmmBackward0" in {row.name for row in run.report().operations}
    assert "imported" in text or "kineto" in text.lower()


def test_a_trace_of_a_profiler_with_the_log_of_tegrastats_beside_it(tmp_path: Path) -> None:
    """A log at a constant 5 W, ten minutes long, dated as the trace is: a step takes 5 W times its time."""
    log, begin = tmp_path / "tegrastats.log", time.time() - 60
    seconds = (begin + 0.1 * tick for tick in range(6_600))
    log.write_text("".join(f"{second:.6f}::{TEGRASTATS}\n" for second in seconds))
    run_example("import_trace.py", tmp_path / "run", log)
    run = wattstep.load(tmp_path / "run")
    energy, step_time = run.metrics["energy_per_step"], run.metrics["step_time"]
    assert float(energy) == pytest.approx(5.0 * float(step_time), rel=0.01)
    assert energy.status is Status.MEASURED
    assert "rail.vdd_in" in (energy.source or "")
    imported = run.report().imported
    assert [each["format"] for each in imported["telemetry"]] == ["tegrastats"]
    assert "AddmmBackward0" in {row.name for row in run.report().operations}


def test_a_sweep_in_sql(tmp_path: Path) -> None:
    lines = run_example("sweep_front.py", tmp_path / "swept").splitlines()
    assert [line.split()[0] for line in lines[-3:]] == ["batch", "1", "8"]


def test_the_notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    document = json.loads((EXAMPLES / "notebook.ipynb").read_text())
    names: dict[str, object] = {}
    for cell in document["cells"]:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), "notebook", "exec"), names)
    run = names["run"]
    assert isinstance(run, wattstep.run.Run)
    assert "step time" in run._repr_html_().lower()
    assert not document["cells"][1]["outputs"]


def test_each_example_stands_in_the_list() -> None:
    listed = (EXAMPLES / "README.md").read_text()
    files = [path.name for path in EXAMPLES.iterdir() if path.suffix in (".py", ".ipynb")]
    assert len(files) == 11
    assert [name for name in files if f"]({name})" not in listed] == []


def test_a_plan_for_a_phone_says_what_it_rests_on() -> None:
    text = run_example("plan_for_phone.py")
    assert text.startswith("batch ")
    assert text.count("predicted)") == 5
    assert "could go wrong:" in text
