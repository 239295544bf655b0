"""Hugging Face's Trainer and TRL's with the callback: the run is what was trained, and the training is the same."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.burning import burn
from tests.integrations.offline import kept_by_wandb
from tests.integrations.witness import Witness, batches_by_step, samples, within_rest
from tests.wording import saying

from wattstep.errors import RecordingError
from wattstep.record.recorder import RecordingWarning
from wattstep.run import Run, load

pytest.importorskip("accelerate", reason="accelerate is not installed")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")

from wattstep.integrations.transformers import WattstepCallback  # noqa: E402

WORDS = 50


def model() -> Any:
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        n_layer=2, n_head=2, n_embd=16, vocab_size=WORDS, n_positions=8, bos_token_id=0,
        eos_token_id=0,
    )  # fmt: skip
    return transformers.GPT2LMHeadModel(config)


def data(count: int) -> list[dict[str, Any]]:
    made = torch.Generator().manual_seed(1)
    texts = [torch.randint(0, WORDS, (8,), generator=made) for _ in range(count)]
    return [{"input_ids": text, "labels": text} for text in texts]


class Watched(transformers.Trainer):
    """A trainer of somebody's own, as they are subclassed."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.witness = Witness()

    def training_step(self, *args: Any, **kwargs: Any) -> Any:
        begin = time.perf_counter_ns()
        burn(0.01)  # so that the sampler sees every step
        loss = super().training_step(*args, **kwargs)
        self.witness.batch(begin, loss.item())
        return loss

    def prediction_step(self, *args: Any, **kwargs: Any) -> Any:
        begin = time.perf_counter_ns()
        found = super().prediction_step(*args, **kwargs)
        self.witness.evaluation(begin)
        return found


def trainer(folder: Path, callbacks: list[Any], **options: Any) -> Watched:
    settings = {
        "per_device_train_batch_size": 4,
        "num_train_epochs": 2,
        "report_to": "none",
        "save_strategy": "no",
        "logging_steps": 100,
        **options,
    }
    arguments = transformers.TrainingArguments(
        str(folder / "out"), use_cpu=True, dataloader_pin_memory=False, **settings
    )
    return Watched(
        model=model(), args=arguments, train_dataset=data(10 * 4 + 3), eval_dataset=data(8),
        callbacks=callbacks,
    )  # fmt: skip


def train(folder: Path, callbacks: list[Any], resume: str | None = None, **options: Any) -> Watched:
    made = trainer(folder, callbacks, **options)
    made.train(resume_from_checkpoint=resume)
    return made


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Watched, Path]:
    """Two epochs of 10 batches of 4 and one of 3, two of which make a step."""
    folder = tmp_path_factory.mktemp("train")
    callback = WattstepCallback(
        folder / "runs", power_model="linear:1,1", trace="every:3", strict=True
    )
    done = train(
        folder, [callback], gradient_accumulation_steps=2, logging_steps=2, eval_strategy="steps",
        eval_steps=4, save_strategy="epoch",
    )  # fmt: skip
    return load(callback.runs[0]), done, folder


def test_a_step_is_an_optimizer_step_and_the_last_batches_count_as_many_as_they_hold(
    recorded: tuple[Run, Watched, Path],
) -> None:
    run, done, _ = recorded
    assert done.state.global_step == 12
    assert samples(run) == ([8.0] * 5 + [3.0]) * 2
    assert batches_by_step(run, done.witness) == ([2] * 5 + [1]) * 2
    assert run.info.batch_size == 4
    assert run.info.options["accumulate"] == 2


def test_the_loss_of_a_step_is_what_its_batches_add_to_it(
    recorded: tuple[Run, Watched, Path],
) -> None:
    run, done, _ = recorded
    assert run.series.steps.loss[0] == pytest.approx(sum(done.witness.losses[:2]), rel=1e-6)


def test_evaluations_checkpoints_and_logging_are_rests_outside_of_the_steps(
    recorded: tuple[Run, Watched, Path],
) -> None:
    run, done, _ = recorded
    assert len(done.witness.evaluations) == 3  # after steps 4, 8 and 12
    assert within_rest(run, done.witness, "evaluation")
    rests = run.series.steps.rest_ns
    assert len(rests["evaluation"]) == 3
    assert len(rests["checkpointing"]) == 2
    assert len(rests["logging"]) == 6


def test_energy_is_that_of_the_steps(recorded: tuple[Run, Watched, Path]) -> None:
    """With 1 W a core, idle or busy, joules are seconds times cores."""
    run, _, _ = recorded
    metrics, cores = run.metrics(), run.info.device["cores"]
    assert metrics["machine_mean_power"].value == pytest.approx(cores, rel=0.01)
    # Of that the training's own, by its CPU time.
    assert 0 < metrics["mean_power"].value < 1.01 * cores
    assert metrics["mean_power"].status.value == "modelled"


def test_phases_and_layers_are_the_models_own(recorded: tuple[Run, Watched, Path]) -> None:
    run, _, _ = recorded
    assert {row["phase"] for row in run.document()["phases"]} == {
        "data", "forward", "backward", "clipping", "optimizer",
    }  # fmt: skip
    assert any("transformer.h.0" in str(row["layer"]) for row in run.document()["layers"])


def test_the_callback_changes_nothing_of_the_training(tmp_path: Path) -> None:
    plain = train(tmp_path, [], gradient_accumulation_steps=2)
    callback = WattstepCallback(tmp_path / "runs", trace="every:3", strict=True)
    with_it = train(tmp_path, [callback], gradient_accumulation_steps=2)
    assert with_it.witness.losses == plain.witness.losses
    for one, other in zip(with_it.model.parameters(), plain.model.parameters(), strict=True):
        assert torch.equal(one, other)
    assert "training_step" not in vars(with_it)
    assert "backward" not in vars(with_it.accelerator)


def test_several_trainings_make_several_runs_and_a_resumed_one_keeps_its_numbers(
    tmp_path: Path,
) -> None:
    callback = WattstepCallback(tmp_path / "runs", trace="none", strict=True)
    train(tmp_path, [callback], save_strategy="steps", save_steps=7, max_steps=9)
    train(tmp_path, [callback], str(tmp_path / "out" / "checkpoint-7"), max_steps=14)
    first, second = (load(path) for path in callback.runs)
    assert first.series.steps.index.tolist() == list(range(9))
    assert second.series.steps.index.tolist() == list(range(7, 14))
    assert second.series.steps.warmup.tolist() == [True] * 3 + [False] * 4
    assert samples(second) == [4.0] * 3 + [3.0] + [4.0] * 3


class Failing(transformers.TrainerCallback):
    def __init__(self, error: BaseException) -> None:
        self.error = error

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step == 5:
            raise self.error


@pytest.mark.parametrize("error", [ZeroDivisionError(), KeyboardInterrupt()])
def test_a_training_that_fails_leaves_a_closed_run(tmp_path: Path, error: BaseException) -> None:
    callback = WattstepCallback(tmp_path / "runs", trace="none")
    made = trainer(tmp_path, [Failing(error), callback])
    before = list(made.callback_handler.callbacks)
    with pytest.raises(type(error)):
        made.train()
    run = load(callback.runs[0])
    assert run.info.state == "closed"
    assert len(run.series.steps.index) == 5
    assert saying(run.info.notes, "training ended", type(error).__name__)
    assert made.callback_handler.callbacks == before


def test_a_recording_that_fails_is_said_and_the_training_goes_on(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file, no folder")
    callback = WattstepCallback(tmp_path / "taken")
    with pytest.warns(RecordingWarning, match=r"RecordingError.*goes on"):
        done = train(tmp_path, [callback])
    assert len(done.witness.losses) == 22
    with pytest.raises(RecordingError):
        train(tmp_path, [WattstepCallback(tmp_path / "taken", strict=True)])


def test_an_evaluation_that_a_callback_makes_is_a_rest_too(tmp_path: Path) -> None:
    class Evaluating(transformers.TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            if state.global_step == 3:
                control.should_evaluate = True

    callback = WattstepCallback(tmp_path / "runs", trace="none", strict=True)
    done = train(tmp_path, [callback, Evaluating()], max_steps=6)
    run = load(callback.runs[0])
    assert within_rest(run, done.witness, "evaluation")
    assert samples(run) == [4.0] * 6


def test_joules_stand_in_the_progress_line(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    class Slow(transformers.TrainerCallback):
        """Until the recorder has looked at the power, before it is asked."""

        def on_pre_optimizer_step(self, *_: Any, **__: Any) -> None:
            end = time.monotonic() + 60
            live = callback._session.live
            while live.energy_per_step.missing and time.monotonic() < end:
                burn(0.05)
                live.look(1, 1.0)

    callback = WattstepCallback(tmp_path / "runs", power_model="linear:1,1", strict=True)
    train(tmp_path, [callback, Slow()], max_steps=3, disable_tqdm=False)
    said = capfd.readouterr().err
    # The first reading may be of 50 ms in which the training next to waited: µJ.
    assert re.search(r"3/3 .*≈ [\d.]+ [mµ]?J/step, [\d.]+ [mµ]?J so far, modelled", said)


@pytest.fixture
def logged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A training that three loggers were told of."""
    for name in ("mlflow", "wandb", "tensorboard"):
        pytest.importorskip(name, reason=f"{name} is not installed")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TENSORBOARD_LOGGING_DIR", str(tmp_path / "events"))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"file:{tmp_path / 'mlruns'}")
    import wandb

    wandb.init(dir=str(tmp_path), mode="offline")  # the Trainer takes the run that is there
    callback = WattstepCallback(
        tmp_path / "runs", power_model="linear:1,1", log_every=4, strict=True, report=True
    )
    train(tmp_path, [callback], report_to=["mlflow", "wandb", "tensorboard"], max_steps=20)
    wandb.finish()
    return tmp_path


# wandb asks pydantic in a way that it has since renamed; MLflow's file store says that it will end.
@pytest.mark.filterwarnings("ignore::DeprecationWarning:wandb")
@pytest.mark.filterwarnings("ignore::FutureWarning:mlflow")
def test_figures_reach_the_loggers_that_the_trainer_has_open(logged: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run = load(next((logged / "runs").iterdir()))
    joules = run.metrics()["energy_per_step"].value
    name = "wattstep/modelled/energy_per_step_J"

    import mlflow

    found = mlflow.search_runs(experiment_names=["Default"], output_format="list")[0]
    assert found.data.metrics[name] == pytest.approx(joules)
    assert found.data.tags["wattstep/status/energy_per_step"] == "modelled"
    assert found.info.status == "FINISHED"  # transformers ended it, and after us
    files = mlflow.MlflowClient().list_artifacts(found.info.run_id, "wattstep")
    assert [Path(file.path).suffix for file in files] == [".html"]

    events = EventAccumulator(str(logged / "events")).Reload()
    assert [e.step for e in events.Scalars(name)] == [20]
    assert events.Scalars(name)[0].value == pytest.approx(joules)
    history, summary = kept_by_wandb(logged)
    assert history[name] == pytest.approx(joules)
    assert summary["wattstep/status/energy_per_step"] == "modelled"


# TRL still sets what transformers calls otherwise now.
@pytest.mark.filterwarnings("ignore:`gradient_checkpointing` is deprecated:FutureWarning")
def test_trl_trains_with_it(tmp_path: Path) -> None:
    trl = pytest.importorskip("trl", reason="trl is not installed")
    datasets = pytest.importorskip("datasets", reason="datasets is not installed")
    tokenizers = pytest.importorskip("tokenizers", reason="tokenizers is not installed")
    words = {f"w{n}": n for n in range(WORDS - 2)} | {"<pad>": WORDS - 2, "<eos>": WORDS - 1}
    plain = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="w0"))
    plain.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    reader = transformers.PreTrainedTokenizerFast(
        tokenizer_object=plain, pad_token="<pad>", eos_token="<eos>"
    )
    texts = datasets.Dataset.from_list([{"text": f"w{n} w{n + 1} w{n + 2}"} for n in range(22)])
    callback = WattstepCallback(tmp_path / "runs", trace="none", strict=True)
    tuner = trl.SFTTrainer(
        model=model(),
        args=trl.SFTConfig(
            str(tmp_path / "out"), per_device_train_batch_size=4, gradient_accumulation_steps=2,
            num_train_epochs=1, max_length=8, use_cpu=True, report_to="none", save_strategy="no",
            bf16=False, dataloader_pin_memory=False,
        ),
        train_dataset=texts,
        processing_class=reader,
        callbacks=[callback],
    )  # fmt: skip
    tuner.train()
    run = load(callback.runs[0])
    assert tuner.state.global_step == 3
    assert samples(run) == [8.0, 8.0, 6.0]
    assert run.info.workload == "GPT2LMHeadModel"


assert os.environ["HF_HUB_OFFLINE"] == "1"  # nothing here may ask for a model
