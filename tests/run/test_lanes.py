"""The whole run as columns: steps, channels and operations as they were recorded."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.run.made import BEGIN, MS, Sampled, Worked, energy, import_made, make_run, power, watts
from tests.wording import saying

from wattstep.run import load
from wattstep.run.lanes import Lane
from wattstep.run.timeline import WHOLE, Timeline, depths
from wattstep.schema.channel import Channel


def lane(lanes: Timeline, name: str) -> Lane:
    (found,) = [each for each in lanes.channels if each.name == name]
    return found


def at(lane: Lane, ms: float) -> float:
    """The value of the last sample up to a time from the first step."""
    return float(lane.value[np.searchsorted(lane.t_ns, BEGIN + ms * MS, side="right") - 1])


def busy(core: int) -> Channel:
    """Busy time of a core in ns."""
    return Channel(
        name=f"cpu{core}.busy_time", unit="s", kind="counter", domain="cpu", role="busy_time",
        source="made", scale=1e-9, core=core,
    )  # fmt: skip


@pytest.fixture(scope="module")
def lanes(tmp_path_factory: pytest.TempPathFactory) -> Timeline:
    """5 W, and 7 W from 200 ms on; a core that is busy for a quarter of the time; a part of 3 W."""
    sampled = [
        Sampled(channel=power(), raw=lambda t: 5000 if t < BEGIN + 200 * MS else 7000),
        Sampled(channel=busy(0), raw=lambda t: (t - BEGIN + 30 * MS) // 4),
        Sampled(
            channel=energy(10**12, role="energy_part", name="package.energy"),
            raw=lambda t: 3 * (t - BEGIN + 30 * MS) // 1000,
        ),
        Sampled(
            channel=Channel(
                name="throttled", unit="", kind="gauge", domain="cpu", role="throttle_flag",
                source="made",
            ),
            raw=lambda t: int(BEGIN + 41 * MS <= t < BEGIN + 45 * MS),
        ),
    ]  # fmt: skip
    made = make_run(tmp_path_factory.mktemp("runs") / "made", sampled)
    return load(made.path).timeline()


def test_every_step_is_there_with_what_it_carries(lanes: Timeline) -> None:
    steps = lanes.steps
    assert lanes.base_ns == BEGIN
    assert steps.index.tolist() == list(range(60))
    # Five of 20 ms, a traced one with 0.5 ms more in each of three phases, 3 ms of its window.
    begins = [(int(t) - BEGIN) / MS for t in steps.start_ns[:7]]
    assert begins == [0, 20, 40, 60, 80, 100, 124.5]
    assert (int(steps.end_ns[5]) - BEGIN) / MS == 121.5
    assert np.flatnonzero(steps.traced).tolist() == list(range(5, 60, 6))
    assert np.flatnonzero(steps.warmup).tolist() == [0, 1, 2]
    assert np.flatnonzero(steps.throttled).tolist() == [2]


def test_phases_lie_where_their_marks_were(lanes: Timeline) -> None:
    steps = lanes.steps
    assert len(steps.phase_ns) == 3 * 60
    own = np.flatnonzero(steps.phase_step == 1)
    assert steps.phase.rows[own].tolist() == ["data", "forward", "backward"]
    assert [(int(t) - BEGIN) / MS for t in steps.phase_ns[own]] == [20, 22, 30]


def test_a_gauge_is_as_it_was_read(lanes: Timeline) -> None:
    found = lane(lanes, "board.power")
    assert (found.group, found.unit, found.status, found.held) == ("Power", "W", "measured", False)
    assert (at(found, 199), at(found, 200)) == (5.0, 7.0)
    assert int(found.t_ns[0]) == BEGIN - 20 * MS


def test_a_counter_is_its_mean_rate_since_the_sample_before(lanes: Timeline) -> None:
    core = lane(lanes, "core 0 busy")
    assert core.held
    assert math.isnan(core.value[0])
    assert core.value[1:] == pytest.approx(0.25)
    rail = lane(lanes, "package.energy")
    assert (rail.unit, rail.held) == ("W", True)
    assert rail.value[1:] == pytest.approx(3.0)


def test_the_groups_stand_in_their_order(lanes: Timeline) -> None:
    assert [each.group for each in lanes.channels] == ["Processor", "Power", "Power"]
    assert lanes.channels[1].name == "board.power"  # the total before its parts


def test_operations_are_those_of_the_traced_steps(lanes: Timeline) -> None:
    found = lanes.operations
    assert len(found.start_ns) == 3 * 10
    assert list(found.rows) == [(1, 0)]
    assert set(found.row.tolist()) == {0}
    labels = [found.labels[n] for n in found.label[:3]]
    assert labels == [(f"{p}-op", f"layer.{p}", p) for p in ("data", "forward", "backward")]
    begins = [(int(t) - BEGIN) / MS for t in found.start_ns[:3]]
    ends = [(int(t) - BEGIN) / MS for t in found.end_ns[:3]]
    assert begins == [100.5, 103, 111.5]
    assert ends == [102.5, 111, 121.5]


def test_without_operations_the_reason_is_a_note(tmp_path: Path) -> None:
    made = make_run(tmp_path / "made", [Sampled(channel=power(), raw=lambda t: 5000)], trace="none")
    lanes = load(made.path).timeline()
    assert len(lanes.operations.start_ns) == 0
    assert saying(lanes.notes, "no operations", "--trace none")


def test_what_is_modelled_says_so(tmp_path: Path) -> None:
    channel = replace(power(), status="modelled")
    made = make_run(tmp_path / "made", [Sampled(channel=channel, raw=lambda t: 5000)])
    assert lane(load(made.path).timeline(), "board.power").status == "modelled"


def test_two_meters_make_a_total_of_their_own(tmp_path: Path) -> None:
    sampled = [
        Sampled(channel=power(name="a"), raw=lambda t: 2000),
        Sampled(channel=power(name="b"), raw=lambda t: 3000),
    ]
    lanes = load(make_run(tmp_path / "made", sampled).path).timeline()
    assert [each.name for each in lanes.channels] == [WHOLE, "a", "b"]
    assert np.nanmax(lane(lanes, WHOLE).value) == pytest.approx(5.0)


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Timeline:
    """Two steps of 10 ms; a read that failed; operations inside others, on two threads and a GPU."""
    operations = [
        Worked(name="outer", step=0, start=1, end=6),
        Worked(name="inner", step=0, start=2, end=3, inside=0),
        Worked(name="other", step=0, start=2, end=4, thread=2),
        Worked(name="kernel", step=0, start=3, end=5, processor="gpu0", thread=7),
        Worked(name="outer", step=1, start=11, end=16),
    ]
    samples = [(float(ms), math.nan if ms == 5 else float(ms)) for ms in range(20)]
    path = import_made(
        tmp_path_factory.mktemp("runs") / "imported",
        {"trace": {"format": "made", "file": "trace.json"}},
        steps=[(0, 10), (10, 20)],
        operations=operations,
        samples=[(watts(), "trace.json", samples)],
    )
    return load(path).timeline()


def test_a_failed_read_is_a_gap(imported: Timeline) -> None:
    found = lane(imported, "board.power")
    assert np.flatnonzero(np.isnan(found.value)).tolist() == [5]
    assert found.value[6] == 6.0


def test_rows_are_processors_threads_and_depths(imported: Timeline) -> None:
    found = imported.operations
    assert list(found.rows) == [(1, 0), (1, 1), (2, 0), ("gpu0", 0)]
    names = [found.labels[n][0] for n in found.label]
    assert names == ["outer", "outer", "inner", "other", "kernel"]
    assert found.row.tolist() == [0, 0, 1, 2, 3]


def test_scopes_lie_as_deep_as_what_holds_them() -> None:
    # A scope, an operation in it, a scope in that, an operation in that, and one beside.
    parent = np.array([-1, 0, 1, 2, -1])
    scope = np.array([True, False, True, False, False])
    assert depths(parent, scope).tolist() == [-1, 0, 0, 1, 0]


def test_depth_goes_on_however_far() -> None:
    count = 1000
    found = depths(np.arange(count) - 1, np.zeros(count, bool))
    assert found.tolist() == list(range(count))
