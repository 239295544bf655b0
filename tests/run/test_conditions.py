"""Steps by state: throttled, disturbed or neither; left out on request; and energy above idle."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.run.made import BEGIN, MS, Made, Sampled, busy, make_run, power, told
from tests.wording import assert_says

from wattstep.formats.tegrastats import parse
from wattstep.run import Run, load
from wattstep.schema.channel import Channel

CAP = Channel(
    name="cpu0.cap", unit="Hz", kind="gauge", domain="cpu", role="frequency_cap", source="made",
    core=0, limit=2e9,
)  # fmt: skip
UNSEEN = (
    "whether anything disturbed the steps is not known: busy time of the system was not sampled"
)
HOT = range(80, 100)  # steps that are throttled: each takes 10 ms longer, at 3 W instead of 5


def slow(index: int) -> int:
    return 10 * MS if index in HOT else 0


def hot(made: Made, t_ns: int) -> bool:
    """Whether the device is throttled at a time: during the steps of `HOT`."""
    return made.steps[HOT[0]][0] <= t_ns < made.steps[HOT[-1] + 1][0]


def throttled(path: Path, **more: Any) -> Run:
    """120 steps of 20 ms, of which 20 are throttled and take 30 ms."""
    made = make_run(path / "same", [], steps=120, slow=slow)
    sampled = [
        Sampled(channel=power(), raw=lambda t: 3000 if hot(made, t) else 5000),
        Sampled(channel=CAP, raw=lambda t: 1_200_000_000 if hot(made, t) else 2_000_000_000),
    ]
    return load(make_run(path / "r", sampled, steps=120, slow=slow, **more).path)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return throttled(tmp_path_factory.mktemp("hot"))


def test_throttled_steps_are_marked_with_the_evidence(run: Run) -> None:
    """Of steps 80 to 99, 83, 89 and 95 are traced, and the step after each settles."""
    document = run.document()
    conditions = document["conditions"]
    # One step on either side touches the sample that lies between two reads.
    assert 14 <= conditions["throttled_steps"] <= 16
    assert conditions["disturbed_steps"] is None
    assert UNSEEN in conditions["notes"]
    assert conditions["watched"] == ["cpu0.cap"]
    (stretch,) = conditions["stretches"]
    assert stretch["kind"] == "throttled"
    assert stretch["evidence"] == "cpu0.cap fell to 1.2 GHz, from 2 GHz"
    assert stretch["uncertain"] == pytest.approx(0.001)
    marked = set(run.series.steps.index[run.conditions.throttled])
    assert set(HOT) <= marked <= set(range(79, 101))
    assert document["steps"]["throttled"] == conditions["throttled_steps"]


def test_step_time_and_energy_are_told_by_state(run: Run) -> None:
    metrics = run.metrics()
    times, energies = metrics["step_time_by_state"], metrics["energy_per_step_by_state"]
    assert times["undisturbed"].value == pytest.approx(0.02)
    assert times["throttled"].value == pytest.approx(0.03, rel=0.05)
    assert energies["undisturbed"].value == pytest.approx(0.1)
    assert energies["throttled"].value == pytest.approx(0.09, rel=0.03)
    assert_says(times["disturbed"].reason, "busy time", "not sampled")
    assert energies["disturbed"].missing


def test_the_main_figures_hold_all_clean_steps_unless_asked_otherwise(
    run: Run, tmp_path: Path
) -> None:
    counts = run.document()["steps"]
    mean = (0.02 * (counts["clean"] - 14) + 0.03 * 14) / counts["clean"]
    assert run.metrics()["step_time"].value == pytest.approx(mean, rel=1e-6)
    left = throttled(tmp_path, options={"exclude": ["throttled"]})
    document = left.document()
    assert left.metrics()["step_time"].value == pytest.approx(0.02)
    assert left.metrics()["energy_per_step"].value == pytest.approx(0.1)
    assert document["steps"]["clean"] == counts["clean"] - counts["throttled"]
    assert document["steps"]["left out"] == counts["throttled"]
    assert document["conditions"]["throttled_steps"] == counts["throttled"]
    assert document["conditions"]["excluded"] == ["throttled"]
    # By state, they are still told.
    assert left.metrics()["step_time_by_state"]["throttled"].value == pytest.approx(0.03, rel=0.05)
    for what, whole in (("energy", 0.1), ("time", 0.02)):
        assert told(document, what=what) == pytest.approx(whole, rel=1e-6)


def test_a_run_without_throttling_has_no_states(tmp_path: Path) -> None:
    sampled = [
        Sampled(channel=power(), raw=lambda t: 5000),
        Sampled(channel=CAP, raw=lambda t: 2_000_000_000),
    ]
    run = load(make_run(tmp_path / "r", sampled).path)
    assert "step_time_by_state" not in run.metrics()
    assert "throttled" not in run.document()["steps"]
    assert run.document()["conditions"]["notes"] == [UNSEEN]


def test_a_cap_that_never_moved_is_noted_and_throttles_nothing(tmp_path: Path) -> None:
    sampled = [Sampled(channel=CAP, raw=lambda t: 1_200_000_000)]
    conditions = load(make_run(tmp_path / "r", sampled).path).document()["conditions"]
    assert conditions["throttled_steps"] == 0
    assert_says(conditions["notes"][0], "1.2 GHz of 2 GHz")


def test_a_run_whose_sensors_tell_nothing_of_throttling_says_so(tmp_path: Path) -> None:
    conditions = load(make_run(tmp_path / "r", []).path).document()["conditions"]
    assert conditions["watched"] == []
    assert_says(conditions["notes"][0], "no sensor", "throttling")


def test_a_firmware_that_slows_all_cores_is_seen_by_their_common_clock(tmp_path: Path) -> None:
    """A Raspberry Pi's: 1.4 GHz, and 1.2 GHz from the third second to the fifth."""
    clock = Channel(
        name="raspberry.arm_clock", unit="Hz", kind="gauge", domain="cpu", role="frequency",
        source="vcgencmd measure_clock arm",
    )  # fmt: skip
    span = range(BEGIN + 3000 * MS, BEGIN + 5000 * MS)
    sampled = [
        Sampled(channel=clock, raw=lambda t: 1_200_000_000 if t in span else 1_400_000_000),
        Sampled(channel=busy(0), raw=lambda t: (t - BEGIN + 10**9) // (10 * MS)),
        Sampled(channel=busy(1), raw=lambda t: 7),
    ]
    found = load(make_run(tmp_path / "r", sampled, steps=400).path)
    (stretch,) = found.document()["conditions"]["stretches"]
    assert stretch["start"] <= 3
    assert stretch["end"] >= 5
    assert_says(stretch["evidence"], "raspberry.arm_clock was 1.2 GHz", "100 %")


def test_a_run_whose_steps_were_all_throttled_says_that_all_were_left_out(tmp_path: Path) -> None:
    sampled = [
        Sampled(channel=power(), raw=lambda t: 5000),
        Sampled(
            channel=replace(CAP, name="firmware", role="throttle_flag", unit="events"),
            raw=lambda t: 1,
        ),
    ]
    options: dict[str, object] = {"exclude": ["throttled", "disturbed"]}
    run = load(make_run(tmp_path / "r", sampled, options=options).path)
    metrics = run.metrics()
    for name in ("step_time", "throughput", "energy_per_step", "recording_overhead"):
        assert "out as throttled" in (metrics[name].reason or ""), name
    (note,) = [n for n in run.document()["conditions"]["notes"] if "--exclude" in n]
    assert_says(note, "--exclude disturbed", "no disturbance")


# --- what else ran beside another machine's sensors ---------------------------------------------

PROCESS = Channel(
    name="process.cpu", unit="s", kind="counter", domain="process", role="process_cpu_time",
    source="perf task-clock", scale=1e-9,
)  # fmt: skip


def ticks_of(cores: float) -> Any:
    """A counter of ticks of 10 ms that grows by so many cores."""
    return lambda t: round((t - BEGIN + 10**9) * cores) // (10 * MS)


@pytest.mark.parametrize("status", ["replayed", "modelled"])
def test_beside_another_machine_s_sensors_the_host_tells_of_disturbances(
    tmp_path: Path, status: Any
) -> None:
    """The training takes one core; others one more in the second second, whatever was recorded."""
    span = range(BEGIN + 1000 * MS, BEGIN + 2000 * MS)
    host = Channel(
        name="host.busy_time", unit="s", kind="counter", domain="process", role="host_busy_time",
        source="/proc/stat of the machine that trains", scale=0.01,
    )  # fmt: skip
    steal = replace(host, name="host.steal_time", role="host_steal_time")
    recorded = replace(
        host, name="system.busy_time", domain="system", role="system_busy_time", status=status
    )

    def both(t: int) -> int:
        other = min(max(t - span.start, 0), span.stop - span.start)
        return (t - BEGIN + 10**9 + other) // (10 * MS)

    sampled = [
        Sampled(channel=recorded, raw=ticks_of(6.0)),
        Sampled(channel=host, raw=both, every_ns=100 * MS),
        Sampled(channel=steal, raw=lambda t: 0, every_ns=100 * MS),
        Sampled(channel=PROCESS, raw=lambda t: t - BEGIN + 10**9),
    ]
    run = load(make_run(tmp_path / "r", sampled, steps=200, trace="none").path)
    document = run.document()
    (stretch,) = document["conditions"]["stretches"]
    assert stretch["cause"] == "other processes"
    assert 0.4 <= stretch["start"] <= 1.0
    assert 2.0 <= stretch["end"] <= 2.6
    assert 50 <= document["conditions"]["disturbed_steps"] <= 110
    assert document["steps"]["disturbed"] == document["conditions"]["disturbed_steps"]
    other = run.metrics()["other_cpu"]
    assert other.status.value == "measured"
    assert other.value == pytest.approx(1 / 4, rel=0.1)  # one core for one second of four
    assert run.metrics()["steal"].status.value == "measured"


# --- a recorded log -----------------------------------------------------------------------------


def tx2_log() -> bytes:
    """Thirty lines of a made TX2, a second apart: hot from line 12 to line 21."""
    lines = []
    for second in range(30):
        mhz = 1190 if 12 <= second < 22 else 2035
        cores = ",".join(f"100%@{mhz}" for _ in range(6))
        lines.append(
            f"RAM {2000 + second}/7852MB (lfb 1x4MB) CPU [{cores}] EMC_FREQ 10%@1600 "
            "GR3D_FREQ 0%@114 MCPU@45C VDD_IN 5000/5000\n"
        )
    return "".join(lines).encode()


@pytest.fixture(scope="module")
def tx2(tmp_path_factory: pytest.TempPathFactory) -> Run:
    recording = parse(tx2_log(), interval_s=1.0)

    def played(channel: Channel) -> Sampled:
        values = recording.value[channel.name]

        def raw(t_ns: int) -> int:
            second = min(max((t_ns - BEGIN) // 10**9, 0), len(values) - 1)
            return round(float(values[second]) * 1000)

        played = replace(channel, scale=1e-3, status="replayed")
        return Sampled(channel=played, raw=raw, every_ns=1000 * MS)

    sampled = [played(channel) for channel in recording.channels]
    folder = tmp_path_factory.mktemp("tx2") / "r"
    return load(make_run(folder, sampled, steps=1400, trace="none").path)


def test_throttling_in_a_log_of_tegrastats_is_found(tx2: Run) -> None:
    stretches = [
        one for one in tx2.document()["conditions"]["stretches"] if one["kind"] == "throttled"
    ]
    (stretch,) = stretches
    assert stretch["cause"] == "frequency"
    # Read 20 ms before the second begins: the reads beside are at 10.98 s and at 21.98 s.
    assert stretch["start"] == pytest.approx(11, abs=1.05)
    assert stretch["end"] == pytest.approx(22, abs=1.05)
    assert "cpu0.frequency was 1.19 GHz" in stretch["evidence"]
    assert "otherwise 2.035 GHz" in stretch["evidence"]


def test_what_a_log_of_tegrastats_recorded_is_told_as_replayed(tx2: Run) -> None:
    metrics = tx2.metrics()
    assert metrics["cpu_utilization"].value == pytest.approx(1.0)
    assert [core.value for core in metrics["cpu_core_utilization"]] == [pytest.approx(1.0)] * 6
    # 28.02 s of steps and 20 ms more: the line of second 28 was the last one.
    peak = metrics["system_peak_memory"]
    assert peak.value == pytest.approx(2028 * 1024**2, abs=1024**2)
    figures = [metrics["cpu_utilization"], *metrics["cpu_core_utilization"], peak]
    assert {figure.status.value for figure in figures} == {"replayed"}
    assert "tegrastats" in metrics["cpu_utilization"].source
    rows = [
        row for row in tx2.timeline().to_dict()["channels"] if row["role"] == "core_utilization"
    ]
    assert {row["status"] for row in rows} <= {"replayed"}


# --- the thermal model --------------------------------------------------------------------------


def test_the_time_to_throttle_of_a_run_that_throttled_is_from_its_power_before(
    tmp_path: Path,
) -> None:
    """A board of 4 K/W and 100 s from 30 °C in a room of 22 °C: at 9 W, 45 °C after 76.7 s.

    It then takes 5.75 W, which keep it at 45 °C.
    """
    limit, hot_ns = 45.0, round(100 * math.log(28 / 13) * 1e9)
    zone = Channel(
        name="zone", unit="°C", kind="gauge", domain="thermal", role="temperature",
        source="made", scale=1e-3, limit=limit,
    )  # fmt: skip

    def celsius(t_ns: int) -> int:
        since = max(t_ns - BEGIN, 0)
        return round(1000 * (limit if since >= hot_ns else 58 - 28 * math.exp(-since * 1e-11)))

    sampled = [
        Sampled(channel=zone, raw=celsius, every_ns=1000 * MS),
        Sampled(
            channel=power(), raw=lambda t: 9000 if t - BEGIN < hot_ns else 5750, every_ns=1000 * MS
        ),
    ]
    phases = (("forward", 500 * MS), ("backward", 500 * MS))
    run = load(make_run(tmp_path / "r", sampled, steps=150, trace="none", phases=phases).path)
    metrics = run.metrics()
    assert metrics["sustained"]["throttle_onset"].value == pytest.approx(77, abs=1)
    assert metrics["time_to_throttle"].value == pytest.approx(76.7, rel=0.03)
    assert metrics["steady_temperature"].value == pytest.approx(58, abs=1)
    assert metrics["thermal_time_constant"].value == pytest.approx(100, rel=0.03)
    assert "before throttling set" in metrics["time_to_throttle"].method


def test_a_run_that_something_else_throttled_is_not_said_to_stay_unthrottled(
    tmp_path: Path,
) -> None:
    """A sensor that settles at 58 °C below its limit of 80 °C; a flag is set after 120 s."""
    zone = Channel(
        name="zone", unit="°C", kind="gauge", domain="thermal", role="temperature",
        source="made", scale=1e-3, limit=80.0,
    )  # fmt: skip
    flag = Channel(
        name="firmware", unit="events", kind="gauge", domain="cpu", role="throttle_flag",
        source="made",
    )  # fmt: skip

    def celsius(t_ns: int) -> int:
        return round(1000 * (58 - 28 * math.exp(-max(t_ns - BEGIN, 0) * 1e-9 / 30)))

    sampled = [
        Sampled(channel=zone, raw=celsius, every_ns=1000 * MS),
        Sampled(channel=flag, raw=lambda t: int(t - BEGIN >= 120 * 10**9), every_ns=1000 * MS),
        Sampled(channel=power(), raw=lambda t: 9000, every_ns=1000 * MS),
    ]
    phases = (("forward", 500 * MS), ("backward", 500 * MS))
    run = load(make_run(tmp_path / "r", sampled, steps=150, trace="none", phases=phases).path)
    reason = run.metrics()["time_to_throttle"].reason or ""
    assert_says(reason, "at 9 W", "58.0 °C", "80.0 °C")
    assert_says(reason, "throttled after 120 s")


# --- above idle ---------------------------------------------------------------------------------

IDLE = (1000 * MS, 2000 * MS)


def idled(path: Path, **more: Any) -> Run:
    """1 W for a second before the steps, 2 W for two seconds after them, 5 W in between."""
    made = make_run(path / "same", [], idle_ns=IDLE)
    begin, end = BEGIN + IDLE[0], made.end - IDLE[1]

    def watts(t: int) -> int:
        return 1000 if t < begin else 2000 if t >= end else 5000

    sampled = [Sampled(channel=power(), raw=watts)]
    return load(make_run(path / "r", sampled, idle_ns=IDLE, **more).path)


def test_idle_power_before_and_after_is_told_and_taken_off_beside_the_whole(tmp_path: Path) -> None:
    run = idled(tmp_path)
    metrics = run.metrics()
    idle, above = metrics["idle_power"], metrics["energy_per_step_above_idle"]
    assert idle["before"].value == pytest.approx(1, rel=0.01)
    assert idle["after"].value == pytest.approx(2, rel=0.01)
    assert metrics["energy_per_step"].value == pytest.approx(0.1, rel=1e-3)
    assert above["before"].value == pytest.approx(0.1 - 0.02, rel=0.01)
    assert above["after"].value == pytest.approx(0.1 - 0.04, rel=0.01)
    assert "counts as idle" in above["before"].method
    assert "energy_per_step_with_idle" not in metrics
    document = run.document()
    rests = {**document["rests"], **document["rests_outside_steps"]}
    assert not {"idle_before", "idle_after"} & set(rests)


def test_on_request_energy_per_step_is_that_above_idle_and_says_so(tmp_path: Path) -> None:
    metrics = idled(tmp_path, options={"subtract_idle": "after"}).metrics()
    assert metrics["energy_per_step"].value == pytest.approx(0.06, rel=0.01)
    assert "idle device after" in metrics["energy_per_step"].method
    assert metrics["energy_per_step_with_idle"].value == pytest.approx(0.1, rel=1e-3)
    assert metrics["mean_power"].value == pytest.approx(5, rel=1e-3)


def test_idle_that_was_not_recorded_is_missing_where_it_was_asked_for(tmp_path: Path) -> None:
    sampled = [Sampled(channel=power(), raw=lambda t: 5000)]
    options: dict[str, object] = {"subtract_idle": "before"}
    metrics = load(make_run(tmp_path / "r", sampled, options=options).path).metrics()
    assert_says(metrics["energy_per_step"].reason, "no idle stretch", "before")
    assert metrics["energy_per_step_with_idle"].value == pytest.approx(0.1)


def test_an_idle_stretch_within_the_sensor_s_window_is_not_resolvable(tmp_path: Path) -> None:
    channel = replace(power(), window_s=2.5)
    sampled = [Sampled(channel=channel, raw=lambda t: 5000)]
    metrics = load(make_run(tmp_path / "r", sampled, idle_ns=IDLE).path).metrics()
    assert "averages over 2.5 s" in (metrics["idle_power"]["after"].reason or "")


def test_idle_power_begins_when_a_late_sensor_has_left_the_steps_behind(tmp_path: Path) -> None:
    """5 W until the steps end, then 2 W, shown 100 ms late by a gauge that documents nothing."""
    made = make_run(tmp_path / "same", [], idle_ns=IDLE)
    end = made.end - IDLE[1] + 100 * MS
    sampled = [Sampled(channel=power(), raw=lambda t: 5000 if t < end else 2000)]
    run = load(make_run(tmp_path / "r", sampled, idle_ns=IDLE).path)
    assert run.metrics()["idle_power"]["after"].value == pytest.approx(2.0, rel=1e-9)


def test_an_idle_stretch_that_a_late_sensor_never_shows_alone_is_not_resolvable(
    tmp_path: Path,
) -> None:
    sampled = [Sampled(channel=power(), raw=lambda t: 5000)]
    made = make_run(tmp_path / "r", sampled, idle_ns=(0, 90 * MS))
    idle = load(made.path).metrics()["idle_power"]["after"]
    assert idle.missing
    assert "stretch is shorter" in (idle.reason or "")
