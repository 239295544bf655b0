"""Tasks of captured steps: what training needs is there, in an order that its data allow."""

from __future__ import annotations

import json

import pytest
from tests.command_line import wattstep

from wattstep import engines, workloads
from wattstep.schedule.tasks import TaskGraph
from wattstep.schema.workload import Preparation


@pytest.fixture(scope="module")
def lenet() -> TaskGraph:
    return engines.capture_tasks(workloads.find("lenet"), Preparation(batch_size=16), "fp32")


def test_convolutions_of_both_passes_have_their_flops(lenet: TaskGraph) -> None:
    """Two convolutions: 6 filters of 5² over 28², 16 of 6 x 5² over 10², 16 samples, two FLOPs each."""
    forward = [t for t in lenet.tasks if t.name == "aten::convolution"]
    assert sorted(t.flops for t in forward) == sorted(
        [16 * 2 * 6 * 25 * 28 * 28, 16 * 2 * 16 * 6 * 25 * 10 * 10]
    )
    assert sum(t.name == "aten::convolution_backward" for t in lenet.tasks) == 2
    assert {t.phase for t in lenet.tasks} >= {"forward", "backward", "optimizer"}


def test_the_backward_pass_waits_for_the_forward_pass_and_updates_for_gradients(
    lenet: TaskGraph,
) -> None:
    reached: list[set[int]] = []
    for waits in lenet.after:
        reached.append(set(waits).union(*(reached[other] for other in waits)))
    numbers = {
        kind: [n for n, t in enumerate(lenet.tasks) if t.name == kind]
        for kind in ("aten::convolution", "aten::convolution_backward")
    }
    first, second = numbers["aten::convolution"]
    assert first in reached[second]
    for backward in numbers["aten::convolution_backward"]:
        assert {first, second} <= reached[backward]
    # What is updated last waits for the gradient that is computed last.
    updates = [n for n, t in enumerate(lenet.tasks) if t.phase == "optimizer"]
    assert any(numbers["aten::convolution_backward"][-1] in reached[n] for n in updates)


def test_views_are_no_tasks_and_storages_have_sizes(lenet: TaskGraph) -> None:
    assert not {t.name for t in lenet.tasks} & {"aten::view", "aten::t", "aten::detach"}
    assert all(t.reads or t.writes for t in lenet.tasks)
    written = {one for t in lenet.tasks for one in t.writes}
    assert sum(lenet.storage_bytes[one] for one in written) >= 4 * 61_706  # its parameters are


def test_a_workload_is_scheduled_on_devices_that_are_not_here() -> None:
    result = wattstep("schedule", "lenet", "--on", "jetson-tx2", "--json", "--quiet")
    document = json.loads(result.stdout)
    rows = {row["policy"]: row["figures"]["step_time"]["value"] for row in document["policies"]}
    assert rows["heterogeneous"] <= rows["critical-path"] <= rows["per-kind"] <= rows["default"]
