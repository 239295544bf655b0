"""Follows advice and sets the gain that came of it beside the gain that was predicted.

    python benchmarks/advice.py --seconds 10

Each case trains before and after the change in processes of their own, in the order A B B A. The
prediction comes from the first A alone, and from the ceilings that `wattstep ceilings` measured
before; without them, less is predicted.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CASES: dict[str, dict[str, Any]] = {
    "larger_batch": {"before": {"batch": 4}, "after": {"batch": 8}},
    "prefetch_data": {"before": {"delay": 0.005}, "after": {"delay": 0.005, "prefetch": True}},
    "fused_optimizer": {
        "before": {"model": "perceptron", "fused": False},
        "after": {"model": "perceptron", "fused": True},
    },
    "zero_gradients": {
        "before": {"model": "perceptron", "fused": True, "zero": True},
        "after": {"model": "perceptron", "fused": True, "zero": False},
    },
    "channels_last": {
        "before": {"model": "convolutions"},
        "after": {"model": "convolutions", "channels_last": True},
    },
    "more_threads": {
        "before": {"model": "convolutions", "batch": 16},
        "after": {"model": "convolutions", "batch": 16, "threads": "advised"},
    },
    "fewer_threads": {
        "before": {"threads": "all"},
        "after": {"threads": "advised"},
        "busy": True,
        "times": 4,  # of the seconds: steps may take a second
    },
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", help=f"of {', '.join(CASES)}; all where none is given")
    parser.add_argument("--seconds", type=float, default=10.0, help="of each training")
    parser.add_argument("--pairs", type=int, default=2, help="before and after, even")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        train(json.loads(arguments.child))
        return
    print(f"{'advice':16} {'predicted':>24} {'obtained (pairs)':>26} {'in CPU time':>11}  a sample")
    with tempfile.TemporaryDirectory() as folder:
        for name in arguments.cases or CASES:
            print(show(name, CASES[name], Path(folder), arguments), flush=True)


def show(name: str, case: dict[str, Any], folder: Path, arguments: argparse.Namespace) -> str:
    """Trains A B B A A B ..., each in a process; the line of the table."""
    cores = len(os.sched_getaffinity(0))
    seconds = arguments.seconds * case.get("times", 1)
    shared = {"batch": 4, "threads": 1, "seconds": seconds}
    before = {**shared, **case["before"]}
    before["threads"] = cores if before["threads"] == "all" else before["threads"]
    with busy_core() if case.get("busy") else nothing():
        first = run_child(before, folder / f"{name}-0-before")
        predicted, threads = prediction(name, first)
        after = {**before, **case["after"]}
        if after["threads"] == "advised":
            after["threads"] = threads or cores - 1
        runs = [(first, run_child(after, folder / f"{name}-0-after"))]
        for number in range(1, arguments.pairs):
            made = {}
            for which in ("before", "after") if number % 2 == 0 else ("after", "before"):
                settings = before if which == "before" else after
                made[which] = run_child(settings, folder / f"{name}-{number}-{which}")
            runs.append((made["before"], made["after"]))
    wall = [(sample_time(a), sample_time(b)) for a, b in runs]
    cpu = [(cpu_time(a), cpu_time(b)) for a, b in runs]
    gains = sorted(1 - b / a for a, b in wall)
    a_s, b_s = (statistics.median(pair[n] for pair in wall) for n in (0, 1))
    in_cpu = 1 - statistics.median(b for _, b in cpu) / statistics.median(a for a, _ in cpu)
    obtained = f"{1 - b_s / a_s:.0%} ({gains[0]:.0%} to {gains[-1]:.0%})"
    times = f"{a_s * 1e3:.3g} to {b_s * 1e3:.3g} ms"
    return f"{name:16} {predicted:>24} {obtained:>26} {in_cpu:>11.0%}  {times}"


def prediction(name: str, path: Path) -> tuple[str, int | None]:
    """The gain that is predicted, and how many threads are advised."""
    from wattstep.insight.explain import explain
    from wattstep.run import load

    section = next(iter(explain(load(path), ["advice"])))
    if section.reason:
        return f"none: {section.reason}", None
    tables = section.document()["tables"]
    row = next((row for row in tables["advice"] if row["name"] == name), None)
    if row is None:
        why = {row["name"]: row["reason"] for row in tables["not_advised"]}
        return f"none: {why[name.replace('_', ' ')]}", None
    words = row["do"].split()
    return shown(row["gain"]), int(words[2]) if words[2].isdecimal() else None


def shown(gain: Any) -> str:
    if gain.value is None:
        return f"not known: {gain.reason}"
    return f"{gain.value:.0%} ({gain.low:.0%} to {gain.high:.0%})"


def sample_time(path: Path) -> float:
    """Time of a sample in s, from the end of a step to that of the next."""
    from wattstep.run import load

    throughput = load(path).metrics()["throughput"].value
    return 1 / throughput if throughput else math.nan


def cpu_time(path: Path) -> float:
    """CPU time of the process for a sample in s: what else runs hardly touches it."""
    from wattstep.run import load

    metrics = load(path).metrics()
    cores, throughput = (metrics[name].value for name in ("process_cpu_cores", "throughput"))
    return cores / throughput if throughput else math.nan


def run_child(settings: dict[str, Any], path: Path) -> Path:
    command = [sys.executable, __file__, "--child", json.dumps({**settings, "path": str(path)})]
    subprocess.run(command, check=True)
    return path


@contextmanager
def nothing() -> Iterator[None]:
    yield


@contextmanager
def busy_core() -> Iterator[None]:
    """Another process that keeps one core busy."""
    child = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        child.kill()
        child.wait()


# --- what is trained, in a process of its own -----------------------------------------------------


def train(settings: dict[str, Any]) -> None:
    import queue
    import threading

    import torch

    from wattstep.record.recorder import Recorder

    torch.manual_seed(0)
    torch.set_num_threads(settings["threads"])
    batch, shape = settings["batch"], (1, 28, 28)
    model, shape = make_model(settings.get("model", "lenet"))
    if settings.get("channels_last"):
        model = model.to(memory_format=torch.channels_last)
    fused = {"fused": True} if settings.get("fused") else {"foreach": False}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, **fused)
    loss_of = torch.nn.CrossEntropyLoss()

    def load_batch() -> Any:
        if settings.get("delay"):
            time.sleep(settings["delay"])
        x = torch.randn(batch, *shape)
        if settings.get("channels_last"):
            x = x.to(memory_format=torch.channels_last)
        return x, torch.randint(0, 10, (batch,))

    ready: queue.Queue[Any] = queue.Queue(2)
    ended = threading.Event()

    def fill() -> None:
        while not ended.is_set():
            one = load_batch()
            while not ended.is_set():
                try:
                    ready.put(one, timeout=0.1)
                    break
                except queue.Full:
                    continue

    helper = threading.Thread(target=fill)
    if settings.get("prefetch"):
        helper.start()
    about = {
        "workload": settings.get("model", "lenet"), "title": "advice", "batch_size": batch,
        "threads": settings["threads"], "precision": "fp32", "processor": "cpu",
    }  # fmt: skip
    with Recorder(settings["path"], model=model, about=about) as recorder:
        end = time.perf_counter() + settings["seconds"]
        while time.perf_counter() < end:
            with recorder.step(samples=batch):
                recorder.phase("data")
                x, y = ready.get() if settings.get("prefetch") else load_batch()
                recorder.phase("forward")
                loss = loss_of(model(x), y)
                recorder.phase("backward")
                loss.backward()
                recorder.phase("optimizer")
                optimizer.step()
                optimizer.zero_grad(set_to_none=not settings.get("zero"))
    ended.set()
    if settings.get("prefetch"):
        helper.join()


def make_model(name: str) -> tuple[Any, tuple[int, ...]]:
    from torch import nn

    if name == "perceptron":
        layers = [nn.Flatten(), nn.Linear(784, 64), nn.ReLU()]
        for _ in range(20):
            layers += [nn.Linear(64, 64), nn.ReLU()]
        return nn.Sequential(*layers, nn.Linear(64, 10)), (1, 28, 28)
    if name == "convolutions":
        layers = [nn.Conv2d(3, 64, 3, padding=1), nn.ReLU()]
        for _ in range(3):
            layers += [nn.Conv2d(64, 64, 3, padding=1), nn.ReLU()]
        pool = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)]
        return nn.Sequential(*layers, *pool), (3, 32, 32)
    from torch.nn import AvgPool2d, Conv2d, Flatten, Linear, Tanh

    return nn.Sequential(
        Conv2d(1, 6, 5, padding=2), Tanh(), AvgPool2d(2), Conv2d(6, 16, 5), Tanh(), AvgPool2d(2),
        Flatten(), Linear(400, 120), Tanh(), Linear(120, 84), Tanh(), Linear(84, 10),
    ), (1, 28, 28)  # fmt: skip


if __name__ == "__main__":
    main()
