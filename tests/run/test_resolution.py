"""What a sensor cannot carry is missing with the reason, and what is replayed or modelled says so."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.run.made import BEGIN, MS, ByPhase, Sampled, busy, energy, make_run, power, told
from tests.wording import assert_says

from wattstep.run import Run, load
from wattstep.schema.channel import Channel
from wattstep.schema.figure import Missing


def slow(every_ns: int, watts: float = 5.0, **more: Any) -> Sampled:
    """A gauge in mW that takes a new value, around `watts`, every `every_ns`; read every 10 ms."""
    values = np.random.default_rng(0).normal(watts * 1e3, 200, 100_000).astype(int)
    channel = replace(power(name="VDD_IN"), **more)
    return Sampled(
        channel=channel, raw=lambda t: int(values[(t - BEGIN + 10**9) // every_ns]),
        every_ns=10 * MS,
    )  # fmt: skip


@pytest.fixture(scope="module")
def tx2_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two minutes of steps of 620 ms, of which backward takes 600 ms, under a sensor of 422 ms."""
    phases = (("forward", 20 * MS), ("backward", 600 * MS))
    path = tmp_path_factory.mktemp("tx2") / "r"
    return make_run(path, [slow(422 * MS)], steps=200, phases=phases).path


@pytest.fixture(scope="module")
def regression_result(tx2_path: Path) -> Run:
    return load(tx2_path)


@pytest.fixture(scope="module")
def tx2(tx2_path: Path) -> Run:
    """The same where no regression over the steps is to be had."""
    run = load(tx2_path)
    vars(run.breakdown.regression_tables)["regression_result"] = Missing("too few samples")
    return run


def test_without_a_regression_energy_of_an_operation_is_missing_and_says_why(tx2: Run) -> None:
    """Also of one that lasts 600 ms: samples average over 422 ms, and the window cuts both."""
    rows = {row["name"]: row for row in tx2.operations()}
    for name, seconds in (("forward-op", 0.02), ("backward-op", 0.6)):
        assert rows[name]["energy"].missing
        reason = rows[name]["energy"].reason or ""
        before, _, after = reason.partition("; regression: ")
        assert_says(before, "not resolvable", "late and averaged")
        assert after == "too few samples"
        assert rows[name]["time"].value == pytest.approx(seconds)


def test_an_operation_longer_than_the_update_interval_is_told_by_the_regression(
    regression_result: Run,
) -> None:
    rows = {row["name"]: row["energy"] for row in regression_result.operations()}
    found = rows["backward-op"]
    assert found.low <= 0.6 * 5 <= found.high
    assert found.value == pytest.approx(0.6 * 5, rel=0.02)
    assert "regression of samples" in found.method
    assert rows["forward-op"].missing


@pytest.mark.parametrize("table", ["operations", "layers", "phases", "kinds"])
def test_what_is_not_resolved_stands_in_a_rest_so_that_the_step_adds_up(
    tx2: Run, table: str
) -> None:
    document = tx2.document()
    whole = document["metrics"]["energy_per_step"]["value"]
    assert told(document, table) == pytest.approx(whole, rel=1e-9)
    assert told(document, table, "time") == pytest.approx(0.62, rel=1e-9)
    rest = document["rests"]["not_resolved"]
    assert rest["energy"] == document["not_resolved"]["operations"]["energy"]
    assert rest["energy"]["value"] == pytest.approx(whole, rel=1e-9)
    assert rest["energy"]["status"] == "attributed"
    assert rest["time"]["value"] == 0
    assert "of single rows" in rest["energy"]["method"]


@pytest.mark.parametrize("table", ["operations", "layers", "phases", "kinds"])
def test_with_what_regression_tells_the_step_adds_up_as_well(
    regression_result: Run, table: str
) -> None:
    document = regression_result.document()
    whole = document["metrics"]["energy_per_step"]["value"]
    assert told(document, table) == pytest.approx(whole, rel=1e-9)
    assert told(document, table, "time") == pytest.approx(0.62, rel=1e-9)


def test_energy_of_a_step_shorter_than_the_interval_is_a_mean_over_many_and_its_parts_unresolved(
    tmp_path: Path,
) -> None:
    run = load(make_run(tmp_path / "r", [slow(422 * MS)], steps=600).path)
    figure = run.metrics()["energy_per_step"]
    assert figure.value == pytest.approx(0.1, rel=0.05)
    # 600 steps take 12.45 s with the tracing between them: 30 new values.
    assert figure.n is not None
    assert 25 <= figure.n <= 30
    for row in run.operations():  # 30 new values tell no operation within a fifth
        assert row["energy"].missing
        assert "not resolvable" in row["energy"].reason
    assert told(run.document(), "operations") == pytest.approx(figure.value, rel=1e-9)
    # Four clean steps, then a traced one: the window reaches over both.
    assert_says(figure.reason, "traced steps", "mixed in")


def test_energy_of_a_run_of_a_few_updates_is_missing(tmp_path: Path) -> None:
    source = slow(422 * MS, window_s=0.422)
    run = load(make_run(tmp_path / "r", [source], steps=60).path)
    for name in ("energy_per_step", "mean_power", "energy_per_sample"):
        reason = run.metrics()[name].reason
        assert reason is not None
        assert_says(reason, "not resolvable", "VDD_IN", "422 ms")
        assert "record more steps" in reason
    assert all("not resolvable" in row["energy"].reason for row in run.operations())
    assert "energy" not in run.document()["not_resolved"]["operations"]


def test_a_counter_that_rises_evenly_tells_the_step_and_nothing_of_single_operations(
    tmp_path: Path,
) -> None:
    counter = Sampled(
        channel=energy(10**12), raw=lambda t: 5 * (t - BEGIN + 10**9) // 1000, every_ns=9 * MS
    )
    run = load(make_run(tmp_path / "r", [counter], steps=300).path)
    for row in run.operations():
        assert row["energy"].missing
        assert "samples are equal" in row["energy"].reason
    document = run.document()
    assert document["metrics"]["energy_per_step"]["value"] == pytest.approx(0.1, rel=1e-6)
    assert told(document, "operations") == pytest.approx(0.1, rel=1e-6)


def test_a_source_as_fast_as_its_reads_carries_operations(tmp_path: Path) -> None:
    raw = ByPhase((2000, 4000, 8000), noise=400)
    source = Sampled(channel=power(), raw=raw, every_ns=3_100_000)
    run = load(make_run(tmp_path / "r", [source], steps=600).path)
    rows = {row["name"]: row["energy"] for row in run.operations()}
    truth = {"data-op": 0.004, "forward-op": 0.032, "backward-op": 0.08}
    for name, true in truth.items():
        assert rows[name].low <= true <= rows[name].high
    assert "not_resolved" not in run.document()["rests"]


def test_power_below_the_quantum_is_not_resolvable(tmp_path: Path) -> None:
    """A source in steps of 0.4 W that mostly reads nothing."""
    values = np.random.default_rng(0).choice([0, 0, 0, 0, 0, 0, 0, 400, 800], 10_000)
    source = Sampled(
        channel=replace(power(), window_s=0.02),
        raw=lambda t: int(values[(t - BEGIN + 10**9) // (20 * MS)]), every_ns=5 * MS,
    )  # fmt: skip
    run = load(make_run(tmp_path / "r", [source], steps=600).path)
    assert "steps of 0.4 W" in (run.metrics()["energy_per_step"].reason or "")


def test_channels_tell_their_interval_their_quantum_and_their_repeats(tx2: Run) -> None:
    (row,) = tx2.document()["channels"]
    assert row["update_interval"] == pytest.approx(0.422, rel=0.01)
    assert row["refresh"]["low"] < 0.422 < row["refresh"]["high"]
    assert row["refresh"]["n"] > 200
    assert row["repeated_share"] == pytest.approx(1 - 10 / 422, abs=0.002)
    assert row["resolution_seen"] == pytest.approx(0.001)  # noise in whole milliwatts
    assert (row["status"], row["window"], row["note"]) == ("measured", None, "")


# --- status -------------------------------------------------------------------------------------


def others(status: str) -> list[Sampled]:
    """What a board has beside its power."""
    zone = Channel(
        name="zone", unit="°C", kind="gauge", domain="thermal", role="temperature", source="made",
        scale=1e-3,
    )  # fmt: skip
    clock = Channel(
        name="clock", unit="Hz", kind="gauge", domain="cpu", role="frequency", source="made"
    )
    system = Channel(
        name="system.busy", unit="s", kind="counter", domain="system", role="system_busy_time",
        source="made", scale=0.01,
    )  # fmt: skip
    steal = replace(system, name="system.steal", role="system_steal_time")
    memory = Channel(
        name="memory.total", unit="B", kind="gauge", domain="memory", role="total_memory",
        source="made",
    )  # fmt: skip
    free = replace(memory, name="memory.available", role="available_memory")

    def ticks(t: int) -> int:
        return (t - BEGIN + 10**9) // (10 * MS)

    made = [
        (zone, lambda t: 50_000), (clock, lambda t: 10**9), (system, ticks), (steal, lambda t: 0),
        (memory, lambda t: 8 * 10**9), (free, lambda t: 10**9), (busy(0), ticks),
        (replace(busy(0), name="cpu0.idle_time", role="idle_time"), lambda t: 0),
    ]  # fmt: skip
    return [Sampled(channel=replace(c, status=status), raw=raw) for c, raw in made]  # type: ignore[arg-type]


def figures(thing: Any) -> dict[str, Any]:
    """Every figure below a part of a document, by its path."""
    if isinstance(thing, dict) and {"value", "unit", "status"} <= thing.keys():
        return {"": thing}
    pairs = thing.items() if isinstance(thing, dict) else enumerate(thing)
    nested = (thing for thing in pairs if isinstance(thing[1], (dict, list)))
    return {f"{key}.{path}": one for key, part in nested for path, one in figures(part).items()}


OWN_CPU = Channel(
    name="process.cpu", unit="s", kind="counter", domain="process", role="process_cpu_time",
    source="perf task-clock", scale=1e-9,
)  # fmt: skip
# What the process and its clock tell of themselves, whatever the sensors are.
OWN = (
    "step_time", "throughput", "recording_overhead", "trace_inflation", "correction_residual",
    "process_cpu_cores",
    "cpu_time_per_step", "operations_share", "compute_share", "data_movement_share", "launch_share",
)  # fmt: skip


@pytest.mark.parametrize("status", ["replayed", "modelled"])
def test_no_figure_of_a_replayed_or_modelled_channel_looks_measured(
    tmp_path: Path, status: str
) -> None:
    power_channel = replace(power(), status=status)
    part = replace(power(name="part", role="power_part"), status=status)
    carrier = replace(power(name="carrier", role="power_outside"), status=status)
    sampled = [
        Sampled(channel=c, raw=ByPhase((4000, 6000))) for c in (power_channel, part, carrier)
    ]
    sampled += [*others(status), Sampled(channel=OWN_CPU, raw=lambda t: t - BEGIN + 10**9)]
    phases = (("forward", 40 * MS), ("backward", 60 * MS))
    run = load(make_run(tmp_path / "r", sampled, steps=60, phases=phases).path)
    document = run.document()
    assert not any(row["energy"].missing for row in run.operations())
    metrics = figures(document["metrics"])
    known = {path: one for path, one in metrics.items() if one["value"] is not None}
    seen = {path.split(".")[0] for path in known}
    assert {
        "energy_per_step", "mean_power", "temperature", "frequency", "cpu_utilization",
        "cpu_core_utilization", "idle_state_ratio", "system_peak_memory", "steal",
    } <= seen  # fmt: skip
    for path, one in known.items():
        if path.split(".")[0] not in OWN:
            assert one["status"] == status, path
    assert document["metrics"]["step_time"]["status"] == "measured"
    assert {row["energy"]["status"] for row in document["operations"]} == {status}
    for table in ("energy_by_rail", "energy_outside"):
        assert {one["status"] for one in document[table].values()} == {status}
    assert_says(
        document["metrics"]["other_cpu"]["reason"],
        f"busy time is {status}",
        "training's own",
    )
    assert "disturbed" not in document["steps"]
    assert document["conditions"]["disturbed_steps"] is None


def test_one_replayed_rail_makes_the_sum_replayed(tmp_path: Path) -> None:
    sampled = [
        Sampled(channel=power(name="a"), raw=lambda t: 2000),
        Sampled(channel=replace(power(name="b"), status="replayed"), raw=lambda t: 3000),
    ]
    run = load(make_run(tmp_path / "r", sampled).path)
    assert run.metrics()["mean_power"].status.value == "replayed"
    assert run.metrics()["mean_power"].value == pytest.approx(5)
    rails = run.document()["energy_by_rail"]
    assert [rails[name]["status"] for name in ("a", "b")] == ["measured", "replayed"]


# --- what the total holds -----------------------------------------------------------------------


def test_parts_and_the_carrier_are_never_added_to_the_total_which_says_what_it_leaves_out(
    tmp_path: Path,
) -> None:
    note = "leaves out the carrier board: 6-8 W"
    sampled = [
        Sampled(channel=replace(power(name="VDD_IN"), note=note), raw=lambda t: 5000),
        Sampled(channel=power(name="VDD_CPU", role="power_part"), raw=lambda t: 3000),
        Sampled(channel=power(name="MUX", role="power_outside"), raw=lambda t: 7000),
    ]
    run = load(make_run(tmp_path / "r", sampled).path)
    document = run.document()
    assert run.metrics()["mean_power"].value == pytest.approx(5)
    assert run.metrics()["mean_power"].reason == note
    assert document["left_out"] == [note]
    assert set(document["energy_by_rail"]) == {"VDD_IN", "VDD_CPU"}
    assert document["energy_outside"]["MUX"]["value"] == pytest.approx(0.14)


def test_utilization_is_told_apart_by_kind_of_core(tmp_path: Path) -> None:
    sampled = [
        Sampled(channel=busy(0), raw=lambda t: (t - BEGIN + 10**9) // (10 * MS)),
        Sampled(channel=busy(1), raw=lambda t: 7),
        Sampled(channel=busy(2), raw=lambda t: 7),
    ]
    device = {
        "cores": 3,
        "clusters": [{"kind": "A57", "cores": [0, 1]}, {"kind": "Denver2", "cores": [2, 3]}],
    }
    run = load(make_run(tmp_path / "r", sampled, steps=300, device=device).path)
    found = run.metrics()["cpu_cluster_utilization"]
    assert found["A57"].value == pytest.approx(0.5, abs=0.01)
    assert found["Denver2"].value == pytest.approx(0)
    one = {"cores": 3, "clusters": [{"kind": "A57", "cores": [0, 1, 2]}]}
    alike = load(make_run(tmp_path / "s", sampled, device=one).path)
    assert "cpu_cluster_utilization" not in alike.metrics()


def test_a_gauge_that_always_shows_the_same_is_said_to_stand_still(tmp_path: Path) -> None:
    """Its energy may be right, if the load never moves; nothing says that it looks at the load."""
    still = Sampled(channel=power(name="VDD_IN"), raw=lambda t: 5000, every_ns=10 * MS)
    moving = slow(20 * MS)
    notes = [
        " ".join(load(make_run(tmp_path / name, [sensor], steps=60).path).report().notes)
        for name, sensor in (("still", still), ("moving", moving))
    ]
    assert "VDD_IN showed 5 W in all" in notes[0]
    assert "may stand still" in notes[0]
    assert "stand still" not in notes[1]
