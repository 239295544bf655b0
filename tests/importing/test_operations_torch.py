"""Layers and phases of a trace that torch writes here of a model that is known."""

from __future__ import annotations

import gzip
import json
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from tests.importing.kineto_by_hand import rows_of, table, trace_of
from torch import nn

from wattstep.importing.importer import ImportSettings, import_run
from wattstep.importing.operations import TraceTables, tables_of
from wattstep.importing.phases import ENGINE
from wattstep.run import Run, load

STEPS = 2


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 3))
        self.head = nn.Linear(4, 2)

    def forward(self, x: Any) -> Any:
        return self.head(self.features(x).mean((2, 3)))


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> TraceTables:
    path = tmp_path_factory.mktemp("trace") / "trace.json"
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU],
        with_stack=True,
        schedule=torch.profiler.schedule(wait=0, warmup=1, active=STEPS, repeat=1),
        on_trace_ready=lambda profile: profile.export_chrome_trace(str(path)),
    ) as profile:
        for _ in range(1 + STEPS):
            nn.functional.mse_loss(model(torch.ones(2, 3, 8, 8)), torch.zeros(2, 2)).backward()
            optimizer.step()
            profile.step()
    packed = path.with_suffix(".json.gz")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    return tables_of(trace_of(rows_of(packed)))


def outermost(tables: TraceTables, *names: str) -> Counter[tuple[str, str | None, str | None]]:
    """Calls of operations by name, layer and phase."""
    return Counter(
        (row["name"], row["layer"], row["phase"])
        for row in table(tables)
        if row["name"] in names and row["outermost"]
    )


def test_operations_carry_the_modules_that_call_them(tables: TraceTables) -> None:
    assert outermost(tables, "aten::conv2d", "aten::relu", "aten::linear", "aten::mean") == {
        ("aten::conv2d", "Sequential_0.Conv2d_0", "forward"): STEPS,
        ("aten::relu", "Sequential_0.ReLU_0", "forward"): STEPS,
        ("aten::conv2d", "Sequential_0.Conv2d_1", "forward"): STEPS,
        ("aten::mean", "Net_0", "forward"): STEPS,
        ("aten::linear", "Linear_0", "forward"): STEPS,
    }
    assert tables.workload["modules"] == ["Net_0"]


def test_backward_operations_carry_the_modules_of_their_forward_ones(tables: TraceTables) -> None:
    assert outermost(
        tables, "ConvolutionBackward0", "ReluBackward0", "AddmmBackward0", "AccumulateGrad"
    ) == {
        ("ConvolutionBackward0", "Sequential_0.Conv2d_1", "backward"): STEPS,
        ("ReluBackward0", "Sequential_0.ReLU_0", "backward"): STEPS,
        ("ConvolutionBackward0", "Sequential_0.Conv2d_0", "backward"): STEPS,
        ("AddmmBackward0", "Linear_0", "backward"): STEPS,
        ("AccumulateGrad", "Linear_0", "backward"): 2 * STEPS,
        ("AccumulateGrad", "Sequential_0.Conv2d_1", "backward"): 2 * STEPS,
        ("AccumulateGrad", "Sequential_0.Conv2d_0", "backward"): 2 * STEPS,
    }


def test_steps_and_their_phases_are_those_of_the_loop(tables: TraceTables) -> None:
    assert tables.steps["index"].tolist() == list(range(1, 1 + STEPS))
    assert tables.steps["mark_name"].to_pylist() == [["forward", "backward", "optimizer"]] * STEPS
    updates = {row["phase"] for row in table(tables) if row["name"] == "aten::_foreach_add_"}
    assert updates <= {"optimizer"}


# --- scopes take no time from operations: read back from the JSON ---------------------------------


class Told(NamedTuple):
    """A trace as it was written, and the run that it makes."""

    events: list[dict[str, Any]]
    run: Run


def recorded(path: Path, body: Callable[[], None], **options: Any) -> Told:
    """What torch's profiler writes of this, and what is imported of that."""
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], **options
    ) as profile:
        body()
    profile.export_chrome_trace(str(path / "t.json"))
    events = [e for e in json.loads((path / "t.json").read_text())["traceEvents"] if "dur" in e]
    run = load(import_run(ImportSettings(trace=path / "t.json"), path / "run"))
    return Told(events, run)


def outermost_s(events: list[dict[str, Any]]) -> dict[str, float]:
    """Seconds of the operations that lie in no other of their thread, by name."""
    found: Counter[str] = Counter()
    ends: dict[int, float] = {}
    operations = [e for e in events if e.get("cat") == "cpu_op"]
    for event in sorted(operations, key=lambda e: (e["ts"], -e["dur"])):
        if event["ts"] >= ends.get(event["tid"], -1.0):
            found[event["name"].removeprefix(ENGINE).removeprefix("torch::autograd::")] += (
                event["dur"] * 1e-6
            )
            ends[event["tid"]] = event["ts"] + event["dur"]
    return dict(found)


def by_name(run: Run, what: str) -> dict[str, float]:
    found: Counter[str] = Counter()
    for row in run.operations():
        found[row["name"]] += row[what].value
    return dict(found)


def work() -> None:
    model, batch = Net(), torch.ones(4, 3, 16, 16)
    for _ in range(3):
        with torch.profiler.record_function("forward pass"):
            loss = model(batch).sum()
        loss.backward()


def named_whole() -> None:
    with torch.profiler.record_function("iteration"):
        work()


def beside_a_sleeper() -> None:
    """A second thread of Python that waits inside an annotation all the time."""
    done = threading.Event()

    def sleep() -> None:
        with torch.profiler.record_function("waits"):
            done.wait(60)

    thread = threading.Thread(target=sleep)
    thread.start()
    try:
        work()
    finally:
        done.set()
        thread.join()


@pytest.mark.parametrize(
    ("body", "options"),
    [(work, {"with_stack": True}), (named_whole, {}), (beside_a_sleeper, {"with_stack": True})],
    ids=["module frames", "one name around everything", "a thread that sleeps"],
)
def test_operations_have_all_the_time_that_the_trace_gives_them(
    tmp_path: Path, body: Callable[[], None], options: dict[str, Any]
) -> None:
    events, run = recorded(tmp_path, body, **options)
    expected = outermost_s(events)
    assert len(expected) > 4
    for what in ("time", "busy_time"):
        assert by_name(run, what) == pytest.approx(expected, rel=1e-3, abs=3e-8)
