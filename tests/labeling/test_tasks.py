"""Labeling as tasks: their work against what the arrays say, and on devices that are not here."""

from __future__ import annotations

import pytest
from tests.labeling.made import blobs

from wattstep import devices
from wattstep.labeling import AutoLabeler
from wattstep.labeling.tasks import graph_of
from wattstep.schedule.machine import of_device
from wattstep.schedule.study import study
from wattstep.schedule.times import MachineTimes


@pytest.fixture(scope="module")
def labeler() -> AutoLabeler:
    x, y = blobs(30, (0, 1, 2), seed=1)
    labeler = AutoLabeler(candidates=8).fit(x, y)
    labeler.partial_label(blobs(64, (0, 1, 2), seed=2)[0])
    return labeler


def test_distances_take_two_operations_a_sample_node_and_feature(labeler: AutoLabeler) -> None:
    graph = graph_of(labeler.engine_, 500)
    products = [task.flops for task in graph.tasks if task.name == "label::distances"]
    # 94 nodes: 30 labeled samples and the 64 of the second look, of four features.
    assert sum(products) == 2 * 500 * 94 * 4
    assert len(products) == 4


def test_parts_do_not_wait_for_each_other_and_are_the_whole(labeler: AutoLabeler) -> None:
    graph = graph_of(labeler.engine_, 10, parts=3)
    seconds = [1.0] * len(graph.tasks)
    in_a_part = len(graph.tasks) // 3
    # Standardized, then distances, neighbours, the label model, the status: five after each other.
    assert graph.critical_path(seconds) == 5
    assert in_a_part * 3 == len(graph.tasks)
    assert [task.shape for task in graph.tasks if task.name == "label::standardize"] == [
        "3x4",
        "3x4",
        "4x4",
    ]


def test_clusters_of_unknown_samples_wait_for_all_parts() -> None:
    x, y = blobs(30, (0, 1), seed=1)
    labeler = AutoLabeler(candidates=8).fit(x, y)
    labeler.partial_label(blobs(96, (0, 1, 2), seed=2)[0])
    graph = graph_of(labeler.engine_, 8, parts=2)
    at = {task.name: n for n, task in enumerate(graph.tasks)}
    parts = [n for n, task in enumerate(graph.tasks) if task.name == "label::status"]
    first, other = (graph.tasks[at[f"label::{name}"]] for name in ("around", "mutual"))
    told = {storage for n in parts for storage in graph.tasks[n].writes}
    assert len(parts) == 2
    assert told < set(first.reads)
    assert told < set(other.reads)
    # Each unknown sample beside all 96 of four features, which the look had in memory.
    unknown = int(first.shape.split("x")[0])
    assert first.flops == 2 * unknown * 96 * 4
    assert 20 <= unknown <= 44  # a third of 96 is 32
    assert set(graph.tasks[at["label::clusters"]].reads) == {*first.writes, *other.writes}


def test_a_device_with_unequal_processors_labels_by_a_plan(labeler: AutoLabeler) -> None:
    machine = of_device(devices.find("jetson-tx2"))
    graph = graph_of(labeler.engine_, 500)
    one, other = study("labels", graph, MachineTimes(machine), machine, ("default", "joules")).plans
    assert other.timeline.joules <= one.timeline.joules * 1.001
    assert one.figures(None, 0.0)["energy_per_step"].status.value == "predicted"
