"""Energy by rail of a training on a GPU: to what each rail feeds, conserving, against programs of known power."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.run.imported.made import imported
from tests.run.made import Worked, import_made
from tests.wording import assert_says

import wattstep
from wattstep.attribution.gpu_copies import copies_of
from wattstep.attribution.overhead_compensation import compensate_device
from wattstep.attribution.tables.regression_input import Process, process_of
from wattstep.attribution.tables.taking_part import bytes_of_rows, cards_of, side_of
from wattstep.attribution.tables.total_by_rails import rails_of_total
from wattstep.attribution.traced_rows import TracedRows
from wattstep.recorded.phases import Phases
from wattstep.run.run import Run, load
from wattstep.schema.channel import Channel, Domain

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
TABLES = ("operations", "layers", "phases", "kinds")
RAILS = ("rail.GPU", "rail.CPU", "rail.MEM", "rail.IN")
MS = 1_000_000


@pytest.fixture(scope="module")
def campaign() -> Iterator[Any]:
    """The programs of known power in `benchmarks/gpu_rails.py`."""
    sys.path.insert(0, str(BENCHMARKS))
    try:
        yield importlib.import_module("gpu_rails")
    finally:
        sys.path.remove(str(BENCHMARKS))


@pytest.fixture(scope="module")
def made(campaign: Any, tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """A program whose steps of some 25 ms are sampled every 100 ms."""
    rng = np.random.default_rng(11)
    program = campaign.random_program(rng, 0.1)
    path = tmp_path_factory.mktemp("rails") / "run"
    happened = campaign.record(path, program, rng)
    return SimpleNamespace(program=program, happened=happened, run=wattstep.load(path))


def test_intervals_below_the_sampling_interval_hold_what_was_true(
    campaign: Any, made: SimpleNamespace
) -> None:
    scores: dict[str, Any] = {}
    campaign.judge(made.run, made.happened, made.program, scores)
    for rail in ("rail.GPU", "rail.CPU", "rail.MEM", "rail.IN"):
        score = scores[rail]
        assert score.told >= 2, rail
        assert score.held == score.told, rail
        assert score.astray == 0, rail
        assert score.unlike < 0.03, rail


@pytest.mark.parametrize("rail", RAILS)
@pytest.mark.parametrize("table", TABLES)
def test_rows_rests_and_what_is_not_resolved_make_the_step_of_each_rail(
    made: SimpleNamespace, rail: str, table: str
) -> None:
    run: Run = made.run
    document = run.document()
    rests = [row for name, row in document["rests"].items() if name != "not_resolved"]
    left = document["not_resolved"][table].get("energy_by_rail", {}).get(rail, {"value": 0.0})
    told = sum(r["energy_by_rail"][rail]["value"] or 0.0 for r in [*document[table], *rests])
    curve, steps = run.series.rails[rail].curve, run.series.steps
    clean = np.flatnonzero(steps.clean)
    # Of a mean over a window: its middle.
    late = round(run.series.rails[rail].late_s[0] * 1e9)
    gains, _ = curve.difference(steps.start_ns[clean] + late, steps.end_ns[clean] + late)
    assert told + left["value"] == pytest.approx(float(gains.mean()), rel=1e-6)


def test_a_rail_feeds_its_own_and_says_so_of_others(made: SimpleNamespace) -> None:
    for row in made.run.operations():
        other = "rail.CPU" if row["processor"] == "gpu0" else "rail.GPU"
        figure = row["energy_by_rail"][other]
        assert (figure.value, figure.low, figure.high) == (0, 0, 0)
        assert figure.method.startswith("0 by what")
        assert figure.status.value == "attributed"


def test_what_an_idle_gpu_draws_is_unattributed_in_its_phase(made: SimpleNamespace) -> None:
    """While the host loads data the GPU has nothing to do."""
    figure = made.run.breakdown.unattributed()["data"]["energy_by_rail"]["rail.GPU"]
    truth = made.happened.truth["rail.GPU", "data"]
    assert figure.low <= truth <= figure.high
    assert figure.value == pytest.approx(truth, rel=0.15)


def test_memory_goes_by_bytes_and_its_rows_say_so(made: SimpleNamespace) -> None:
    for row in made.run.operations():
        method = row["energy_by_rail"]["rail.MEM"].method
        assert "by bytes moved" in method
    sizes = {f"kernel {part.name}": part.size for part in made.program.parts}
    rows = {r["name"]: r for r in made.run.operations() if r["name"] in sizes}
    watts = made.program.idle_w[2]
    for name, row in rows.items():
        truth = sizes[name] * made.program.joules_a_byte + watts * row["time"].value
        figure = row["energy_by_rail"]["rail.MEM"]
        assert figure.low <= truth <= figure.high


def test_what_the_machine_spends_on_a_row_is_the_sum_of_its_rails_and_the_rest_by_time(
    made: SimpleNamespace,
) -> None:
    document = made.run.document()
    metrics, rails = document["metrics"], made.happened.step
    beyond = metrics["energy_per_step"]["value"] - sum(
        document["energy_by_rail"][name]["value"] for name in RAILS[:3]
    )
    assert beyond == pytest.approx(rails["rail.IN"] - sum(rails[n] for n in RAILS[:3]), rel=0.1)
    told = 0
    for row in (*document["operations"], *document["phases"], *document["layers"]):
        parts = [row["energy_by_rail"][name]["value"] for name in RAILS[:3]]
        energy = row["energy"]
        assert row["energy_by_rail"]["rail.IN"] == energy
        if None in parts:
            assert energy["value"] is None
            assert energy["reason"].startswith("of rail.")
            continue
        by_time = beyond * row["time"]["value"] / metrics["step_time"]["value"]
        assert energy["value"] == pytest.approx(sum(parts) + by_time, rel=1e-3)
        assert energy["low"] < energy["value"] < energy["high"]
        told += 1
    assert told >= 3
    assert document["energy_groups"] == []


# --- by hand ------------------------------------------------------------------------------------


def channel(name: str, domain: Domain) -> Channel:
    return Channel(name=name, unit="W", kind="gauge", domain=domain, role="power_part", source="x")


@pytest.mark.parametrize(
    ("channels", "side"),
    [
        ([("VDD_GPU", "gpu")], "device"),
        ([("VDD_CPU", "cpu")], "host"),
        ([("VDDQ", "memory")], "memory"),
        ([("VDD_IN", "system")], "all"),
        ([("VDD_GPU_SOC", "soc")], "all"),
        ([("x", "unknown")], "all"),
        ([("gpu0.power", "gpu"), ("gpu1.power", "gpu")], "device"),
        ([("VDD_GPU", "gpu"), ("VDD_CPU", "cpu")], "all"),
        ([("package-0.uncore.energy", "gpu")], "all"),  # the processor's own graphics
        ([], "all"),
    ],
)
def test_what_a_rail_feeds_follows_from_its_domain(
    channels: list[tuple[str, Domain]], side: str
) -> None:
    assert side_of([channel(name, domain) for name, domain in channels]) == side


@pytest.mark.parametrize(
    ("total", "others", "rails"),
    [
        (["VDD_IN"], ["VDD_GPU", "VDD_CPU", "gpu0.power"], ["VDD_GPU", "VDD_CPU"]),
        (["GPU", "CPU", "SOC"], ["part"], ["GPU", "CPU", "SOC"]),
        ([], ["VDD_GPU"], []),
    ],
)
def test_a_total_is_made_of_its_own_rails_and_no_card_s(
    total: list[str], others: list[str], rails: list[str]
) -> None:
    whole = [replace(channel(name, "system"), role="power_total") for name in total]
    channels = {each.name: each for each in (*whole, *(channel(name, "gpu") for name in others))}
    assert rails_of_total(whole, channels) == rails


def test_counters_of_a_processor_contain_each_other_and_make_no_total() -> None:
    psys = replace(channel("psys.energy", "system"), role="energy_total")
    assert rails_of_total([psys], {"psys.energy": psys, "core": channel("core", "cpu")}) == []


def test_the_rail_of_one_card_feeds_that_card() -> None:
    both = ("gpu0", "gpu1")
    assert set(cards_of([channel("gpu1.power", "gpu")], both)) == {"gpu1"}
    assert set(cards_of([channel("VDD_GPU", "gpu")], both)) == set(both)
    # A card that the trace calls otherwise: the numbers of the driver may not be CUDA's.
    assert set(cards_of([channel("gpu3.power", "gpu")], both)) == set(both)


def test_kernels_move_what_their_operation_moves_by_how_long_they_last() -> None:
    """An operation of 300 bytes launches kernels of 1 and 2 ms; a copy has 50 bytes; one moves 7 on the CPU."""
    nan = float("nan")
    found = bytes_of_rows(
        np.array([300.0, 300.0, nan, 7.0, nan, nan, 50.0, nan, nan]),
        on_gpu=np.array([False] * 5 + [True] * 4),
        outer=np.array([0, 0, 2, 3, 4, 5, 6, 7, 8]),
        own=np.array([True, False, True, True, True, True, True, True, True]),
        launch=np.array([-1, -1, -1, -1, -1, 1, 2, 0, -1]),
        idle=np.array([False, False, True, False, False, False, False, False, False]),
        lasting_s=np.array([1, 1, 1, 1, 1, 1, 9, 2, 1]) * 1e-3,
        copies=np.array([0, 0, 0, 0, 0, 0, 3, 0, 0]),
    )
    # The copy reads 50 bytes and writes them.
    assert found == pytest.approx([0, 0, 0, 7, nan, 100, 100, 200, nan], nan_ok=True)


@pytest.mark.parametrize(
    ("shared", "bytes_moved"), [(True, [0, 120, 60, 60, 60]), (False, [0, 0, 0, 30, 0])]
)
def test_what_an_operation_s_copies_move_its_kernels_do_not_move_again(
    shared: bool, bytes_moved: list[float]
) -> None:
    """Of 300 bytes it copies 30 within the GPU and 30 from the host, fills 60, and a kernel has the rest."""
    found = bytes_of_rows(
        np.array([300.0, float("nan"), 60.0, 30.0, 30.0]),
        on_gpu=np.array([False, True, True, True, True]),
        outer=np.arange(5),
        own=np.ones(5, bool),
        launch=np.array([-1, 0, 0, 0, 0]),
        idle=np.zeros(5, bool),
        lasting_s=np.full(5, 1e-3),
        copies=copies_of(
            ["op", "sgemm", "Memset (Device)", "Memcpy HtoD (Pinned -> Device)", "Memcpy DtoD"]
        ),
        shared=shared,
    )
    assert found == pytest.approx(bytes_moved)


def test_a_kernel_keeps_its_length_and_the_device_is_idle_for_the_rest() -> None:
    """Two kernels of 2 ms, one half beside the other, in a phase of 8 ms that lasts 5 when it is clean."""
    edges = np.array([[0, 4 * MS, 12 * MS]])
    rows = TracedRows(
        window=np.zeros(3, np.int32),
        start_ns=np.array([1 * MS, 5 * MS, 6 * MS]),
        end_ns=np.array([3 * MS, 7 * MS, 8 * MS]),
        self_ns=np.array([2 * MS, 2 * MS, 2 * MS]),
        thread=np.array([0, 0, 1], np.int32),
        parent=np.full(3, -1, np.int32),
        scope=np.zeros(3, bool),
        layer=np.zeros(3, np.int32),
        layers=np.array([""], object),
        on_gpu=np.ones(3, bool),
    )
    traced = Phases(names=("forward", "backward"), edges_ns=edges)
    found = compensate_device(rows, traced, np.array([0.375, 0.625]), 0.008)
    assert found.time_s == pytest.approx([2e-3, 1.5e-3, 1.5e-3])
    assert found.unattributed_s == pytest.approx(np.array([[1e-3, 2e-3]]))
    # Where the clean phase is shorter than its kernels, they are, too: nothing is left.
    short = compensate_device(rows, traced, np.array([0.2, 0.8]), 0.005)
    assert short.time_s == pytest.approx([1e-3, 1.5e-3, 1.5e-3])
    assert short.unattributed_s == pytest.approx(np.array([[0, 1e-3]]))


def test_what_a_host_did_that_ran_ahead_is_not_told_from_its_rail(made: SimpleNamespace) -> None:
    breakdown = wattstep.load(made.run.path).breakdown
    steps = breakdown.steps
    ends = np.stack([steps.start_ns, steps.end_ns - 0.5 * steps.seconds.mean() * 1e9], axis=1)
    breakdown.steps = replace(steps, host_ns=ends)
    rails = made.run.series.rails
    told = process_of(breakdown, rails["rail.CPU"], quantity="energy of rail.CPU")
    assert isinstance(told, str)
    assert_says(told, "the host runs", "0.5 steps")
    assert isinstance(
        process_of(breakdown, rails["rail.GPU"], quantity="energy of rail.GPU"), Process
    )


def test_without_a_gpu_nothing_is_set_apart(campaign: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    parts = (
        campaign.Part(name="load", host_ms=4.0, host_w=5.0, phase="data"),
        campaign.Part(name="op", host_ms=6.0, host_w=2.0),
    )
    program = campaign.Program(
        parts=parts, idle_w=(1.0, 1.0, 0.5), joules_a_byte=1e-10, seconds=8.0
    )
    campaign.record(tmp_path / "run", program, rng)
    breakdown = wattstep.load(tmp_path / "run").breakdown
    assert breakdown.others == ()
    assert {breakdown.side(name) for name in ("energy", "cpu_time", "energy of rail.GPU")} == {
        "all"
    }
    assert breakdown.labelled_of("energy of rail.GPU")[0] is breakdown.labelled[0]


@pytest.mark.parametrize("with_host", [True, False])
def test_of_an_imported_trace_the_card_s_energy_is_its_kernels_and_its_idle_time(
    tmp_path: Path, with_host: bool
) -> None:
    """Steps of 100 ms: 40 ms of a kernel at 20.03 W, the rest idle at 5.03 W; the host loads meanwhile."""
    count, power = 30, {True: 20.0, False: 5.0}
    operations = []
    for n in range(count):
        operations.append(
            Worked(
                name="kernel",
                step=n,
                start=100 * n + 50,
                end=100 * n + 90,
                processor="gpu0",
                thread=1 << 50,
            )
        )
        if with_host:
            operations.insert(-1, Worked(name="load", step=n, start=100 * n + 5, end=100 * n + 95))
    times = np.arange(0, 100.0 * count + 1)
    samples = [(float(t), power[bool(50 <= t % 100 < 90)] + 0.01 * (t % 7)) for t in times]
    card = replace(channel("gpu0.power", "gpu"), source="power.csv")
    run = load(
        import_made(
            tmp_path / "run", imported(),
            steps=[(100.0 * n, 100.0 * n + 100) for n in range(count)],
            operations=operations, samples=[(card, "power.csv", samples)],
        )
    )  # fmt: skip
    document = run.document()
    assert document["failures"] == []
    rows = {row["name"]: row["energy"] for row in document["operations"]}
    assert rows["kernel"]["value"] == pytest.approx(0.8012, rel=0.03)
    assert rows["kernel"]["low"] <= 0.8012 <= rows["kernel"]["high"]
    if with_host:
        assert rows["load"]["value"] == 0
    rests = sum(row["energy"]["value"] or 0.0 for row in document["rests"].values())
    assert rests == pytest.approx(0.3018, rel=0.06)
    whole = document["metrics"]["energy_per_step"]["value"]
    assert rests + rows["kernel"]["value"] == pytest.approx(whole, rel=1e-6)


@pytest.mark.parametrize("every_ms", [1.0, 40.0], ids=["finely sampled", "coarsely sampled"])
def test_a_total_without_a_rail_of_the_gpu_is_never_told_by_time(
    tmp_path: Path, every_ms: float
) -> None:
    """What regression tells is attributed and says so; what it does not has the reason, and no figure.

    20 W while the kernel runs (40 of 100 ms), 5 W else, beside a host that loads for 90 ms: by time,
    which both share where they overlap, the kernel would have 0.5 of the 1.1 J.
    """
    operations = []
    for n in range(60):
        operations.append(Worked(name="load", step=n, start=100 * n + 5, end=100 * n + 95))
        operations.append(
            Worked(
                name="kernel", step=n, start=100 * n + 50, end=100 * n + 90, processor="gpu0",
                thread=1 << 50,
            )
        )  # fmt: skip
    times = np.arange(0, 6000.0 + every_ms, every_ms)
    samples = [(float(t), (20.0 if 50 <= t % 100 < 90 else 5.0) + 0.01 * (t % 7)) for t in times]
    total = replace(channel("VDD_IN", "system"), source="power.csv", role="power_total")
    run = load(
        import_made(
            tmp_path / "run", imported(), steps=[(100.0 * n, 100.0 * n + 100) for n in range(60)],
            operations=operations, samples=[(total, "power.csv", samples)],
        )
    )  # fmt: skip
    for row in run.document()["operations"]:
        energy = row["energy"]
        if every_ms > 1:
            assert energy["status"] == "missing"
            assert "cannot be distinguished" in energy["reason"]
        else:
            assert energy["status"] == "attributed"
            assert energy["method"].startswith("regression of samples")
    if every_ms == 1:
        kernel = next(r for r in run.document()["operations"] if r["name"] == "kernel")["energy"]
        assert kernel["low"] > 0.6
