"""The examples run as they stand, and each leaves the run that it speaks of."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import wattstep
from wattstep.schema.figure import Status

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
    assert text.startswith("step time, after to before: ")
    ratio = wattstep.compare(tmp_path / "a", tmp_path / "b").metrics["step_time"].ratio
    # An allowance of -90 %; steps that differ much, as on a busy machine, may have no interval.
    worse = ratio.low is not None and ratio.low > 0.1
    run_example("compare_in_ci.py", tmp_path / "a", tmp_path / "b", "-90", code=int(worse))


def test_a_trace_of_a_profiler(tmp_path: Path) -> None:
    text = run_example("import_trace.py", tmp_path / "run")
    run = wattstep.load(tmp_path / "run")
    assert "AddmmBackward0" in {row.name for row in run.report().operations}
    assert "imported" in text or "kineto" in text.lower()


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
    assert len(files) == 10
    assert [name for name in files if f"]({name})" not in listed] == []
