"""A real training with a real foreground job beside it, after its recorded steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch

from wattstep.errors import InvalidValueError
from wattstep.run import Run, load
from wattstep.train.loop import train
from wattstep.train.settings import TrainingSettings

TABLE = "foreground.parquet"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    threads = torch.get_num_threads()
    settings = TrainingSettings(
        workload="lenet",
        steps=10,
        threads=1,
        trace="none",
        foreground=0.5,
        out=str(tmp_path_factory.mktemp("foreground") / "run"),
    )
    recorder = train(settings, lambda progress: None)
    torch.set_num_threads(threads)
    assert recorder.problem is None
    return load(recorder.path)


def rows(run: Run, kind: str, where: str) -> list[dict[str, Any]]:
    table = pq.read_table(run.path / TABLE).to_pylist()
    return [row for row in table if (row["kind"], row["where"]) == (kind, where)]


def test_the_recorded_steps_end_before_the_foreground_begins(run: Run) -> None:
    steps = run.series.steps
    assert len(steps.index) == 13  # warm-up and ten
    spans = steps.rest_ns["foreground"]
    assert len(spans) == 1
    assert steps.end_ns[-1] <= spans[0, 0]
    begins = [row["begin_ns"] for row in pq.read_table(run.path / TABLE).to_pylist()]
    assert spans[0, 0] < min(begins) < max(begins) < spans[0, 1]


def test_as_many_frames_are_played_alone_as_beside_the_training(run: Run) -> None:
    assert len(rows(run, "frame", "alone")) == len(rows(run, "frame", "beside")) == 30
    assert rows(run, "step", "beside")


def test_the_run_says_what_the_training_does_to_the_job_and_the_job_to_it(run: Run) -> None:
    metrics = run.metrics()
    found = metrics["foreground_delay"]
    assert found["delay"].value == pytest.approx(found["beside"].value - found["alone"].value)
    for where in ("alone", "beside"):
        assert found[where].value > 0
        assert 0 <= found[f"missed_{where}"].value <= 1
    assert metrics["training_slowdown"].value > 0
    document = run.document()
    assert document["metrics"]["foreground_delay"]["delay"]["status"] == "measured"


def test_a_run_without_a_job_has_no_such_metric(run: Run, tmp_path: Path) -> None:
    old = tmp_path / "old"
    old.mkdir()
    for path in run.path.iterdir():
        if path.is_file() and path.name != TABLE:
            (old / path.name).write_bytes(path.read_bytes())
    assert "foreground_delay" not in load(old).metrics()


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ({"foreground": 0.0}, "--foreground-seconds 0"),
        ({"foreground": 1.0, "nice": 20}, "--nice 20"),
        ({"nice": 5}, "give --foreground"),
    ],
)
def test_settings_that_mean_nothing_are_refused(setting: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidValueError, match=words):
        TrainingSettings(workload="lenet", **setting)
