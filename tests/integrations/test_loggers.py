"""Figures of a recorded run in MLflow, Weights & Biases and TensorBoard, read back by their own readers."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from tests.burning import burn
from tests.integrations.offline import kept_by_wandb
from tests.refusals import refused

from wattstep.errors import InvalidValueError
from wattstep.integrations import log_run
from wattstep.integrations.naming import metric_name, named
from wattstep.record.recorder import Recorder
from wattstep.run import Run, load
from wattstep.schema.extras import require
from wattstep.schema.figure import Figure, Status, missing
from wattstep.schema.figures import Figures

NAME = "wattstep/modelled/energy_per_step_J"
HOSTILE = "</script><script>evil('\x1b[31m')"


def figure(status: str, value: float = 2.5, unit: str = "J") -> Figure:
    return Figure(value=value, unit=unit, status=Status(status), source="a meter")


@pytest.mark.parametrize(
    ("status", "name"),
    [
        ("measured", "wattstep/energy_per_step_J"),
        ("attributed", "wattstep/energy_per_step_J"),
        ("replayed", "wattstep/replayed/energy_per_step_J"),
        ("modelled", NAME),
        ("predicted", "wattstep/predicted/energy_per_step_J"),
    ],
)
def test_what_was_not_measured_never_has_the_name_of_what_was(status: str, name: str) -> None:
    assert metric_name("energy_per_step", figure(status)) == name


def test_a_missing_figure_is_no_number_but_a_reason() -> None:
    found = named(Figures({"energy_per_step": missing("J", "no power sensor")}))
    assert found.numbers == {}
    assert found.words == {
        "wattstep/status/energy_per_step": "missing",
        "wattstep/reason/energy_per_step": "no power sensor",
    }


def test_intervals_lists_and_mappings_have_names_of_their_own() -> None:
    both = Figure(value=2, low=1, high=3, unit="s", status=Status.MEASURED)
    cores = [figure("measured", 0.5, "ratio"), figure("measured", 0.25, "ratio")]
    memory = {HOSTILE: figure("counted", 7, "B")}
    found = named(Figures({"step_time": both, "core": cores, "memory": memory}))
    assert found.numbers == {
        "wattstep/step_time_s": 2.0,
        "wattstep/step_time_s_low": 1.0,
        "wattstep/step_time_s_high": 3.0,
        "wattstep/core_ratio/0": 0.5,
        "wattstep/core_ratio/1": 0.25,
        "wattstep/memory_B/_script_script_evil_31m_": 7.0,
    }


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Ten steps with modelled power; the trace is missing."""
    path = tmp_path_factory.mktemp("runs") / "mine"
    with Recorder(path, trace="none", power_model="linear:1,1") as recorder:
        for _ in range(10):
            with recorder.step(samples=4):
                burn(0.03)  # some samples of the sampler's
    return load(path)


def figure_of(run: Run) -> Any:
    return run.metrics()["energy_per_step"]


@pytest.mark.filterwarnings("ignore::FutureWarning:mlflow")  # its file store says that it will end
def test_mlflow_keeps_metrics_tags_and_the_report(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mlflow = pytest.importorskip("mlflow", reason="mlflow is not installed")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"file:{tmp_path / 'mlruns'}")
    with refused("no-active-run", "start_run"):
        log_run(run, to="mlflow")
    with mlflow.start_run() as active:
        log_run(run, to="mlflow", report=True)
        log_run(run.path, to=active, step=11)
    client = mlflow.MlflowClient()
    history = client.get_metric_history(active.info.run_id, NAME)
    assert [entry.step for entry in history] == [10, 11]
    assert history[0].value == pytest.approx(figure_of(run).value)
    tags = client.get_run(active.info.run_id).data.tags
    assert tags["wattstep/status/energy_per_step"] == "modelled"
    assert tags["wattstep/status/trace_inflation"] == "missing"
    assert tags["wattstep/reason/trace_inflation"] == run.metrics()["trace_inflation"].reason
    assert not any(
        "trace_inflation" in name for name in client.get_run(active.info.run_id).data.metrics
    )
    [report] = client.list_artifacts(active.info.run_id, "wattstep")
    assert (
        "<html"
        in Path(client.download_artifacts(active.info.run_id, report.path)).read_text()[:500]
    )


def test_wandb_keeps_history_and_summary(run: Run, tmp_path: Path) -> None:
    wandb = pytest.importorskip("wandb", reason="wandb is not installed")
    with refused("no-active-run", "wandb.init"):
        log_run(run, to="wandb")
    with wandb.init(dir=str(tmp_path), mode="offline") as active:
        log_run(run, to=["wandb"])
        assert active.summary["wattstep/status/energy_per_step"] == "modelled"
    history, summary = kept_by_wandb(tmp_path)
    assert history[NAME] == pytest.approx(figure_of(run).value)
    assert history["wattstep/step"] == 10
    assert summary["wattstep/status/energy_per_step"] == "modelled"
    assert summary["wattstep/reason/trace_inflation"]


@pytest.mark.parametrize("library", ["torch.utils.tensorboard", "tensorboardX", "folder"])
def test_tensorboard_keeps_scalars_and_texts(run: Run, tmp_path: Path, library: str) -> None:
    pytest.importorskip("tensorboard", reason="tensorboard is not installed")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    if library == "folder":
        log_run(run, to=f"tensorboard:{tmp_path}", report=True)
    else:
        writer = pytest.importorskip(library, reason=f"{library} is not installed").SummaryWriter(
            str(tmp_path)
        )
        log_run(run, to=writer, report=True)
        writer.close()
    events = EventAccumulator(str(tmp_path)).Reload()
    [entry] = events.Scalars(NAME)
    assert entry.step == 10
    assert entry.value == pytest.approx(figure_of(run).value, rel=1e-6)
    [said] = events.Tensors("wattstep/status/energy_per_step/text_summary")
    assert said.tensor_proto.string_val == [b"modelled"]
    assert (tmp_path / "mine.html").stat().st_size > 10_000


@pytest.mark.parametrize("to", ["nowhere", "tensorboard:", "lightning", 7, object()])
def test_what_takes_no_figures_is_refused(run: Run, to: object) -> None:
    pytest.importorskip("tensorboard", reason="tensorboard is not installed")
    with pytest.raises(InvalidValueError):
        log_run(run, to=to)


@pytest.mark.parametrize("library", ["lightning", "mlflow", "wandb", "tensorboard"])
def test_a_library_that_is_not_there_is_named_with_its_extra(
    library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with refused("missing-extra", f"wattstep[{library}]"):
        require(library)
