"""What the callbacks cost of a training's steps, and whether they record what a hand-written loop does.

    python benchmarks/callbacks.py [--clock wall] [--trainers lightning,transformers] [--json]

Trainings without and with the callback in the order A B B A within one process, and A against A
beside it; each is timed from its step 20 to its last by a stopwatch that both have, which reads the
CPU time of the thread that trains, or with `--clock wall` the wall clock: what the sampler takes of
another core is in the second alone. Begin and end of the recording lie outside. `--part within` times
the callback's own work in each step instead, whose median a crowded machine moves little. Then the same model, data and optimizer in a loop of our own under a
`Recorder`: its run and the callback's, in turn.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from pairs import compare, interval, shown
from wattstep.integrations import live
from wattstep.record.recorder import Recorder
from wattstep.run import load

os.environ.update({"HF_HUB_OFFLINE": "1", "WANDB_MODE": "offline"})
SETTLING = 20  # steps
BATCH = 8
POWER = "vcpu"


CLOCKS = {"thread": time.thread_time, "wall": time.perf_counter}


class Stopwatch:
    """Seconds a step, from a step to the last."""

    clock = CLOCKS["thread"]

    def __init__(self) -> None:
        self.count = 0
        self.begin = self.end = 0.0

    def step(self) -> None:
        self.count += 1
        self.end = Stopwatch.clock()
        if self.count == SETTLING:
            self.begin = self.end

    @property
    def seconds(self) -> float:
        return (self.end - self.begin) / (self.count - SETTLING)


def network(width: int) -> torch.nn.Module:
    torch.manual_seed(0)
    layers: list[torch.nn.Module] = [torch.nn.Linear(64, width), torch.nn.ReLU()]
    for _ in range(6):
        layers += [torch.nn.Linear(width, width), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers, torch.nn.Linear(width, 10))


def samples(steps: int) -> torch.utils.data.TensorDataset:
    made = torch.Generator().manual_seed(1)
    count = steps * BATCH
    return torch.utils.data.TensorDataset(
        torch.randn(count, 64, generator=made), torch.randint(0, 10, (count,), generator=made)
    )


def with_lightning(width: int, steps: int, callbacks: list[Any]) -> float:
    """A training by Lightning; seconds a step."""
    import lightning

    watch = Stopwatch()

    class Net(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = network(width)

        def training_step(self, batch: Any, index: int) -> Any:
            return torch.nn.functional.cross_entropy(self.net(batch[0]), batch[1])

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.01)

    class Watching(lightning.pytorch.callbacks.Callback):
        def on_train_batch_end(self, *_: Any) -> None:
            watch.step()

    trainer = lightning.Trainer(
        max_epochs=1, accelerator="cpu", logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False, callbacks=[*callbacks, Watching()],
    )  # fmt: skip
    trainer.fit(Net(), torch.utils.data.DataLoader(samples(steps), batch_size=BATCH))
    return watch.seconds


class Classifier(torch.nn.Module):
    """The same network as transformers' Trainer calls it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.net = network(width)

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        found = self.net(x)
        return {"loss": torch.nn.functional.cross_entropy(found, labels), "logits": found}


def with_transformers(width: int, steps: int, callbacks: list[Any]) -> float:
    """A training by transformers; seconds a step."""
    import transformers

    watch = Stopwatch()

    class Watching(transformers.TrainerCallback):
        def on_step_end(self, *_: Any, **__: Any) -> None:
            watch.step()

    with tempfile.TemporaryDirectory() as folder:
        arguments = transformers.TrainingArguments(
            folder, per_device_train_batch_size=BATCH, num_train_epochs=1, use_cpu=True,
            report_to="none", save_strategy="no", logging_steps=10**6, disable_tqdm=True,
            optim="sgd", dataloader_pin_memory=False,
        )  # fmt: skip
        made = samples(steps)
        data = [{"x": made[n][0], "labels": made[n][1]} for n in range(len(made))]
        trainer = transformers.Trainer(
            model=Classifier(width), args=arguments, train_dataset=data,
            callbacks=[*callbacks, Watching()],
        )  # fmt: skip
        trainer.train()
    return watch.seconds


def by_hand(width: int, steps: int, folder: Path) -> Path:
    """The same training in a loop of our own."""
    net = network(width)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    path = folder / f"by-hand-{time.time_ns()}"
    batches = torch.utils.data.DataLoader(samples(steps), batch_size=BATCH)
    with Recorder(path, trace="none", power_model=POWER) as recorder:
        for x, y in batches:
            with recorder.step(samples=len(x)):
                recorder.phase("forward")
                loss = torch.nn.functional.cross_entropy(net(x), y)
                recorder.phase("backward")
                optimizer.zero_grad()
                loss.backward()
                recorder.phase("optimizer")
                optimizer.step()
    return path


TRAINERS: dict[str, Callable[[int, int, list[Any]], float]] = {
    "lightning": with_lightning,
    "transformers": with_transformers,
}


def callback_of(trainer: str, folder: Path, trace: str) -> Any:
    module = __import__(f"wattstep.integrations.{trainer}", fromlist=["WattstepCallback"])
    return module.WattstepCallback(folder, trace=trace, power_model=POWER, strict=True)


def within(options: Any, folder: Path) -> dict[str, float]:
    """Median time in s of a step that is spent in the callback, and of a look at the power."""
    found: dict[str, float] = {}
    look, looked = live.Live.look, []

    def looking(self: Any, *args: Any, **kwargs: Any) -> None:
        begin = time.perf_counter()
        look(self, *args, **kwargs)
        looked.append(time.perf_counter() - begin)

    live.Live.look = looking  # type: ignore[method-assign]
    for trainer in options.trainers.split(","):
        callback = callback_of(trainer, folder, "none")
        kind, spent, steps = type(callback), [0.0], []
        tell, step = kind._tell, Stopwatch.step

        def telling(self: Any, work: Any) -> None:
            begin = time.perf_counter()
            tell(self, work)  # noqa: B023
            spent[0] += time.perf_counter() - begin  # noqa: B023

        def stepping(self: Stopwatch) -> None:
            step(self)  # noqa: B023
            steps.append(spent[0])  # noqa: B023
            spent[0] = 0.0  # noqa: B023

        kind._tell, Stopwatch.step = telling, stepping
        TRAINERS[trainer](768, options.steps, [callback])
        kind._tell, Stopwatch.step = tell, step
        found[trainer] = statistics.median(steps[SETTLING:])
        print(f"{trainer}: {1e6 * found[trainer]:.0f} µs of a step in the callback (median)")
    live.Live.look = look  # type: ignore[method-assign]
    if looked:
        found["look"] = statistics.median(looked)
        print(f"a look at the power, once a second: {1e3 * found['look']:.2g} ms (median)")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trainers", default=",".join(TRAINERS))
    parser.add_argument("--widths", default="128,768", help="of the network's layers")
    parser.add_argument("--clock", choices=CLOCKS, default="thread")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--quadruples", type=int, default=8)
    parser.add_argument("--trace", default="none,auto")
    parser.add_argument("--part", default="within,ratio,hand")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    Stopwatch.clock = CLOCKS[options.clock]
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    folder = Path(tempfile.mkdtemp())
    parts = {"within": within, "ratio": ratios_of, "hand": against_a_loop}
    results = {name: parts[name](options, folder) for name in options.part.split(",")}
    if options.json:
        print(json.dumps(results, indent=1))


def ratios_of(options: Any, folder: Path) -> dict[str, Any]:
    """Steps with the callback against steps without."""
    found: dict[str, Any] = {}
    for trainer in options.trainers.split(","):
        train = TRAINERS[trainer]
        for width in map(int, options.widths.split(",")):
            for trace in options.trace.split(","):

                def plain() -> float:
                    return train(width, options.steps, [])  # noqa: B023

                def recorded() -> float:
                    return train(width, options.steps, [callback_of(trainer, folder, trace)])  # noqa: B023

                key = f"{trainer}, steps of {1e3 * plain():.2g} ms, trace={trace}"
                ratios = compare(plain, recorded, options.quadruples)
                print(
                    f"{key:46} {shown(ratios['recorded'])}   {shown(ratios['control'])}", flush=True
                )
                found[key] = {name: interval(values) for name, values in ratios.items()}
    return found


def against_a_loop(options: Any, folder: Path) -> dict[str, Any]:
    """Steps, samples, time and energy of a step: the callback's run and the hand-written loop's."""
    found: dict[str, Any] = {}
    for trainer in options.trainers.split(","):
        runs: dict[str, list[Path]] = {"callback": [], "by hand": []}
        for _ in range(5):
            callback = callback_of(trainer, folder, "none")
            TRAINERS[trainer](768, options.steps, [callback])
            runs["callback"] += callback.runs
            runs["by hand"].append(by_hand(768, options.steps, folder))
        for who, paths in runs.items():
            row = summed_up(paths)
            found[f"{trainer}: {who}"] = row
            print(f"{trainer:13} {who:9} {row}", file=sys.stdout)
    return found


def summed_up(paths: list[Path]) -> dict[str, Any]:
    opened = [load(path) for path in paths]
    metrics = [run.metrics() for run in opened]

    def middle(name: str) -> float:
        return float(f"{statistics.median(each[name].value for each in metrics):.4g}")

    return {
        "steps": sorted({len(run.series.steps.index) for run in opened}),
        "samples": sorted({float(run.series.steps.samples.sum()) for run in opened}),
        "step_time_s": middle("step_time"),
        "energy_per_step_J": middle("energy_per_step"),
    }


if __name__ == "__main__":
    main()
