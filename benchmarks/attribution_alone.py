"""Operations of a network alone in a loop against their share inside it: same process, threads and clock, in turns."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from attribution_load import ahead
from wattstep import workloads
from wattstep.attribution.tables.regression_input import process_of, regression_result
from wattstep.engines.torch.trainer import TorchTrainer
from wattstep.record.recorder import Recorder
from wattstep.record.sensors.process_cpu import open_task_clocks
from wattstep.recorded.power import EnergySource
from wattstep.run import Run, load
from wattstep.schema.figure import Missing, Status
from wattstep.schema.workload import Preparation
from wattstep.workloads.torch import TorchWorkload

LAST_LEVEL = Path("/sys/devices/system/cpu/cpu0/cache/index3/size")
UNKNOWN_CACHE = 64 << 20
NAMES = {
    ("conv", "forward"): "aten::conv2d",
    ("conv", "backward"): "ConvolutionBackward0",
    ("linear", "forward"): "aten::linear",
    ("linear", "backward"): "AddmmBackward0",
}
ROUNDS = 8
ROUND_S = 1.5  # of training between the loops
LOOP_S = 0.15  # of each operation, cold and warm


@dataclass(frozen=True, kw_only=True, eq=False)
class Alone:
    """An operation of a layer and how to do it by itself.

    Attributes:
        layer: Module path.
        kind: "conv" or "linear".
        phase: "forward" or "backward".
        calls: What it does, once for each set of buffers: more of them than the cache holds.
    """

    layer: str
    kind: str
    phase: str
    calls: Sequence[Callable[[], Any]]

    @property
    def name(self) -> str:
        return NAMES[self.kind, self.phase]


def cache_bytes() -> int:
    """Of the last level of cache."""
    try:
        text = LAST_LEVEL.read_text().strip()
    except OSError:
        return UNKNOWN_CACHE
    return int(text.removesuffix("K")) << 10 if text.endswith("K") else int(text)


def operations(model: nn.Module, step: Callable[[], Any], most: int) -> list[Alone]:
    """Convolutions and linear layers of a model, forward and backward, the largest first."""
    seen: dict[str, tuple[nn.Module, tuple[int, ...], tuple[int, ...]]] = {}

    def remember(name: str) -> Any:
        def hook(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
            seen[name] = (module, tuple(inputs[0].shape), tuple(output.shape))

        return hook

    hooks = [
        module.register_forward_hook(remember(name))
        for name, module in model.named_modules()
        if isinstance(module, (nn.Conv2d, nn.Linear))
    ]
    step()
    for hook in hooks:
        hook.remove()
    chosen = sorted(seen, key=lambda name: -_work(*seen[name]))[:most]
    # The first layer's input needs no gradient: its backward is another operation.
    first = next(iter(seen))
    return [
        Alone(
            layer=name, kind="conv" if isinstance(seen[name][0], nn.Conv2d) else "linear",
            phase=phase, calls=_calls(*seen[name], phase, name != first),
        )
        for name in chosen for phase in ("forward", "backward")
    ]  # fmt: skip


def _work(module: nn.Module, inputs: tuple[int, ...], output: tuple[int, ...]) -> float:
    weight = module.weight
    assert isinstance(weight, Tensor)
    return float(np.prod(output)) * weight[0].numel()


def _calls(
    module: Any, inputs: tuple[int, ...], output: tuple[int, ...], phase: str, gradient: bool
) -> list[Callable[[], Any]]:
    """The operation on buffers of its own, as many times as fill the cache twice."""
    one = 4 * (int(np.prod(inputs)) + int(np.prod(output)) + module.weight.numel())
    count = int(np.clip(2 * cache_bytes() // one + 1, 2, 400))
    return [_call(module, inputs, output, phase, gradient) for _ in range(count)]


def _call(
    module: Any, inputs: tuple[int, ...], output: tuple[int, ...], phase: str, gradient: bool
) -> Callable[[], Any]:
    x, weight, grad = torch.randn(inputs), torch.randn_like(module.weight), torch.randn(output)
    bias = None if module.bias is None else torch.randn_like(module.bias)
    if isinstance(module, nn.Linear):
        if phase == "forward":
            return lambda: functional.linear(x, weight, bias)
        flat_x, flat = x.flatten(0, -2), grad.flatten(0, -2)
        return lambda: (flat @ weight, flat.t() @ flat_x)
    if phase == "forward":
        return lambda: functional.conv2d(
            x, weight, bias, module.stride, module.padding, module.dilation, module.groups
        )
    return lambda: torch.ops.aten.convolution_backward(
        grad, x, weight, None if bias is None else list(bias.shape), module.stride,
        module.padding, module.dilation, False, [0, 0], module.groups,
        [gradient, True, bias is not None],
    )  # fmt: skip


def loop(calls: Sequence[Callable[[], Any]], clocks: list[int]) -> tuple[float, float]:
    """Wall and CPU time of a call in s, over about `LOOP_S`."""
    for call in calls[:2]:
        call()
    begin, cpu, count = time.perf_counter(), _cpu(clocks), 0
    while time.perf_counter() - begin < LOOP_S:
        calls[count % len(calls)]()
        count += 1
    return (time.perf_counter() - begin) / count, (_cpu(clocks) - cpu) * 1e-9 / count


def _cpu(clocks: list[int]) -> int:
    return sum(int.from_bytes(os.read(clock, 8), "little") for clock in clocks)


def measured(folder: Path, workload: str, batch: int, most: int, first: bool) -> dict[str, Any]:
    """The network recorded, and its operations in loops between stretches of its training."""
    engine = TorchTrainer(
        TorchWorkload(workloads.find(workload)), Preparation(batch_size=batch), threads=1
    )
    for _ in range(3):
        engine.step()
    chosen = operations(engine.training.model, engine.step, most)
    engine.training.model.zero_grad()
    recorder = Recorder(folder, model=engine.training.model, trace="every:10", warmup=3)
    times: dict[tuple[str, str, str], list[tuple[float, float]]] = {}
    with recorder, torch.no_grad():
        clocks = open_task_clocks(os.getpid())  # now: the sampler would inherit what is open before
        if first:
            ahead()
        for _ in range(ROUNDS):
            gc.collect()
            begin = time.perf_counter()
            while time.perf_counter() - begin < ROUND_S:
                with torch.enable_grad(), recorder.step(samples=batch) as one:
                    one.loss = engine.step(recorder.phase)
            with recorder.apart("alone"):
                for each in chosen:
                    for state, calls in (("cold", each.calls), ("warm", each.calls[:1])):
                        key = (each.layer, each.name, state)
                        times.setdefault(key, []).append(loop(calls, clocks))
    return {"chosen": chosen, "times": times}


def inside(run: Run) -> dict[tuple[str, str], dict[str, Any]]:
    """Time and CPU time of operations within a step, by overlap and by regression."""
    breakdown = run.breakdown
    channel = next(run.series.with_role("process_cpu_time"))
    source = EnergySource(
        curve=run.series.curve(channel), status=Status.MEASURED, source=channel.source, prompt=True
    )
    process = process_of(breakdown, source)
    if isinstance(process, Missing):
        raise SystemExit(process)
    found = regression_result([process], source)
    shared = breakdown.plain.shared("cpu_time")
    assert shared is not None
    position = {int(code): number for number, code in enumerate(process.code)}
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    codes = breakdown.plain.codes("operations")
    for key, row in breakdown.plain.rows("operations").items():
        mine = codes[key]
        members = np.array([position[int(code)] for code in mine if int(code) in position])
        entry = {
            "time": row.time, "calls": row.figures.value("calls"),
            "overlap": float(shared[mine].sum()), "regression": None,
        }  # fmt: skip
        groups = [g for g in found.regression.groups if len(np.intersect1d(g.members, members))]
        if len(members) and len(groups) == 1:
            group = groups[0]
            entry["regression"] = group.energy if len(group.members) == len(members) else None
            entry["group"] = f"{len(group.members)} of {found.label(group)}"
        rows[row.layer, row.name] = entry
    return rows


def compared(
    folder: Path, workload: str, batch: int, most: int, first: bool
) -> list[dict[str, Any]]:
    """One row an operation: alone, and inside the network, in s of wall and CPU time a step."""
    alone = measured(folder, workload, batch, most, first)
    within = inside(load(folder))
    rows = []
    for each in alone["chosen"]:
        found = within.get((each.layer, each.name))
        if found is None:
            continue
        row: dict[str, Any] = {"layer": each.layer, "name": each.name, "calls": found["calls"]}
        for state in ("cold", "warm"):
            values = np.array(alone["times"][each.layer, each.name, state])
            row[state], row[f"{state}_cpu"] = (float(v) for v in np.median(values, axis=0))
            low, high = np.percentile(values[:, 0], [10, 90])
            row[f"{state}_spread"] = (float(low), float(high))
        row["time"] = found["time"].to_dict()
        row["overlap_cpu"] = found["overlap"]
        row["regression_cpu"] = (
            None if found["regression"] is None else found["regression"].to_dict()
        )
        row["group"] = found.get("group")
        rows.append(row)
    return rows


def show(rows: list[dict[str, Any]]) -> None:
    print(
        f"{'operation':24} {'layer':14} {'inside, ms':>22} {'alone cold':>10} {'warm':>8} "
        f"{'cold/inside':>11} {'CPU: overlap':>12} {'regression':>22} {'cold':>8} {'warm':>8}"
    )
    for row in rows:
        time_ = row["time"]
        inside_s = time_["value"]
        shown = f"{inside_s * 1e3:.3f} ({(time_['low'] or 0) * 1e3:.3f}-{(time_['high'] or 0) * 1e3:.3f})"
        by = row["regression_cpu"]
        told = (
            f"with {row['group']}"
            if by is None
            else f"{by['value'] * 1e3:.3f} ({by['low'] * 1e3:.3f}-{by['high'] * 1e3:.3f})"
        )
        print(
            f"{row['name']:24} {row['layer']:14} {shown:>22} {row['cold'] * 1e3:10.3f} "
            f"{row['warm'] * 1e3:8.3f} {row['cold'] / inside_s - 1:+11.1%} "
            f"{row['overlap_cpu'] * 1e3:12.3f} {told:>22} {row['cold_cpu'] * 1e3:8.3f} "
            f"{row['warm_cpu'] * 1e3:8.3f}"
        )
