"""Lightning's Trainer with the callback: the run is what was trained, and the training is the same."""

from __future__ import annotations

import math
import time
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.burning import burn
from tests.integrations.offline import kept_by_wandb
from tests.integrations.witness import Witness, batches_by_step, samples, within_rest
from tests.wording import saying

from wattstep.errors import InvalidValueError, RecordingError
from wattstep.record.recorder import RecordingWarning
from wattstep.run import Run, load

lightning = pytest.importorskip("lightning", reason="lightning is not installed")
from lightning.pytorch.callbacks import Callback, ModelCheckpoint, TQDMProgressBar  # noqa: E402
from lightning.pytorch.loggers import CSVLogger  # noqa: E402

from wattstep.integrations.lightning import WattstepCallback  # noqa: E402

pytestmark = [
    # Lightning asks torch's tree of types in a way that torch has since renamed.
    pytest.mark.filterwarnings("ignore:.*LeafSpec.*:"),
    pytest.mark.filterwarnings("ignore:.*does not have many workers:"),
    pytest.mark.filterwarnings("ignore:.*Checkpoint directory .* exists and is not empty:"),
    pytest.mark.filterwarnings("ignore:.*resuming from a checkpoint that ended before the epoch:"),
]


class Net(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = torch.nn.Sequential(
            torch.nn.Linear(8, 16), torch.nn.Dropout(0.5), torch.nn.Linear(16, 4)
        )
        self.witness = Witness()

    def training_step(self, batch: Any, index: int) -> Any:
        begin = time.perf_counter_ns()
        x, y = batch
        burn(0.01)  # so that the sampler sees every step
        loss = torch.nn.functional.cross_entropy(self.net(x), y)
        self.log("loss", loss)
        self.witness.batch(begin, loss.item())
        return loss

    def validation_step(self, batch: Any, index: int) -> None:
        begin = time.perf_counter_ns()
        self.log("val", self.net(batch[0]).mean())
        self.witness.evaluation(begin)

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.1)


class Adversaries(Net):
    """Two optimizers by hand: both make a step on each batch."""

    automatic_optimization = False

    def training_step(self, batch: Any, index: int) -> None:
        for optimizer in self.optimizers():
            optimizer.zero_grad()
            self.manual_backward(self.net(batch[0]).mean())
            optimizer.step()

    def configure_optimizers(self) -> Any:
        return [torch.optim.SGD(self.parameters(), lr=0.1) for _ in range(2)]


def loader(count: int, batch: int = 4) -> Any:
    made = torch.Generator().manual_seed(7)
    data = torch.utils.data.TensorDataset(
        torch.randn(count, 8, generator=made), torch.randint(0, 4, (count,), generator=made)
    )
    return torch.utils.data.DataLoader(data, batch_size=batch)


def fit(
    folder: Path,
    callbacks: list[Any],
    *,
    net: Net | None = None,
    data: Any = None,
    resume: Path | None = None,
    **options: Any,
) -> Net:
    torch.manual_seed(0)
    net = net or Net()
    settings = {
        "max_epochs": 2,
        "logger": False,
        "enable_checkpointing": False,
        "enable_progress_bar": False,
        **options,
    }
    trainer = lightning.Trainer(
        accelerator="cpu",
        callbacks=callbacks,
        enable_model_summary=False,
        default_root_dir=folder,
        **settings,
    )
    trainer.fit(net, data or loader(10 * 4 + 3), loader(8), ckpt_path=resume, weights_only=False)
    return net


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Net, Path]:
    """Two epochs of 10 batches of 4 and one of 3, two of which make a step; evaluated after each."""
    folder = tmp_path_factory.mktemp("fit")
    callback = WattstepCallback(
        folder / "runs", power_model="linear:1,1", trace="every:3", strict=True, log=False
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        net = fit(
            folder,
            [callback, ModelCheckpoint(folder / "kept")],
            accumulate_grad_batches=2,
            logger=CSVLogger(folder),
            log_every_n_steps=2,
            enable_checkpointing=True,
        )
    return load(callback.runs[0]), net, folder


def test_a_step_is_an_optimizer_step_and_the_last_batches_count_as_many_as_they_hold(
    recorded: tuple[Run, Net, Path],
) -> None:
    run, net, _ = recorded
    assert samples(run) == ([8.0] * 5 + [3.0]) * 2
    assert batches_by_step(run, net.witness) == ([2] * 5 + [1]) * 2
    assert run.info.batch_size == 4
    assert run.info.options["accumulate"] == 2
    assert run.info.state == "closed"


def test_the_loss_of_a_step_is_the_mean_of_its_batches(recorded: tuple[Run, Net, Path]) -> None:
    run, net, _ = recorded
    first = net.witness.losses[:2]
    assert run.series.steps.loss[0] == pytest.approx(sum(first) / 2, rel=1e-6)
    assert run.series.steps.loss[5] == pytest.approx(net.witness.losses[10], rel=1e-6)


def test_evaluations_checkpoints_and_logging_are_rests_outside_of_the_steps(
    recorded: tuple[Run, Net, Path],
) -> None:
    run, net, _ = recorded
    assert len(net.witness.evaluations) == 2 + 2 * 2  # two before the first step, to try it out
    del net.witness.evaluations[:2]
    assert within_rest(run, net.witness, "evaluation")
    rests = run.series.steps.rest_ns
    assert len(rests["evaluation"]) == 2
    assert len(rests["checkpointing"]) == 2
    assert len(rests["logging"]) > 2


def test_a_canary_looks_at_the_machine_before_the_first_step_and_after_the_last(
    recorded: tuple[Run, Net, Path],
) -> None:
    run, _, _ = recorded
    steps, spans = run.series.steps, run.series.steps.rest_ns["canary"]
    assert len(spans) == 2
    assert spans[0, 1] <= steps.start_ns[0]
    assert spans[1, 0] >= steps.end_ns[-1]
    assert run.info.canary["kind"] == "numpy"
    assert run.info.canary["before"]["right"]
    assert run.info.canary["after"]["right"]


def test_energy_is_that_of_the_steps(recorded: tuple[Run, Net, Path]) -> None:
    """With 1 W a core, idle or busy, joules are seconds times cores."""
    run, _, _ = recorded
    metrics = run.metrics()
    cores = run.info.device["cores"]
    assert metrics["machine_mean_power"].value == pytest.approx(cores, rel=0.01)
    # Of that the training's own, by its CPU time.
    assert 0 < metrics["mean_power"].value < 1.01 * cores
    assert metrics["mean_power"].status.value == "modelled"


def test_phases_and_layers_are_the_modules_own(recorded: tuple[Run, Net, Path]) -> None:
    run, _, _ = recorded
    assert {row["phase"] for row in run.document()["phases"]} == {
        "data", "forward", "backward", "optimizer",
    }  # fmt: skip
    assert any("net.0" in str(row["layer"]) for row in run.document()["layers"])


class Pair(lightning.LightningModule):
    """Two networks, trained by hand one after the other in each batch."""

    def __init__(self) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.one, self.other = torch.nn.Linear(8, 4), torch.nn.Linear(8, 4)

    def training_step(self, batch: Any, index: int) -> None:
        for net, optimizer in zip((self.one, self.other), self.optimizers(), strict=True):
            loss = net(batch[0]).square().mean()
            optimizer.zero_grad()
            self.manual_backward(loss)
            optimizer.step()

    def configure_optimizers(self) -> Any:
        return [torch.optim.SGD(n.parameters(), lr=0.1) for n in (self.one, self.other)]


def test_a_network_that_follows_an_optimizer_goes_forward(tmp_path: Path) -> None:
    callback = WattstepCallback(tmp_path / "runs", trace="every:3", strict=True)
    trainer = lightning.Trainer(
        max_epochs=1, callbacks=[callback], logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False, accelerator="cpu",
    )  # fmt: skip
    data = torch.utils.data.TensorDataset(torch.randn(96, 8))
    trainer.fit(Pair(), torch.utils.data.DataLoader(data, batch_size=4))
    rows = load(callback.runs[-1]).operations()
    linear = {(r["layer"], r["phase"]) for r in rows if r["name"] == "aten::linear"}
    assert linear == {("one", "forward"), ("other", "forward")}


def test_the_callback_changes_nothing_of_the_training(tmp_path: Path) -> None:
    plain = fit(tmp_path, [], accumulate_grad_batches=2)
    callback = WattstepCallback(tmp_path / "runs", trace="every:3", strict=True)
    with_it = fit(tmp_path, [callback], accumulate_grad_batches=2)
    assert with_it.witness.losses == plain.witness.losses
    for one, other in zip(with_it.parameters(), plain.parameters(), strict=True):
        assert torch.equal(one, other)


def test_several_optimizers_of_a_batch_make_one_step(tmp_path: Path) -> None:
    callback = WattstepCallback(tmp_path / "runs", trace="none", strict=True)
    fit(tmp_path, [callback], net=Adversaries(), max_epochs=1)
    assert samples(load(callback.runs[0])) == [4.0] * 10 + [3.0]


def test_several_fits_make_several_runs_and_a_resumed_one_keeps_its_numbers(
    tmp_path: Path,
) -> None:
    callback = WattstepCallback(tmp_path / "runs", trace="none", strict=True)
    kept = ModelCheckpoint(tmp_path / "kept", save_last=True)
    fit(tmp_path, [callback, kept], max_epochs=1, enable_checkpointing=True)
    last = tmp_path / "kept" / "last.ckpt"
    fit(tmp_path, [callback, kept], max_epochs=2, enable_checkpointing=True, resume=last)
    first, second = (load(path) for path in callback.runs)
    assert first.series.steps.index.tolist() == list(range(11))
    assert second.series.steps.index.tolist() == list(range(11, 22))
    assert second.series.steps.warmup.tolist() == [True] * 3 + [False] * 8


def test_an_evaluation_between_the_batches_of_a_step_takes_the_step_out(tmp_path: Path) -> None:
    callback = WattstepCallback(tmp_path / "runs", trace="none", strict=True)
    fit(tmp_path, [callback], max_epochs=1, accumulate_grad_batches=4, val_check_interval=6)
    run = load(callback.runs[0])
    # Batches 1 to 4, 5 to 8 with the evaluation after the sixth, 9 to 11.
    assert run.series.steps.index.tolist() == [0, 2]
    assert samples(run) == [16.0, 11.0]
    assert saying(run.info.notes, "1 steps", "left out")


class Failing(Callback):
    def __init__(self, error: BaseException) -> None:
        self.error = error

    def on_train_batch_start(self, trainer: Any, module: Any, batch: Any, index: int) -> None:
        if index == 5:
            raise self.error


@pytest.mark.parametrize(
    ("error", "seen"), [(ZeroDivisionError(), ZeroDivisionError), (KeyboardInterrupt(), SystemExit)]
)
def test_a_training_that_fails_leaves_a_closed_run(
    tmp_path: Path, error: BaseException, seen: type[BaseException]
) -> None:
    callback = WattstepCallback(tmp_path / "runs", trace="none")
    with pytest.raises(seen):
        fit(tmp_path, [Failing(error), callback])
    run = load(callback.runs[0])
    assert run.info.state == "closed"
    assert len(run.series.steps.index) == 5
    assert saying(run.info.notes, "training ended", type(error).__name__)


def test_a_recording_that_fails_is_said_and_the_training_goes_on(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file, no folder")
    callback = WattstepCallback(tmp_path / "taken")
    with pytest.warns(RecordingWarning, match=r"RecordingError.*goes on"):
        net = fit(tmp_path, [callback])
    assert len(net.witness.losses) == 22
    assert callback.runs == []
    with pytest.raises(RecordingError):
        fit(tmp_path, [WattstepCallback(tmp_path / "taken", strict=True)])


@pytest.mark.parametrize(
    "settings", [{"interval": "0"}, {"trace": "some"}, {"power_model": "x"}, {"log_every": 0}]
)
def test_settings_that_cannot_be_used_are_refused_at_once(settings: dict[str, Any]) -> None:
    with pytest.raises(InvalidValueError):
        WattstepCallback(**settings)


def test_figures_reach_the_trainers_logger_and_the_progress_bar(tmp_path: Path) -> None:
    class Slow(Callback):
        """Until the recorder has looked at the power."""

        words = ""

        def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
            end = time.monotonic() + 60
            while not self.words and time.monotonic() < end:
                burn(0.05)
                callback._session.live.look(trainer.global_step, 1.0)
                shown = trainer.progress_bar_callback.get_metrics(trainer, trainer.model)
                self.words = shown.get("energy", "")

    callback = WattstepCallback(tmp_path / "runs", power_model="linear:1,1", log_every=4)
    slow, logger = Slow(), CSVLogger(tmp_path)
    bar = TQDMProgressBar()
    fit(tmp_path, [callback, slow, bar], logger=logger, enable_progress_bar=True, max_epochs=1,
        log_every_n_steps=5)  # fmt: skip
    assert "J so far" in slow.words
    assert "modelled" in slow.words
    table = (Path(logger.log_dir) / "metrics.csv").read_text()
    assert "wattstep/modelled/energy_so_far_J" in table
    assert "wattstep/modelled/energy_per_step_J" in table
    assert "wattstep/energy_per_step_J" not in table
    words = (Path(logger.log_dir) / "hparams.yaml").read_text()
    assert "wattstep/status/energy_per_step: modelled" in words
    assert "get_metrics" not in vars(bar)
    assert math.isfinite(float(load(callback.runs[0]).metrics()["energy_per_step"].value))


# MLflow's file store says that it will end.
@pytest.mark.filterwarnings("ignore::FutureWarning:mlflow")
@pytest.mark.filterwarnings("ignore:.*could not infer the batch_size:")
def test_figures_reach_the_logger_that_stands_for_another_library(tmp_path: Path) -> None:
    for name in ("mlflow", "wandb", "tensorboard"):
        pytest.importorskip(name, reason=f"{name} is not installed")
    import mlflow
    import wandb
    from lightning.pytorch.loggers import MLFlowLogger, TensorBoardLogger, WandbLogger
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    store = f"file:{tmp_path / 'mlruns'}"
    loggers = [
        TensorBoardLogger(tmp_path, name="events", version=""),
        MLFlowLogger(tracking_uri=store),
        WandbLogger(save_dir=tmp_path, offline=True, dir=str(tmp_path)),
    ]
    callback = WattstepCallback(tmp_path / "runs", power_model="linear:1,1", strict=True)
    fit(tmp_path, [callback], logger=loggers, max_epochs=1, log_every_n_steps=5)
    wandb.finish()
    name = "wattstep/modelled/energy_per_step_J"
    joules = pytest.approx(load(callback.runs[0]).metrics()["energy_per_step"].value, rel=1e-6)
    events = EventAccumulator(str(tmp_path / "events")).Reload()
    assert [(e.step, e.value) for e in events.Scalars(name)] == [(11, joules)]
    kept = mlflow.MlflowClient(store).get_run(loggers[1].run_id).data
    assert kept.metrics[name] == joules
    assert kept.tags["wattstep/status/energy_per_step"] == "modelled"
    history, summary = kept_by_wandb(tmp_path)
    assert history[name] == joules
    assert summary["wattstep/status/energy_per_step"] == "modelled"
