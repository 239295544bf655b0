"""The work of labeling a batch as tasks, for `schedule/`: which of them runs when, on which processor of a device."""

from __future__ import annotations

from dataclasses import dataclass, field

from wattstep.labeling.engine import Engine
from wattstep.labeling.heuristics import Heuristic
from wattstep.labeling.neighbourhood import NEIGHBOURS
from wattstep.schedule.tasks import Task, TaskGraph

SINGLE, DOUBLE = 4, 8  # bytes of a number
NODE = 32  # bytes that are read where a tree branches: feature, limit, child, value


@dataclass(kw_only=True)
class _Work:
    """Tasks as they are added, and the storages between them."""

    tasks: list[Task] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)

    def storage(self, size: int) -> int:
        """Number of a new storage of so many bytes."""
        self.sizes.append(max(size, 1))
        return len(self.sizes) - 1

    def add(
        self, name: str, kind: str, reads: tuple[int, ...], size: int, flops: int, shape: str,
        traffic: int = 0,
    ) -> int:  # fmt: skip
        """Adds a task; the storage that it writes, of `size` bytes.

        Args:
            traffic: Bytes that it moves beside those of its storages.
        """
        written = self.storage(size)
        moved = sum(self.sizes[one] for one in (*reads, written)) + traffic
        self.tasks.append(
            Task(
                name=f"label::{name}", kind=kind, shape=shape, reads=reads, writes=(written,),
                flops=flops, bytes_moved=moved, layer="labeling", phase="forward",
            )
        )  # fmt: skip
        return written


def graph_of(engine: Engine, samples: int, parts: int = 4) -> TaskGraph:
    """The tasks of labeling a batch with what an engine has learned; nothing is labeled.

    Args:
        engine: Whose rules, nodes and forest count.
        samples: Of the batch.
        parts: Pieces of about equal size whose tasks do not wait for each other, so that unequal processors can
            take unequal numbers of them.
    """
    work = _Work()
    graph = engine.graph
    assert graph is not None
    whole = work.storage(graph.nodes.size * SINGLE)
    counts = [samples * (n + 1) // parts - samples * n // parts for n in range(parts)]
    told = tuple(_add_part(work, engine, whole, count) for count in counts if count)
    _add_clustering(work, engine, told)
    return TaskGraph.of(work.tasks, work.sizes)


def _add_clustering(work: _Work, engine: Engine, told: tuple[int, ...]) -> None:
    """What a look into recent samples takes for new classes, where some are unknown; it waits for all parts.

    Args:
        told: Storages of what the parts say of their samples.
    """
    assert engine.test is not None
    held, d = engine.recent.x.shape
    unknown = round((1 - engine.test.prevalence) * held)
    if not unknown:
        return
    points = unknown + sum(len(each.core) for each in engine.discovery.clusters)
    recent = work.storage(held * d * DOUBLE)
    around = work.add(
        "around", "matrix product", (recent, *told), unknown * held * DOUBLE,
        2 * unknown * held * d, f"{unknown}x{d},{held}x{d}",
    )  # fmt: skip
    mutual = work.add(
        "mutual", "matrix product", (recent, *told), points * points * DOUBLE,
        2 * points * points * d, f"{points}x{d},{points}x{d}",
    )  # fmt: skip
    work.add(
        "clusters", "reduction", (around, mutual), unknown * DOUBLE,
        unknown * held + points * points, f"{unknown}x{held},{points}x{points}",
    )  # fmt: skip


def _add_part(work: _Work, engine: Engine, nodes: int, count: int) -> int:
    """The tasks of some samples; the storage of what is said of them."""
    graph = engine.graph
    assert graph is not None
    held, d = graph.nodes.shape
    classes = engine.classes
    batch = work.storage(count * d * DOUBLE)
    standard = work.add(
        "standardize", "elementwise", (batch,), count * d * DOUBLE, 4 * count * d, f"{count}x{d}"
    )
    squares = work.add(
        "distances", "matrix product", (standard, nodes), count * held * SINGLE,
        2 * count * held * d, f"{count}x{d},{held}x{d}",
    )  # fmt: skip
    masses = work.add(
        "nearest", "reduction", (squares,), count * graph.masses.shape[1] * SINGLE,
        2 * count * held + count * NEIGHBOURS * graph.masses.shape[1], f"{count}x{held}",
    )  # fmt: skip
    far = work.add(
        "ellipsoids", "matrix product", (standard,), count * DOUBLE,
        2 * count * d * (d + classes), f"{count}x{d},{d}x{d}",
    )  # fmt: skip
    votes = [_add_rule(work, each, standard, count, classes) for each in engine.heuristics]
    model = work.add(
        "label_model", "embedding", (masses, *votes), count * classes * DOUBLE,
        count * (len(votes) + 1) * classes, f"{count}x{len(votes) + 1}",
    )  # fmt: skip
    taught = (_add_rule(work, engine.student, standard, count, classes),) if engine.student else ()
    return work.add(
        "status", "elementwise", (model, masses, far, *taught), count * 4 * DOUBLE,
        8 * count * classes, f"{count}x{classes}",
    )  # fmt: skip


def _add_rule(work: _Work, rule: Heuristic, standard: int, count: int, classes: int) -> int:
    size, f = count * classes * DOUBLE, len(rule.features)
    if rule.kind in ("threshold", "tree", "forest"):
        steps = count * len(rule.arrays["roots"]) * int(rule.arrays["depth"][0])
        trees = len(rule.arrays["roots"])
        return work.add(
            rule.kind, "embedding", (standard,), size, 2 * steps, f"{count}x{trees}", steps * NODE
        )
    others = len(rule.arrays["anchors"]) if rule.kind == "neighbours" else classes
    products = 2 if rule.kind == "gaussian" else 1
    return work.add(
        rule.kind, "matrix product", (standard,), size, 2 * products * count * f * others,
        f"{count}x{f},{f}x{others}",
    )  # fmt: skip
