"""What a snapshot says of journals whose contents are known."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.watching.made import Journal, channel
from tests.wording import assert_says

from wattstep.live.monitor import LiveMonitor
from wattstep.live.running import Running
from wattstep.live.words import short_text
from wattstep.schema.journal import JOURNAL, MARKS, Mark, samples_name
from wattstep.schema.settings import parse_power_model
from wattstep.store.files import write_info

METER = channel("meter", "power_total", scale=1e-3)


def trained(run: Journal, steps: int, seconds: float = 0.5, watts: float = 12.0) -> None:
    """Steps of half a second, with a sample of the meter at the end of each."""
    for _ in range(steps):
        run.step(seconds)
        if any(one.name == "meter" for one in run.channels):
            run.sample("meter", round(watts * 1000))
        run.tick()


def test_steps_time_and_joules_left_are_those_of_steady_steps(tmp_path: Path) -> None:
    run = Journal(tmp_path / "run", METER, asked={"steps": 100})
    trained(run, 60)
    seen = LiveMonitor(run.path).look()
    assert (seen.state, seen.steps, seen.total, seen.share) == ("recording", 60, 100, 0.6)
    assert seen.figures["step_time"].value == pytest.approx(0.5)
    assert seen.figures["throughput"].value == pytest.approx(8.0)
    assert seen.figures["time_left"].value == pytest.approx(20.0)
    assert seen.figures["power"].value == pytest.approx(12.0)
    # From the first sample, at the end of the first step, to the last.
    assert seen.figures["energy"].value == pytest.approx(59 * 0.5 * 12)
    assert seen.figures["energy"].status.value == "measured"
    assert seen.figures["energy_left"].value == pytest.approx(20 * 12)
    assert "240 J (" in short_text(seen)
    assert "354 J used" in short_text(seen)
    assert "modelled" not in short_text(seen)


def test_many_looks_say_what_one_says(tmp_path: Path) -> None:
    run = Journal(tmp_path / "run", METER, asked={"steps": 100})
    often = LiveMonitor(run.path)
    for _ in range(30):
        trained(run, 2, watts=10.0)
        seen = often.look()
    once = LiveMonitor(run.path).look()
    for name in ("energy", "power", "last_step_time", "time_left", "energy_left"):
        assert seen.figures[name].value == pytest.approx(once.figures[name].value), name
    for name, values in once.history.items():
        filled = [-1.0 if value is None else value for value in values]
        other = [-1.0 if value is None else value for value in seen.history[name]]
        assert other == pytest.approx(filled), name
    assert (seen.steps, seen.share) == (once.steps, once.share)


def test_clean_steps_are_those_that_count(tmp_path: Path) -> None:
    run = Journal(tmp_path / "run", warmup=2, asked={"clean_steps": 20})
    trained(run, 8)
    run.step(3.0, traced=True)
    run.step(2.0)  # it settles
    trained(run, 4)
    seen = LiveMonitor(run.path).look()
    # 14 steps, of which two were warm-up, one was traced and one settled.
    assert (seen.steps, seen.total) == (14, 24)
    assert seen.figures["step_time"].value == pytest.approx(0.5)
    # What does not count belongs to the next that does: 10 steps in 10 s.
    assert seen.figures["time_left"].value == pytest.approx(10 * 1.0, rel=0.3)


def test_a_run_that_time_limits_has_that_time_left(tmp_path: Path) -> None:
    run = Journal(tmp_path / "run", METER, asked={"seconds": 40.0, "least_steps": 5})
    trained(run, 20)
    seen = LiveMonitor(run.path).look()
    assert seen.figures["time_left"].value == pytest.approx(30.0)
    assert seen.share == pytest.approx(0.25)
    assert seen.total is None


def test_nobody_knows_the_end_of_a_run_that_was_not_told_one(tmp_path: Path) -> None:
    run = Journal(tmp_path / "run")
    trained(run, 3)
    seen = LiveMonitor(run.path).look()
    assert seen.share is None
    assert "total_steps" in (seen.figures["time_left"].reason or "")


def test_an_end_that_another_wattstep_left_open_is_not_known(tmp_path: Path) -> None:
    run = Journal(tmp_path / "run", asked={"steps": None, "seconds": None, "least_steps": None})
    trained(run, 3)
    seen = LiveMonitor(run.path).look()
    assert (seen.share, seen.total) == (None, None)
    assert "total_steps" in (seen.figures["time_left"].reason or "")


def test_work_beside_the_training_is_no_time_of_steps(tmp_path: Path) -> None:
    run = Journal(tmp_path / "run", asked={"steps": 40})
    run.name("rest", 0, "evaluation")
    trained(run, 10)
    run.mark(Mark.REST_START, code=0)
    watcher = LiveMonitor(run.path)
    assert watcher.look().stage == "evaluation"
    run.now_ns += 60 * 10**9
    run.mark(Mark.REST_END)
    trained(run, 10)
    seen = watcher.look()
    assert seen.stage == "training"
    assert seen.figures["time_left"].value == pytest.approx(10.0)
    assert seen.figures["throughput"].value == pytest.approx(8.0)


def test_modelled_joules_say_so_and_are_the_training_s_own(tmp_path: Path) -> None:
    """Half of a busy core is the training's: a quarter of a core at 6 W a busy core."""
    busy = channel("cpu0.busy_time", "busy_time", "s", "counter", domain="cpu", core=0, scale=0.01)
    own = channel("process.cpu_time", "process_cpu_time", "s", "counter", scale=0.001)
    run = Journal(tmp_path / "run", busy, own, power_model=parse_power_model("linear:2,6"))
    for n in range(41):
        run.sample("cpu0.busy_time", 25 * n)
        run.sample("process.cpu_time", 125 * n)
        run.step(0.5)
    seen = LiveMonitor(run.path).look()
    assert seen.cores[0].value == pytest.approx(0.5)
    assert seen.figures["power"].value == pytest.approx(1.5)
    assert seen.figures["energy"].value == pytest.approx(1.5 * 20)
    assert seen.figures["energy"].status.value == "modelled"
    assert "modelled" in short_text(seen)


def test_a_run_that_lacks_its_least_steps_has_their_time_left_and_not_0(tmp_path: Path) -> None:
    """4 s were given and are over; 17 of 20 steps of 2 s are still to come."""
    run = Journal(tmp_path / "run", METER, asked={"seconds": 4, "least_steps": 20})
    trained(run, 3, 2.0)
    seen = LiveMonitor(run.path).look()
    left = seen.figures["time_left"]
    assert left.missing or left.value == pytest.approx(34.0, rel=0.3)
    trained(run, 9, 2.0)
    left = LiveMonitor(run.path).look().figures["time_left"]
    assert left.value == pytest.approx(8 * 2.0, rel=0.3)
    trained(run, 8, 2.0)
    left = LiveMonitor(run.path).look().figures["time_left"]
    assert left.missing  # and no "0 µs left" while it still traces
    assert "is done" in (left.reason or "")


def test_a_run_that_did_the_steps_asked_for_says_that_and_not_0_left(tmp_path: Path) -> None:
    run = Journal(tmp_path / "run", METER, asked={"steps": 10})
    trained(run, 10)
    seen = LiveMonitor(run.path).look()
    assert seen.figures["time_left"].missing
    assert "left" not in short_text(seen)


def test_memory_counts_what_children_share_once(tmp_path: Path) -> None:
    """400 MB, and two children of 300 MB resident, of which the last read found 60 to be their own."""
    names = ("resident_memory", *(f"children_{n}_memory" for n in ("resident", "added", "shared")))
    run = Journal(tmp_path / "run", *(channel(n, n, "B", scale=1e6) for n in names))
    for sizes in ((400, 500, 90, 410), (400, 600, 60, 540)):
        for name, size in zip(names, sizes, strict=True):
            run.sample(name, size)
        run.step(0.5)
    figures = LiveMonitor(run.path).look().figures
    assert figures["resident_memory"].value == pytest.approx(460e6)
    assert figures["peak_memory"].value == pytest.approx(490e6)


def test_the_battery_now_and_at_the_end(tmp_path: Path) -> None:
    power = channel("battery.b.power", "power_total", domain="battery")
    held = channel("battery.b.energy", "battery_energy", "J", limit=2000.0)
    run = Journal(tmp_path / "run", power, held, asked={"steps": 100})
    for n in range(60):
        run.step(1.0)
        run.sample("battery.b.power", 10)
        run.sample("battery.b.energy", 1000 - 10 * n)
    seen = LiveMonitor(run.path).look()
    assert seen.figures["battery"].value == pytest.approx(410 / 2000)
    assert seen.figures["battery_end"].value == pytest.approx(10 / 2000)
    assert "battery 20 %, " in short_text(seen)
    assert short_text(seen).endswith("at the end")


def test_a_missing_sensor_is_missing_with_its_reason_and_never_zero(tmp_path: Path) -> None:
    run = Journal(tmp_path / "run")
    trained(run, 3)
    figures = LiveMonitor(run.path).look().figures
    for name in ("power", "energy", "energy_left", "battery", "cpu_utilization", "resident_memory"):
        assert figures[name].value is None, name
        assert figures[name].reason, name


def test_a_sensor_that_fails_is_no_zero_either(tmp_path: Path) -> None:
    run = Journal(tmp_path / "run", METER, channel("z", "temperature", "°C", domain="thermal"))
    for _ in range(5):
        run.step(0.5)
        run.sample("meter", None)
        run.sample("z", None)
    seen = LiveMonitor(run.path).look()
    assert_says(seen.figures["power"].reason, "meter", "no value")
    assert seen.temperatures["z"].value is None


def test_heat_above_its_limit_is_throttling_with_its_evidence(tmp_path: Path) -> None:
    zone = channel("thermal.cpu", "temperature", "°C", domain="thermal", limit=80.0)
    cap = channel("cpu0.cap", "frequency_cap", "Hz", domain="cpu")
    run = Journal(tmp_path / "run", zone, cap)
    watcher = LiveMonitor(run.path)
    for temperature, hertz, expected in (
        (70, 2000, 0),
        (85, 2000, 1),
        (85, 1000, 2),
        (60, 2000, 0),
    ):
        for _ in range(20):
            run.step(0.5)
            run.sample("thermal.cpu", temperature)
            run.sample("cpu0.cap", hertz)
        found = watcher.look().throttling
        assert len(found) == expected, found


@pytest.mark.parametrize("cut", [1, 31])
def test_a_journal_that_is_cut_in_a_record_waits_for_the_rest_of_it(
    tmp_path: Path, cut: int
) -> None:
    run = Journal(tmp_path / "run", METER)
    trained(run, 10)
    for name in (MARKS, samples_name(0)):
        journal = run.path / JOURNAL / name
        whole = journal.read_bytes()
        journal.write_bytes(whole[: len(whole) - (cut if name == MARKS else 1)])
        watcher = LiveMonitor(run.path)
        assert watcher.look().steps in (9, 10)
        journal.write_bytes(whole)
        assert watcher.look().steps == 10


def test_reserved_blocks_of_marks_are_no_marks(tmp_path: Path) -> None:
    run = Journal(tmp_path / "run")
    trained(run, 3)
    journal = run.path / JOURNAL / MARKS
    before = journal.read_bytes()
    journal.write_bytes(before + bytes(3200))
    watcher = LiveMonitor(run.path)
    assert watcher.look().steps == 3
    journal.write_bytes(before)
    run.step(0.25)
    journal.write_bytes(journal.read_bytes() + bytes(3200))
    assert watcher.look().figures["last_step_time"].value == pytest.approx(0.25)


def test_a_garbled_journal_ends_no_view(tmp_path: Path) -> None:
    run = Journal(tmp_path / "run", METER, asked={"steps": 100})
    trained(run, 5)
    watcher = LiveMonitor(run.path)
    watcher.look()
    for each in [*(run.path / JOURNAL).glob("*.bin"), *(run.path / JOURNAL).glob("names*")]:
        with each.open("ab") as file:
            file.write(bytes(range(1, 241)) * 16)
    assert watcher.look().state == "recording"
    assert LiveMonitor(run.path).look().state == "recording"


def test_a_clock_that_goes_back_gives_no_samples_and_no_negative_joules(tmp_path: Path) -> None:
    run = Journal(tmp_path / "run", METER)
    trained(run, 10)
    energy = LiveMonitor(run.path).look().figures["energy"].value
    run.sample("meter", 12_000, run.now_ns - 10**9)
    run.sample("meter", 12_000, run.now_ns - 2 * 10**9)
    watcher = LiveMonitor(run.path)
    assert watcher.look().figures["energy"].value == pytest.approx(energy)
    trained(run, 1)
    assert watcher.look().figures["energy"].value == pytest.approx(energy + 6.0)


def test_a_sampler_that_says_nothing_is_said_and_heard_again(tmp_path: Path) -> None:
    run = Journal(tmp_path / "run", METER)
    now = [0.0]
    watcher = LiveMonitor(run.path, lambda: now[0])
    trained(run, 2)
    assert watcher.look().problems == ()
    now[0] = 10.0
    assert_says(watcher.look().problems[0], "the sampler", "10 s")
    trained(run, 1)
    assert watcher.look().problems == ()


def test_a_run_that_is_not_there_yet_is_waited_for_and_one_that_was_removed_is_gone(
    tmp_path: Path,
) -> None:
    watcher = LiveMonitor(tmp_path / "run")
    assert watcher.look().state == "waiting"
    run = Journal(tmp_path / "run")
    trained(run, 2)
    assert watcher.look().state == "recording"
    shutil.rmtree(run.path)
    seen = watcher.look()
    assert (seen.state, seen.steps, seen.over) == ("gone", 2, True)


def test_a_description_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.json").write_text("{")
    seen = LiveMonitor(tmp_path / "run").look()
    assert seen.state == "waiting"
    assert "cannot be read" in seen.problems[0]
    write_info(tmp_path / "run", Journal(tmp_path / "other").info)
    assert LiveMonitor(tmp_path / "run").look().state == "ended"


def test_a_counter_that_wraps_goes_on_between_two_looks() -> None:
    import numpy as np

    running = Running(channel("c", "energy_total", "J", "counter", wrap=100), 0.1)
    for n in range(0, 60, 3):
        t_ns = np.arange(n + 1, n + 4) * 10**8
        running.take(t_ns, np.array([7.0 * k % 100 for k in range(n, n + 3)]))
    assert running.total == pytest.approx(7.0 * 59)


@pytest.mark.parametrize("at", [20, 230])
@pytest.mark.parametrize("looks", [1, 300])
def test_one_sample_of_1_gw_is_no_power(tmp_path: Path, at: int, looks: int) -> None:
    """300 samples of 12 W, half a second apart; whether it came before the rule could tell, or after."""
    run = Journal(tmp_path / "run", METER, asked={"steps": 1000})
    watcher = LiveMonitor(run.path)
    for number in range(300):
        trained(run, 1, watts=1e9 if number == at else 12.0)
        if looks > 1:
            watcher.look()
    seen = watcher.look()
    # Where it fails nothing is known: from the sample before it to the one after it.
    assert seen.figures["energy"].value == pytest.approx(299 * 0.5 * 12, rel=0.01)
    assert seen.figures["power"].value == pytest.approx(12.0)
    assert max(watts or 0.0 for watts in seen.history["power"]) == pytest.approx(12.0)


def test_more_clean_steps_than_were_asked_for_are_no_more_than_all(tmp_path: Path) -> None:
    """A short run's clean steps between its traced ones are measured, too."""
    run = Journal(tmp_path / "run", warmup=2, asked={"clean_steps": 3})
    trained(run, 10)
    seen = LiveMonitor(run.path).look()
    assert (seen.steps, seen.total, seen.share) == (10, 10, 1.0)
