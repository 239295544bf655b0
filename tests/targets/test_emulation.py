"""Runs on an emulated TX2: the real recorder, sampler and sensors, moved by a real load."""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from tests.refusals import refused
from tests.wording import assert_says

from wattstep.record.hosts.emulation.host import EmulatedHost, open_host
from wattstep.record.hosts.emulation.truth import read_truth
from wattstep.record.recorder import Recorder
from wattstep.run.run import Run
from wattstep.schema.channel import Channel, Present

CORES = os.sched_getaffinity(0)
WAIT_S = 20.0


def busy(seconds: float) -> None:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def recorded(path: Path, options: str, rest_s: float = 0.0, seconds: float = 2.5) -> Run:
    """A loop that is busy, and idle for `rest_s` in each step."""
    with Recorder(path, trace="none", target=f"emulate:jetson-tx2,{options}") as recorder:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            with recorder.step(samples=1):
                busy(0.05)
                time.sleep(rest_s)
    return Run(path)


@dataclass(frozen=True)
class Truth:
    """The journal of what the board did, in SI units."""

    t_ns: list[int]
    columns: dict[str, list[float]]

    @classmethod
    def of(cls, run: Run) -> Truth:
        columns, rows = read_truth(run.path)
        values = {
            column.name: [row[place] * column.scale for row in rows]
            for place, column in enumerate(columns)
        }
        return cls(t_ns=[row[0] for row in rows], columns=values)

    def energy(self, name: str, begin_ns: int, end_ns: int) -> float:
        """By hand: each row's power holds since the row before."""
        total = 0.0
        watts = self.columns[name][1:]
        for (before, after), power in zip(itertools.pairwise(self.t_ns), watts, strict=True):
            total += max(min(after, end_ns) - max(before, begin_ns), 0) * 1e-9 * power
        return total

    def kept_up(self) -> bool:
        """No row is late: the machine was not too full for the emulator."""
        return all(after - before <= 30e6 for before, after in itertools.pairwise(self.t_ns))

    def edge(self, name: str, row: int) -> float:
        """What a window's energy may differ by if it began or ended inside a row of several ticks.

        Rows of one tick, which are all on a machine that keeps up, have no inside.
        """
        total = 0.0
        for end in range(max(row, 1), min(row + 2, len(self.t_ns))):
            length = self.t_ns[end] - self.t_ns[end - 1]
            if length > 11e6:
                total += length * 1e-9 * self.spread(name, self.t_ns[end - 1], self.t_ns[end])
        return total

    def mean(self, name: str, first: int, last: int) -> float:
        """Mean power from the time of one row to that of another."""
        begin, end = self.t_ns[first], self.t_ns[last]
        return self.energy(name, begin, end) / ((end - begin) * 1e-9)

    def spread(self, name: str, begin_ns: int, end_ns: int) -> float:
        """Highest less lowest in the rows that touch a stretch of time."""
        first = next((n for n, t in enumerate(self.t_ns) if t >= begin_ns), 0)
        last = next((n for n, t in enumerate(self.t_ns) if t >= end_ns), len(self.t_ns) - 1)
        values = self.columns[name][first : last + 1]
        return max(values) - min(values)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run through which the emulator kept up, or the last of four."""
    for _ in range(4):
        run = recorded(tmp_path_factory.mktemp("emulated") / "run", "truth=10ms")
        if Truth.of(run).kept_up():
            break
    return run


def channels(run: Run) -> Iterator[tuple[str, Channel]]:
    for read in run.info.reads:
        for channel in read.channels:
            yield read.sensor, channel


def values(run: Run, name: str) -> list[float]:
    found: list[float] = run.series.raw(name)[1].tolist()
    return found


# --- what it says of itself ---------------------------------------------------------------------


def test_what_belongs_to_the_board_is_modelled_and_the_training_is_measured(run: Run) -> None:
    own = {
        "process_cpu", "process_threads", "process_memory", "children", "proportional_memory",
        "page_faults", "core_wait",
        "host", "emulator",
    }  # fmt: skip
    for sensor, channel in channels(run):
        if sensor in ("sampler", "companion"):
            continue
        expected = "measured" if sensor in own else "modelled"
        assert channel.status == expected, (sensor, channel.name)


def test_what_disturbs_the_training_is_seen_on_the_machine_that_trains(run: Run) -> None:
    figures = run.metrics()
    assert figures["other_cpu"].status == "measured"
    assert figures["steal"].status == "measured"
    assert run.document()["conditions"]["disturbed_steps"] is not None
    roles = {channel.role for _, channel in channels(run)}
    assert {"host_busy_time", "host_steal_time", "emulator_cpu_time"} <= roles
    assert values(run, "emulator.cpu_time")[-1] > 0


def test_a_core_that_never_works_is_always_idle(run: Run) -> None:
    """The load is on core 0, an A57: the Denver2 cores 1 and 2 have none."""
    ratios = run.metrics()["idle_state_ratio"]
    assert [ratio.value for ratio in ratios[1:3]] == [1.0, 1.0]


def test_the_figures_are_modelled(run: Run) -> None:
    figures = run.metrics()
    assert figures["mean_power"].status == "modelled"
    assert figures["energy_per_step"].status == "modelled"
    assert figures["step_time"].status == "measured"


def test_the_run_says_which_board_it_is_not(run: Run) -> None:
    assert run.info.target.startswith("emulate:jetson-tx2")
    assert run.info.device["cores"] == 6
    assert "TX2" in run.info.device["model"]
    assert run.info.device["emulated_on"]["cores"] == len(CORES)
    (note,) = [note for note in run.info.notes if "emulated" in note]
    assert_says(note, "never evidence", "NVIDIA Jetson TX2")


def test_every_rail_is_there_with_the_input_as_the_only_total(run: Run) -> None:
    rails = {c.name: c.role for sensor, c in channels(run) if sensor == "ina3221"}
    assert rails.pop("rail.vdd_in") == "power_total"
    assert set(rails) == {
        "rail.vdd_sys_gpu", "rail.vdd_sys_soc", "rail.vdd_4v0_wifi", "rail.vdd_sys_cpu",
        "rail.vdd_sys_ddr",
    }  # fmt: skip
    assert set(rails.values()) == {"power_part"}


def test_the_mover_is_no_child_of_the_training(tmp_path: Path) -> None:
    before = len(psutil.Process().children(recursive=True))  # of other tests in this process
    run = recorded(tmp_path / "run", "truth=10ms", seconds=1.0)
    assert 0 <= max(values(run, "children.count")) <= before


# --- what it measures ---------------------------------------------------------------------------


def test_clusters_are_apart(run: Run) -> None:
    assert max(values(run, "cpu0.frequency")) > 345.6e6
    assert set(values(run, "cpu1.frequency")) == {345.6e6}  # Denver2: the load is on an A57
    assert values(run, "cpu0.busy_time")[-1] > 0.1
    assert values(run, "cpu1.busy_time")[-1] == 0.0


def test_what_is_sampled_is_what_the_emulator_put_there(run: Run) -> None:
    truth = Truth.of(run)
    for label in ("VDD_IN", "VDD_SYS_CPU", "VDD_SYS_DDR"):
        said = truth.columns[f"{label}.said"]
        t_ns, sampled = run.series.raw(f"rail.{label.lower()}")
        wrong = known = 0
        for when, value in zip(t_ns.tolist(), sampled.tolist(), strict=True):
            place = next((n for n, t in enumerate(truth.t_ns) if t > when), len(said)) - 1
            if not 2 <= place < len(said) - 1:
                continue
            known += 1
            # A row is stamped before it is written, a sample before it is read.
            beside = said[place - 1 : place + 2]
            wrong += min(abs(value - each) for each in beside) > 1e-3  # whole milliwatts
        assert known > 50
        assert wrong <= known / 100


def test_energy_is_what_the_emulator_put_in_within_quantum_and_update_interval(run: Run) -> None:
    truth, steps = Truth.of(run), run.series.steps
    clean = run.breakdown.clean
    begin, end = steps.start_ns[clean], steps.end_ns[clean]
    per_step = run.metrics()["energy_per_step"].value
    assert per_step is not None
    said = per_step * len(clean)
    put_in = sum(truth.energy("VDD_IN.true", *each) for each in zip(begin, end, strict=True))
    seconds = float((end - begin).sum()) * 1e-9
    t_ns = [int(t) for t in run.series.raw("rail.vdd_in")[0] if begin[0] - 1e8 < t < end[-1] + 1e8]
    # A value stands for the time until the next sample, and speaks of a tick before it: between
    # two samples it is wrong by at most what the power spread over in that time. These errors
    # add up as chance does (four times their root mean square), and the delay as a whole shows
    # only where a stretch of steps begins and ends.
    late = [
        truth.spread("VDD_IN.true", before - 30_000_000, after + 10_000_000) * (after - before)
        for before, after in itertools.pairwise(t_ns)
    ]
    stretches = 1 + sum(after - before > 1 for before, after in itertools.pairwise(clean.tolist()))
    edges = 2 * stretches * 0.02 * truth.spread("VDD_IN.true", t_ns[0], t_ns[-1])
    bound = seconds * (0.0385 / 2 + 1e-3) + edges + 4e-9 * math.hypot(*late)
    assert abs(said - put_in) <= bound
    if truth.kept_up():  # else the bound holds, and says little
        assert bound < 0.15 * put_in


def test_the_emulator_puts_in_what_its_model_says_of_the_trainings_load(run: Run) -> None:
    # By hand: CPU rail 0.23 W, and 3.97 W for six busy cores at the highest clock; by its power
    # of 2.5 less at a lower one.
    truth = Truth.of(run)
    cores = truth.columns["training.cores"]
    clock = truth.columns["sys/devices/system/cpu/cpufreq/policy0"]
    assert len(cores) > 50
    assert max(cores) > 0.1
    for share, hertz, watts in zip(cores, clock, truth.columns["VDD_SYS_CPU.true"], strict=True):
        if share <= 1.0:  # all on one core of this cluster
            expected = 0.23 + 3.97 * share / 6 * (hertz / 2035.2e6) ** 2.5
            assert watts == pytest.approx(expected, abs=1e-5)


def test_averaging_makes_values_as_old_as_its_window(tmp_path: Path) -> None:
    options = (
        "averaging=422ms,truth=10ms,scale=20"  # every window is then many quanta from the next
    )
    run = recorded(tmp_path / "run", options, rest_s=0.05, seconds=4.0)
    t_ns, sampled = run.series.raw("rail.vdd_in")
    said = Truth.of(run)
    changes = [
        int(after)
        for (before, old), (after, new) in itertools.pairwise(zip(t_ns, sampled, strict=True))
        if old != new
    ]
    # Ten windows of 422 ms at most, however often it is read; the first holds the start.
    assert 1 <= len(changes) <= 4.5 / 0.41 + 1
    assert len(sampled) > 5 * len(changes)
    spacing = [(after - before) * 1e-9 for before, after in itertools.pairwise(changes)]
    assert all(length > 0.35 for length in spacing)
    (window,) = {c.window_s for sensor, c in channels(run) if sensor == "ina3221"}
    assert window == 0.422
    # Each value is the mean of the window before it, to half a quantum. A window ends with the
    # tick that is nearest to 422 ms, so that it may have begun a row earlier or later.
    shown = said.columns["VDD_IN.said"]
    told = 0
    for place in (n for n in range(60, len(shown)) if shown[n] != shown[n - 1]):
        begin = next(n for n in range(place, 0, -1) if said.t_ns[place] - said.t_ns[n] >= 417e6)
        firsts = range(begin - 1, min(begin + 2, place))
        means = [said.mean("VDD_IN.true", first, place) for first in firsts]
        edges = said.edge("VDD_IN.true", begin) + said.edge("VDD_IN.true", place)
        wrong = min(abs(shown[place] - mean) for mean in means)
        assert wrong <= 0.0385 / 2 + 1e-3 + edges / 0.4
        told += 1
    assert told >= 1


def test_an_unreadable_rail_is_a_gap_in_itself_alone(tmp_path: Path) -> None:
    run = recorded(tmp_path / "run", "quirk=eio:VDD_SYS_SOC", seconds=1.5)
    names = [c.name for sensor, c in channels(run) if sensor == "ina3221"]
    counts = {name: values_of(run, name) for name in names}
    assert counts.pop("rail.vdd_sys_soc", 0) == 0
    assert len(counts) == 5
    most = max(counts.values())
    assert most > 20
    assert all(count >= most - 2 for count in counts.values())


def values_of(run: Run, name: str) -> int:
    """How many samples have a value."""
    if name not in run.series.samples:
        return 0
    return sum(value == value for value in values(run, name))


def test_a_hot_board_throttles_and_the_record_shows_it(tmp_path: Path) -> None:
    # At rest its hottest zone has 30 + 3 x 1.839 + 0.385 = 35.9 °C: a little load is enough.
    run = recorded(tmp_path / "run", "throttle=35.95,ambient=30,heat=500,truth=10ms", seconds=3.0)
    truth = Truth.of(run)
    first = next(n for n, level in enumerate(truth.columns["throttle.level"]) if level)
    zones = ("BCPU-therm", "MCPU-therm", "GPU-therm", "PLL-therm")
    assert max(truth.columns[zone][first] for zone in zones) >= 35.95
    flags = [c.name for sensor, c in channels(run) if c.role == "throttle_flag"]
    assert any(max(values(run, name)) > 0 for name in flags if values_of(run, name))
    caps = [c for _, c in channels(run) if c.role == "frequency_cap" and c.domain == "cpu"]
    assert any(min(values(run, c.name)) < (c.limit or 0) for c in caps if values_of(run, c.name))


def test_no_throttled_step_is_missed_and_false_ones_lie_beside_true_ones(tmp_path: Path) -> None:
    run = recorded(tmp_path / "run", "throttle=35.95,ambient=30,heat=500,truth=10ms", seconds=3.0)
    truth = Truth.of(run)
    level = truth.columns["throttle.level"]
    hot = [t for t, each in zip(truth.t_ns, level, strict=True) if each]
    assert hot
    steps = run.series.steps
    for begin, end, found in zip(
        steps.start_ns, steps.end_ns, run.conditions.throttled, strict=True
    ):
        if any(begin <= t <= end for t in hot):
            assert found
        elif found:  # caps are read every 100 ms, dithered by 5 %
            assert min(max(begin - t, t - end, 0) for t in hot) <= 110_000_000


# --- its end ------------------------------------------------------------------------------------


def is_running(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    return False


@pytest.fixture
def host(tmp_path: Path) -> Iterator[EmulatedHost]:
    opened = open_host("jetson-tx2", {}, os.getpid(), tmp_path)
    yield opened
    opened.close()


def test_closing_ends_the_mover_and_removes_the_tree(host: EmulatedHost) -> None:
    root, mover = host.root, host.mover
    assert (root / "proc/stat").exists()
    host.close()
    assert not root.exists()
    assert mover.returncode == 0
    assert len(host.notes) == 1


def test_a_mover_that_ended_early_is_told(host: EmulatedHost) -> None:
    host.mover.kill()
    host.mover.wait()
    host.close()
    assert "emulator ended before" in host.notes[-1]
    assert not host.root.exists()


def test_the_trainings_own_reads_leave_the_mover_out(host: EmulatedHost) -> None:
    found = host.probe()["children"]
    assert isinstance(found, Present)
    assert found.reads[0].arguments == (host.mover.pid,)


def test_a_training_that_is_not_there_is_refused(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    with refused("emulator-start", "jetson-tx2"):
        open_host("jetson-tx2", {}, ended.pid, tmp_path)


_KILLED = """\
import sys, time
from wattstep.record.recorder import Recorder
with Recorder(sys.argv[1], trace="none", target="emulate:jetson-tx2") as recorder:
    print(recorder._host.mover.pid, recorder._host.root, flush=True)
    time.sleep(60)
"""


def test_a_training_that_is_killed_leaves_no_mover_and_no_tree(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _KILLED, str(tmp_path / "run")], stdout=subprocess.PIPE, text=True
    ) as training:
        assert training.stdout is not None
        pid, _, root = training.stdout.readline().strip().partition(" ")
        assert is_running(int(pid))
        assert Path(root).exists()
        training.send_signal(signal.SIGKILL)
    end = time.monotonic() + WAIT_S
    while time.monotonic() < end and (is_running(int(pid)) or Path(root).exists()):
        time.sleep(0.05)
    assert not is_running(int(pid))
    assert not Path(root).exists()
