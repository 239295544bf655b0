"""Recordings played in place of sensors: formats, times, options, and a run made from one."""

from __future__ import annotations

import itertools
import json
import math
import re
import shutil
import struct
import subprocess
import sys
import threading
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.refusals import refused
from tests.wording import assert_says, saying

import wattstep
from wattstep.formats.rows import NO_END
from wattstep.importing.recorded import read_recording, run_recording
from wattstep.record.hosts import parse_target
from wattstep.record.hosts.playing import Playing
from wattstep.record.hosts.replay import ReplayHost, open_host
from wattstep.record.recorder import Recorder, RecordingWarning
from wattstep.record.sensors import SENSORS, load
from wattstep.run.step_flags import around_training
from wattstep.schema.channel import Absent, Present
from wattstep.schema.figure import Status

MISSING = -(2**63)
FIXTURES = Path(__file__).parent.parent / "fixtures"
CLOSED = FIXTURES / "runs" / "schema-1"
# Watts at uneven times, with a missing one.
LOG = """\
# bench supply
t_s,power [W],cpu0 [MHz],zone [°C]
10.0,4.0,1200,40.5
10.5,6.0,1200,
11.5,2.0,,41
12.0,8.0,900,41.25
"""
Played = tuple[int, int, int, tuple[int, ...] | None]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "bench.csv"
    path.write_text(LOG)
    return path


def host(path: Path, **options: str) -> ReplayHost:
    folder = path.parent / "run"
    (folder / "journal").mkdir(parents=True, exist_ok=True)
    return open_host(str(path), options, 1, folder)


def played(one: ReplayHost, most: int = 10**6) -> list[Played]:
    """What its feed gives, with times from the first row, until it ends or gave so much."""
    found = one.probe()["replay"]
    assert isinstance(found, Present)
    given: list[Played] = []
    stop = threading.Event()

    def emit(position: int, t_ns: int, code: int, values: Any) -> None:
        given.append((position, t_ns, code, values))
        if len(given) == most:
            stop.set()

    Playing(**found.reads[0].push_settings, period_s=0.01).run(emit, stop)
    first = given[0][1]
    return [(position, t_ns - first, code, values) for position, t_ns, code, values in given]


def test_every_value_is_given_at_its_own_time_as_fast_as_possible(log: Path) -> None:
    one = host(log, speed="max")
    got = played(one)
    found = one.probe()["replay"]
    assert isinstance(found, Present)
    (read,) = found.reads
    values = [
        [
            math.nan if raw == MISSING else raw * c.scale
            for raw, c in zip(row[3], read.channels, strict=True)
        ]
        for row in got
        if row[3] is not None
    ]
    assert [row[1] for row in got] == [0, 500_000_000, 1_500_000_000, 2_000_000_000]
    np.testing.assert_allclose(
        values,
        [[4.0, 1.2e9, 40.5], [6.0, 1.2e9, np.nan], [2.0, np.nan, 41], [8.0, 9e8, 41.25]],
        rtol=1e-14,
    )
    assert [row[2] for row in got] == [0] * 4


def test_a_factor_plays_faster_and_is_waited_for(log: Path) -> None:
    begun = time.monotonic_ns()
    got = played(host(log, speed="10"))
    assert time.monotonic_ns() - begun >= 200_000_000
    assert [row[1] for row in got] == [0, 50_000_000, 150_000_000, 200_000_000]


@pytest.mark.parametrize(("speed", "rows"), [("max", 4), ("1", 1)])
def test_as_fast_as_possible_no_row_is_waited_for(log: Path, speed: str, rows: int) -> None:
    """Who waits hears that it is to stop before the second row is due."""
    found = host(log, speed=speed).probe()["replay"]
    assert isinstance(found, Present)
    stop = threading.Event()
    stop.set()
    given: list[int] = []
    feed = Playing(**found.reads[0].push_settings, period_s=0.01)
    feed.run(lambda position, t_ns, code, values: given.append(t_ns), stop)
    assert len(given) == rows


def test_a_loop_begins_again_and_counters_go_on(tmp_path: Path) -> None:
    path = tmp_path / "counter.csv"
    path.write_text("t_s,energy [J],power [W]\n0,5,1\n0.01,6,2\n0.02,7,3\n")
    got = played(host(path, loop="yes"), most=8)[:8]  # more were due when it was told to stop
    assert [row[1] for row in got] == [n * 10_000_000 for n in range(8)]
    found = host(path).probe()["replay"]
    assert isinstance(found, Present)
    energy, power = (channel.scale for channel in found.reads[0].channels)
    assert [round(row[3][0] * energy, 9) for row in got if row[3]] == [5, 6, 7, 8, 9, 10, 11, 12]
    assert [round(row[3][1] * power, 9) for row in got if row[3]] == [1, 2, 3, 1, 2, 3, 1, 2]


def test_no_sensor_of_this_machine_is_sampled_beside_a_recording(log: Path) -> None:
    found = host(log).probe()
    reason = "not sampled: the sensors of bench.csv are replayed"
    for name in SENSORS:
        if load(name).scope == "machine":
            assert found[name] == Absent(reason=reason)
        else:
            assert found[name] != Absent(reason=reason)


def test_every_channel_of_a_recording_says_that_it_is_replayed_and_from_where(log: Path) -> None:
    found = host(log).probe()["replay"]
    assert isinstance(found, Present)
    channels = [channel for read in found.reads for channel in read.channels]
    assert [c.name for c in channels] == ["power", "cpu0", "zone"]
    assert {c.status for c in channels} == {"replayed"}
    assert all(c.source.endswith("replayed from bench.csv") for c in channels)
    assert [(c.role, c.domain, c.unit, c.core) for c in channels] == [
        ("power_total", "system", "W", None),
        ("frequency", "cpu", "Hz", 0),
        ("temperature", "thermal", "°C", None),
    ]


def test_the_site_says_what_is_replayed_without_a_path(log: Path) -> None:
    one = host(log)
    (note,) = one.notes
    assert_says(note, "replayed from bench.csv", "power does not")
    assert_says(one.device["sensors_of"], "recording bench.csv", "plain CSV")
    assert str(log.parent) not in repr((one.notes, one.device))


LOADED = """\
import json, sys
from pathlib import Path
from wattstep.record.hosts import open_host, parse_target
host = open_host(parse_target(sys.argv[1]), 1, Path(sys.argv[2]))
host.probe()
print(json.dumps(sorted(sys.modules)))
"""


@pytest.mark.parametrize("kind", ["file", "run"])
def test_a_recording_takes_no_memory_of_the_process_that_trains(
    log: Path, tmp_path: Path, kind: str
) -> None:
    """Neither numpy nor pyarrow nor what parses is loaded there: a child prepares it."""
    (tmp_path / "run" / "journal").mkdir(parents=True)
    target = f"replay:{log if kind == 'file' else CLOSED}"
    done = subprocess.run(
        [sys.executable, "-c", LOADED, target, str(tmp_path / "run")],
        capture_output=True,
        check=True,
    )
    loaded = {name.partition(".")[0] for name in json.loads(done.stdout)}
    assert loaded.isdisjoint({"numpy", "pyarrow"})
    assert "wattstep" in loaded
    assert list((tmp_path / "run" / "journal").glob("replay-*.bin"))


def test_a_child_that_ends_without_an_answer_is_one_clear_line(log: Path) -> None:
    with refused("replay-failed", "bench.csv", "FileNotFoundError"):
        open_host(str(log), {}, 1, log.parent / "nowhere")


# --- options and bad input ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "id", "named"),
    [
        ({"sped": "max"}, "unknown-target-option", ["'sped'", "speed, interval, loop, board"]),
        ({"speed": "fast"}, "malformed-option", ["speed=fast", "real, max", "0"]),
        ({"speed": "0"}, "malformed-option", ["speed=0", "real"]),
        ({"speed": "-1"}, "malformed-option", ["speed=-1", "real"]),
        ({"speed": "nan"}, "malformed-option", ["speed=nan", "real"]),
        ({"loop": "1"}, "malformed-option", ["loop=1", "yes", "no"]),
        ({"loop": "yes", "speed": "max"}, "endless-replay", ["speed=max", "loop=yes"]),
        ({"board": "toaster"}, "unknown-board", ["'toaster'"]),
    ],
)
def test_an_option_that_is_of_no_use_is_refused(
    log: Path, options: dict[str, str], id: str, named: list[str]
) -> None:
    with refused(id, *named):
        host(log, **options)


@pytest.mark.parametrize(
    ("data", "id", "named"),
    [
        (b"", "unknown-recording", "tegrastats, nvidia-smi"),
        (b"\x7fELF\x00\x01", "unknown-recording", "tegrastats, nvidia-smi"),
        (b"t_s,power [W]\n", "no-values", "file"),
        (b"t_s,power [W]\n1,\n", "no-values", "file"),
        (b"t_s,power [W]\n1,x\n", "not-a-number", "line 2 is no plain"),
    ],
)
def test_what_cannot_be_replayed_is_one_clear_line(
    tmp_path: Path, data: bytes, id: str, named: str
) -> None:
    path = tmp_path / "file"
    path.write_bytes(data)
    with refused(id, named):
        host(path)


def test_a_recording_that_is_not_there_is_one_clear_line(tmp_path: Path) -> None:
    with refused("unreadable-recording", "none"):
        host(tmp_path / "none")
    with refused("not-a-recording"):
        host(tmp_path)


def test_a_run_does_not_say_where_its_recording_lay() -> None:
    assert parse_target("replay:/home/me/secret/a.csv,speed=max").text == "replay:a.csv,speed=max"
    assert parse_target("emulate:jetson-tx2").text == "emulate:jetson-tx2"
    assert parse_target(None).text == "local"


def test_rails_of_a_board_that_the_user_names_make_its_total(tmp_path: Path) -> None:
    path = tmp_path / "tx2.csv"
    path.write_text(
        "t_s,VDD_IN [mW],rail.vdd_sys_gpu.power [mW],odd [W]\n0,5000,900,1\n1,5100,900,1\n"
    )
    recording = read_recording(path, {"board": "jetson-tx2"})
    assert recording.board == "jetson-tx2"
    assert [channel.role for channel in recording.channels] == [
        "power_total",
        "power_part",
        "power_part",
    ]
    np.testing.assert_allclose(recording.value["vdd_in"], [5.0, 5.1])


def test_a_log_that_lacks_a_rail_of_the_total_has_none_though_the_board_is_named(
    tmp_path: Path,
) -> None:
    line = "RAM 100/31925MB CPU [5%@1190] GPU 310/310 CPU 310/310 SOC 924/924 CV 0/0 VDDRQ 154/154"
    path = tmp_path / "xavier.log"
    path.write_text(f"{line}\n{line}\n")
    named = {"board": "jetson-agx-xavier", "interval": "1s"}
    rails = {c.name: c for c in read_recording(path, named).channels if c.name.startswith("rail.")}
    assert rails["rail.gpu"].role == "power_part"
    assert "needs SYS5V" in rails["rail.gpu"].note
    path.write_text(f"{line} SYS5V 2310/2310\n" * 2)
    total = [c for c in read_recording(path, named).channels if c.role == "power_total"]
    assert len(total) == 6
    assert all("GPU + CPU + SOC + CV + VDDRQ + SYS5V" in channel.note for channel in total)


def test_columns_of_a_named_board_mean_what_its_table_says(tmp_path: Path) -> None:
    path = tmp_path / "rails.csv"

    def roles(board: str, header: str) -> dict[str, str]:
        cells = ",".join("1" for _ in header.split(","))
        path.write_text(f"t_s,{header}\n0,{cells}\n1,{cells}\n")
        return {c.name: c.role for c in read_recording(path, {"board": board}).channels}

    part, total, outside = "power_part", "power_total", "power_outside"
    six = "gpu [W],cpu [W],soc [W],cv [W],vddrq [W]"
    assert set(roles("jetson-agx-xavier", six).values()) == {part}
    assert set(roles("jetson-agx-xavier", f"{six},sys5v [W]").values()) == {total}
    tx2 = roles("jetson-tx2", "rail.vdd_in [W],rail.vdd_mux [W]")
    assert tx2 == {"rail.vdd_in": total, "rail.vdd_mux": outside}
    # The power of the whole machine is not added to a rail that it contains.
    own = roles("jetson-tx2", "power [W],rail.vdd_in [W]")
    assert own == {"power": total, "rail.vdd_in": part}


# --- runs as recordings ------------------------------------------------------------------------


def test_a_run_replays_what_was_of_the_machine_and_nothing_of_its_process() -> None:
    recording = run_recording(CLOSED)
    run = wattstep.load(CLOSED)
    expected = {
        name: channel
        for name, channel in run.tables.channels().items()
        if channel.domain not in ("process", "sampler") and name in run.tables.samples()
    }
    assert {channel.name for channel in recording.channels} == set(expected)
    for name in expected:
        t_ns, value, _ = run.tables.samples()[name]
        np.testing.assert_array_equal(recording.t_ns[name], t_ns)
        np.testing.assert_array_equal(recording.value[name], value)
    assert sum(recording.ignored.values()) > 0


@pytest.mark.filterwarnings("ignore::wattstep.record.recorder.RecordingWarning")
def test_the_load_of_the_recorded_machine_is_not_taken_for_a_disturbance_of_this_training(
    tmp_path: Path,
) -> None:
    shutil.copytree(CLOSED, tmp_path / "then")
    target = f"replay:{tmp_path / 'then'},speed=max"
    with Recorder(tmp_path / "run", target=target, trace="none") as recorder:
        trained(recorder, 2.5)  # five samples of our own clocks, which come every half second
    run = wattstep.load(tmp_path / "run")
    assert "system.busy_time" in run.tables.samples()
    # What is held against it is what this machine did.
    assert around_training(run.series, "busy_time") == "host_busy_time"
    assert run.metrics()["other_cpu"].status is Status.MEASURED
    host = run.tables.channels()["host.busy_time"]
    assert host.status == "measured"
    again = {channel.name for channel in run_recording(tmp_path / "run").channels}
    assert "system.busy_time" in again
    assert "host.busy_time" not in again


def test_values_of_any_size_survive_the_journal(tmp_path: Path) -> None:
    values = [1e-9, 0.4, 4.321, 123456.789, 2.4e9, 17179869184.0, 5e14]
    names = [f"v{n}" for n in range(len(values))]
    path = tmp_path / "sizes.csv"
    path.write_text(
        "t_s," + ",".join(names) + "\n0," + ",".join(map(repr, values)) + "\n1" + ",0" * 7 + "\n"
    )
    found = host(path).probe()["replay"]
    assert isinstance(found, Present)
    row = (tmp_path / "run" / "journal" / "replay-00.bin").read_bytes()[: 8 * (2 + len(values))]
    offset, code, *raw = struct.unpack(f"<{2 + len(values)}q", row)
    assert (offset, code) == (0, 0)
    got = [r * c.scale for r, c in zip(raw, found.reads[0].channels, strict=True)]
    np.testing.assert_allclose(got, values, rtol=1e-9)


# --- end to end --------------------------------------------------------------------------------


def trained(recorder: Recorder, seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with recorder.step(samples=1):
            time.sleep(0.005)


@pytest.mark.filterwarnings(
    "ignore::wattstep.record.recorder.RecordingWarning"
)  # a slow machine outlasts it
def test_the_energy_of_a_run_is_the_trapezoid_of_the_replayed_log(tmp_path: Path) -> None:
    """Power is 10 W for 1 s, then falls in a line to 2 W within 1 s, and stays."""
    path = tmp_path / "ramp.csv"
    times = [n / 20 for n in range(101)]
    watts = [10.0 if t <= 1 else max(2.0, 10.0 - 8.0 * (t - 1)) for t in times]
    path.write_text(
        "t_s,power [W]\n" + "".join(f"{t},{w}\n" for t, w in zip(times, watts, strict=True))
    )
    with Recorder(tmp_path / "run", target=f"replay:{path}", trace="none", warmup=0) as recorder:
        trained(recorder, 2.5)
    run = wattstep.load(tmp_path / "run")
    t_ns, value = run.series.raw("power")
    start = t_ns[0]
    np.testing.assert_allclose(np.diff(t_ns), 50_000_000)
    np.testing.assert_allclose(value, watts[: len(value)])
    steps = run.series.steps
    begin, end = (int(t - start) * 1e-9 for t in (steps.start_ns[0], steps.end_ns[-1]))
    end = min(end, int(t_ns[-1] - start) * 1e-9)  # the row after the last step may not have come
    energy = run.series.energy
    assert not isinstance(energy, str)
    gained, _ = energy.curve.difference(np.array([steps.start_ns[0]]), np.array([steps.end_ns[-1]]))
    assert gained[0] == pytest.approx(trapezoid(times, watts, begin, end), rel=1e-9)
    assert run.info.target == "replay:ramp.csv"
    assert_says(run.info.notes[0], "replayed from ramp.csv", "power does not")
    assert str(tmp_path) not in (tmp_path / "run" / "run.json").read_text()
    assert "companion.cpu_time" in run.tables.samples()
    assert not (tmp_path / "run" / "journal").exists()


def trapezoid(times: list[float], watts: list[float], begin: float, end: float) -> float:
    """By hand: whole trapezoids, the first and the last cut where the steps begin and end."""
    energy = 0.0
    points = list(zip(times, watts, strict=True))
    for (t0, p0), (t1, p1) in itertools.pairwise(points):
        a, b = max(t0, begin), min(t1, end)
        if a < b:
            slope = (p1 - p0) / (t1 - t0)
            energy += (p0 + slope * (a - t0) + p0 + slope * (b - t0)) / 2 * (b - a)
    return energy


@pytest.mark.filterwarnings(
    "ignore::wattstep.record.recorder.RecordingWarning"
)  # a slow machine outlasts it
def test_a_real_log_of_tegrastats_is_played_without_loss(tmp_path: Path) -> None:
    """Against the text itself: time and input rail of every line, by an expression of our own."""
    path = FIXTURES / "jetson" / "xaviernx_8gb__all.tegrastats"
    lines = re.findall(r"(?m)^(\d+\.\d+)::.* VDD_IN (\d+)mW/", path.read_text())
    assert len(lines) > 50
    times = [round((Decimal(t) - Decimal(lines[0][0])) * 10**9) for t, _ in lines]
    watts = [int(milliwatts) / 1000 for _, milliwatts in lines]
    target = f"replay:{path},speed=max"
    with Recorder(tmp_path / "run", target=target, trace="none") as recorder:
        trained(recorder, 1.2)
    run = wattstep.load(tmp_path / "run")
    (total,) = run.series.with_role("power_total")
    assert (total.name.split(".")[1], total.status) == ("vdd_in", "replayed")
    t_ns, value = run.series.raw(total.name)
    assert list(t_ns - t_ns[0]) == times
    np.testing.assert_allclose(value, watts, rtol=1e-12)
    by_hand = sum(
        (p0 + p1) / 2 * (t1 - t0) * 1e-9
        for (t0, p0), (t1, p1) in itertools.pairwise(zip(times, watts, strict=True))
    )
    energy = run.series.energy
    assert not isinstance(energy, str)
    assert energy.curve.total[-1] == pytest.approx(by_hand, rel=1e-9)
    assert energy.status == Status.REPLAYED
    assert "Jetson Xavier NX" in run.info.device["sensors_of"]


@pytest.mark.filterwarnings(
    "ignore::wattstep.record.recorder.RecordingWarning"
)  # a slow machine outlasts it
def test_as_fast_as_possible_gives_the_same_samples_at_once(tmp_path: Path, log: Path) -> None:
    target = f"replay:{log},speed=max"
    with Recorder(tmp_path / "run", target=target, trace="none") as recorder:
        trained(recorder, 0.3)
    t_ns, value, _ = wattstep.load(tmp_path / "run").tables.samples()["power"]
    assert list(np.diff(t_ns)) == [500_000_000, 1_000_000_000, 500_000_000]
    np.testing.assert_allclose(value, [4, 6, 2, 8])


def test_a_recording_that_ends_before_the_run_leaves_a_gap_and_a_note(tmp_path: Path) -> None:
    path = tmp_path / "short.csv"
    path.write_text("t_s,power [W]\n0,4\n0.1,5\n")
    recorder = Recorder(tmp_path / "run", target=f"replay:{path}", trace="none")
    with pytest.warns(RecordingWarning, match="replay ended"), recorder:
        trained(recorder, 1.0)
    run = wattstep.load(tmp_path / "run")
    assert saying(run.info.notes, "replay ended", "no samples")
    t_ns, value, _ = run.tables.samples()["power"]
    assert list(value) == [4, 5]
    assert run.info.lost["replay"] == t_ns[-1]
    others = run.tables.samples()["process.resident_memory"][0]
    assert others[-1] - t_ns[-1] > 0.4e9  # of the second that it ran: they go on


def test_a_cut_log_is_replayed_as_far_as_it_goes_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "cut.csv"
    path.write_bytes(LOG.encode()[:-3])  # "41.2" is no 41.25
    one = host(path, speed="max")
    assert one.notes[1] == f"cut.csv: {NO_END}"
    assert len(played(one)) == 3
