"""Simulated steps on 68 equal cores: what per-kind threads and running operations together save, and where most.

    python benchmarks/scheduled_manycore.py [--cores 68] [--batches 4,16,64] [--workloads NAME,...]

Nothing here is measured: times are those of `wattstep.schedule.times.MachineTimes`, with the assumptions that stand
there and in docs/scheduling.md. What is asked is a shape: does running operations together pay most where
operations scale worst, as Liu et al. (arXiv 1810.08955) saw it, and does that hold whatever the assumptions?
Scaling is the work on one core over that on all cores of the default plan: 1 is perfect. The correlation is
Spearman's, of what co-running saves beyond threads per kind with the part of the cores that is wasted.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Final
from unittest import mock

from scipy.stats import spearmanr

from wattstep import engines, workloads
from wattstep.schedule import times as assumed
from wattstep.schedule.machine import Machine, manycore
from wattstep.schedule.placing import Costs, lower_bound
from wattstep.schedule.policies import find
from wattstep.schedule.simulate import simulate
from wattstep.schedule.tasks import Task, TaskGraph
from wattstep.schedule.times import MachineTimes
from wattstep.schema.workload import Preparation

WORKLOADS: Final = "resnet50,dcgan,inceptionv1,char-cnn"
POLICIES: Final = ("default", "global", "per-kind", "co-run", "fill", "critical-path")
# By what each assumption is multiplied, all others as they are.
VARIATIONS: Final[Mapping[str, Sequence[float]]] = {
    "FORK_S": (0.25, 4.0),
    "THREAD_S": (0.25, 4.0),
    "SWITCH_S": (0.0, 4.0),
    "GRAIN_BYTES": (0.25, 4.0),
    "DENSE_EFFICIENCY": (0.5, 1.8),
}
SERIAL_TIMES: Final = (0.2, 5.0)
Row = tuple[float, dict[str, float], float]  # scaling, makespans by policy, bound


def row(graph: TaskGraph, machine: Machine, policies: Sequence[str] = POLICIES) -> Row:
    """Scaling of a step's operations, its makespan by each policy, and the bound of all plans."""
    times = MachineTimes(machine)
    spans = {
        name: simulate(graph, find(name)(graph, times, machine), times, machine).makespan_s
        for name in policies
    }
    alone = sum(times.seconds(task, 1).value for task in graph.tasks)
    return (
        alone / machine.count / spans["default"],
        spans,
        max(lower_bound(Costs(graph, times, machine))),
    )


def gain(spans: Mapping[str, float]) -> float:
    """Part of the step that co-running saves beyond threads per kind."""
    return 1 - spans["co-run"] / spans["per-kind"]


@contextmanager
def changed(name: str, factor: float) -> Iterator[None]:
    """With one assumption multiplied."""
    with mock.patch.object(assumed, name, getattr(assumed, name) * factor):
        yield


def correlation(rows: Sequence[Row]) -> tuple[float, float]:
    """Spearman's, of the gain with the waste of cores, and its probability by chance."""
    result = spearmanr(
        [gain(spans) for _, spans, _ in rows], [1 - scaling for scaling, _, _ in rows]
    )
    return float(result.statistic), float(result.pvalue)


def controlled(machine: Machine) -> None:
    """One graph, whose operations are made to scale better and worse: nothing else differs."""
    print("\none graph (8 chains of 12 operations, 20 MFLOPs each), its serial part varied")
    print("serial part   scaling   per-kind   co-run   saved by co-running")
    chains = [
        Task(
            name="operation", kind="made", shape="", reads=(chain,), writes=(chain,), flops=20_000_000,
            bytes_moved=100_000,
        )
        for _ in range(12)
        for chain in range(8)
    ]  # fmt: skip
    graph = TaskGraph.of(chains, [10_000] * 8)
    for serial in (0.0, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0):
        with mock.patch.object(assumed, "SERIAL_OTHER", serial):
            scaling, spans, _ = row(graph, machine, ("default", "per-kind", "co-run"))
        print(
            f"{serial:11.1%} {scaling:9.2f} {spans['per-kind'] * 1e3:7.2f} ms {spans['co-run'] * 1e3:6.2f} ms "
            f"{gain(spans):15.0%}"
        )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--cores", type=int, default=68)
    parser.add_argument("--batches", default="4,16,64")
    parser.add_argument("--workloads", default=WORKLOADS)
    options = parser.parse_args()
    machine = manycore(options.cores)
    graphs = {
        (name, int(batch)): engines.capture_tasks(
            workloads.find(name), Preparation(batch_size=int(batch)), "fp32"
        )
        for name in options.workloads.split(",")
        for batch in options.batches.split(",")
    }
    print(f"{machine.title}; makespan in ms, in brackets the part of the default's")
    print(
        "workload      batch  tasks scaling  bound  "
        + "  ".join(f"{name:>14}" for name in POLICIES)
    )
    rows = {}
    for (name, batch), graph in graphs.items():
        rows[name, batch] = scaling, spans, bound = row(graph, machine)
        print(
            f"{name:13} {batch:5} {len(graph.tasks):6} {scaling:7.2f} {bound * 1e3:6.2f}  "
            + "  ".join(
                f"{span * 1e3:7.2f} ({span / spans['default']:4.0%})" for span in spans.values()
            )
        )
    best = [1 - spans["critical-path"] / spans["default"] for _, spans, _ in rows.values()]
    recommended = [1 - spans["critical-path"] / spans["global"] for _, spans, _ in rows.values()]
    print(
        f"saved by critical-path: {sum(best) / len(best):.0%} on average of the default (at most {max(best):.0%}), "
        f"{sum(recommended) / len(best):.0%} of the best global number of threads (at most {max(recommended):.0%})"
    )
    rho, chance = correlation(list(rows.values()))
    print(
        f"co-running's gain with wasted cores: Spearman {rho:+.2f} (p {chance:.3f}, {len(rows)} steps)"
    )
    controlled(machine)
    print("\nwith other assumptions: Spearman, average saved by critical-path of the default")
    cases = [(name, factor) for name, factors in VARIATIONS.items() for factor in factors]
    for name, factor in cases:
        with changed(name, factor):
            _print_case(f"{name} x {factor:g}", graphs, machine)
    for factor in SERIAL_TIMES:
        serial = {kind: min(1.0, part * factor) for kind, part in assumed.SERIAL.items()}
        with mock.patch.object(assumed, "SERIAL", serial), changed("SERIAL_OTHER", factor):
            _print_case(f"SERIAL x {factor:g}", graphs, machine)
    [cluster] = machine.clusters
    for factor in (0.1, 3.0):
        started = replace(machine, clusters=(replace(cluster, launch_s=cluster.launch_s * factor),))
        _print_case(f"launch x {factor:g}", graphs, started)


def _print_case(what: str, graphs: Mapping[tuple[str, int], TaskGraph], machine: Machine) -> None:
    policies = ("default", "per-kind", "co-run", "critical-path")
    rows = [row(graph, machine, policies) for graph in graphs.values()]
    saved = [1 - spans["critical-path"] / spans["default"] for _, spans, _ in rows]
    rho, _ = correlation(rows)
    print(f"  {what:22} {rho:+.2f} {sum(saved) / len(saved):6.0%}")


if __name__ == "__main__":
    main()
