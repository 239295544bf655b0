"""Steps of a training found in a log of its power alone, with a real recording and with made ones of known steps."""

from __future__ import annotations

import gzip
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from tests.refusals import refused
from tests.wording import assert_says

from wattstep.cli.demo import RECORDING as ORIN
from wattstep.formats.plain_csv import SUM, parse
from wattstep.importing.importer import ImportSettings, import_run
from wattstep.recorded.period.even_beat import even_beat
from wattstep.recorded.period.weak_period import weak_period
from wattstep.run import Run, load
from wattstep.schema.figure import Figure

THREE = ("gpu+soc", "cpu+cv", "i/o_(5v0)")


def imported(folder: Path, *files: Path, **settings: object) -> Run:
    return load(
        import_run(ImportSettings(telemetry=files, **settings), folder / "run")  # type: ignore[arg-type]
    )


@pytest.fixture(scope="module")
def orin(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Two epochs of VGG9: 1,564 steps between 5 s of sleep at either end."""
    return imported(tmp_path_factory.mktemp("orin"), ORIN, units=("mW",))


@pytest.fixture(scope="module")
def columns() -> np.ndarray:
    """The file by numpy alone: time in s and four rails in W."""
    with gzip.open(ORIN, "rt") as file:
        table = np.genfromtxt(file, delimiter=",", skip_header=1, skip_footer=1, usecols=range(5))
    table[:, 1:] /= 1000
    return table


def test_the_truth_of_a_real_training_lies_in_what_its_power_tells(orin: Run) -> None:
    """782 steps an epoch; 333.5 s busy for 1,564 steps are 213 ms with all that lies between them.

    For most of the time a step takes 210 ms; in the last 19 s that period does not show.
    """
    metrics = orin.metrics()
    found = orin.info.imported["steps"]
    assert found["count_low"] <= 1564 <= found["count_high"]
    assert found["count"] == len(orin.series.steps.index) <= 1564
    assert found["count_high"] - found["count_low"] < 0.2 * 1564
    assert 0.9 < found["share"] < 0.96
    time = metrics["step_time"]
    assert time.low < 0.210 < 0.213 < time.high
    assert time.value == pytest.approx(0.213, rel=0.02)
    assert time.high - time.low < 0.2 * time.value
    assert time.status.value == "attributed"
    assert "not marked" in time.method
    assert any("no step is" in note and "1,564" not in note for note in orin.info.notes)
    # Its last stretch without the period is a rest, and in no step.
    rests = orin.series.steps.rest_ns["without_period"]
    first = orin.series.samples["gpu+soc"][0][0]
    assert (rests[-1, 0] - first) * 1e-9 == pytest.approx(320, abs=4)


def test_energy_of_its_steps_is_that_of_three_rails_and_never_the_fourth(
    orin: Run, columns: np.ndarray
) -> None:
    metrics = orin.metrics()
    assert metrics["mean_power"].value == pytest.approx(17.30, rel=0.005)
    energy = metrics["energy_per_step"]
    assert energy.value == pytest.approx(3.69, rel=0.02)
    assert energy.low < 3.69 < energy.high
    # By numpy: the trapezoids of three rails over the whole file.
    whole = np.trapezoid(columns[:, 1:4].sum(axis=1), columns[:, 0])
    assert metrics["recorded_energy"].value == pytest.approx(whole, rel=1e-3)
    roles = {name: channel.role for name, channel in orin.series.channels.items()}
    assert [name for name, role in roles.items() if role == "power_total"] == list(THREE)


def test_what_the_period_leaves_open_is_in_the_energy_of_every_rail_too(orin: Run) -> None:
    """A mean step of one rail is as long as that of all: their ends add up to those of the whole."""
    period = orin.info.imported["steps"]
    rails = orin.report().energy_by_rail
    for figure in rails.values():
        assert figure.low / figure.value <= period["low_s"] / period["period_s"]
        assert figure.high / figure.value >= period["high_s"] / period["period_s"]
        assert figure.status.value == "attributed"
        assert "not marked" in figure.method
    whole = orin.metrics()["energy_per_step"]
    for end in ("low", "high"):
        ends = [getattr(rails[name], end) for name in THREE]
        assert sum(ends) == pytest.approx(getattr(whole, end), rel=0.002)


def test_the_period_is_in_energy_above_idle_once(orin: Run) -> None:
    """By hand: two powers, known to their own intervals, differ over a time known to its own."""
    metrics = orin.metrics()
    power, idle, time = metrics["mean_power"], metrics["idle_power"]["before"], metrics["step_time"]

    def half(figure: Figure) -> float:
        return (figure.high - figure.low) / 2

    powers = np.hypot(half(power), half(idle)) * time.value
    expected = np.hypot(powers, half(time) * (power.value - idle.value))
    assert half(metrics["energy_per_step_above_idle"]["before"]) == pytest.approx(
        expected, rel=1e-6
    )


def test_idle_and_busy_stretches_are_figures_with_intervals(orin: Run, columns: np.ndarray) -> None:
    metrics = orin.metrics()
    busy = metrics[
        "busy_time"
    ]  # 1,564 steps of 213 ms, while a program that loads takes some power
    assert busy.low < 333.5 < busy.high
    assert busy.value == pytest.approx(333.5, abs=1.0)
    assert busy.high - busy.low < 6
    assert metrics["busy_energy"].low < 333.5 * 17.30 < metrics["busy_energy"].high
    assert metrics["busy_power"].value == pytest.approx(17.30, rel=0.005)
    idle = metrics["idle_power"]["before"]
    early = columns[columns[:, 0] < 5]
    assert idle.low < early[:, 1:4].sum(axis=1).mean() < idle.high
    assert metrics["energy_per_step_above_idle"]["before"].value == pytest.approx(2.16, rel=0.05)


def test_nothing_is_said_of_our_own_recording_where_another_tool_recorded(orin: Run) -> None:
    document = orin.document()
    said = str(document)
    assert "--trace none" not in said
    assert "--idle" not in said
    assert document["metrics"]["recording_overhead"]["status"] == "missing"


def test_a_last_row_that_is_a_sum_is_no_sample(orin: Run, columns: np.ndarray) -> None:
    assert any(SUM in note for note in orin.info.notes)
    t_ns = orin.series.samples["gpu+soc"][0]
    assert len(t_ns) == len(columns)


@pytest.mark.parametrize("how", ["sum", "integral"])
@pytest.mark.parametrize("begins", ["0", "10.0"])
def test_sums_and_integrals_are_known_whatever_their_time_says(how: str, begins: str) -> None:
    values = [4.0 + n % 3 for n in range(100)]
    whole = sum(values) * (1 if how == "sum" else 0.1)
    rows = [f"{n / 10},{v}" for n, v in enumerate(values)]
    recording = parse("\n".join(["t_s,power [W]", *rows, f"{begins},{whole}\n"]).encode())
    assert recording.value["power"].tolist() == values
    assert recording.ignored[SUM] == 1


def test_a_last_sample_that_is_high_is_no_sum() -> None:
    rows = [f"{n / 10},5" for n in range(100)]
    recording = parse("\n".join(["t_s,power [W]", *rows, "10.0,60\n"]).encode())
    assert recording.value["power"][-1] == 60


def test_a_log_without_units_says_how_to_state_them(tmp_path: Path) -> None:
    rows = "".join(f"{n / 10},{4000 + n % 3}\n" for n in range(200))
    (tmp_path / "log.csv").write_text("time,GPU+SOC\n" + rows)
    run = imported(tmp_path, tmp_path / "log.csv")
    notes = " ".join(run.info.notes)
    assert_says(notes, "no unit: gpu+soc", "--unit mW")
    assert_says(notes, "no steps were", "holds no power")


def test_units_are_stated_for_all_columns_or_for_one() -> None:
    text = b"t_s,board,gpu temp,load [%]\n0,4000,50,1\n1,5000,51,2\n"
    recording = parse(text, units=("mW", "gpu temp=C"))
    assert recording.value["board"].tolist() == [4.0, 5.0]
    assert {c.name: c.unit for c in recording.channels} == {
        "board": "W", "gpu_temp": "°C", "load": "ratio",
    }  # fmt: skip
    with refused("no-such-column", "t_s, board"):
        parse(text, units=("nobody=mW",))
    with refused("unknown-unit", "one of W"):
        parse(text, units=("horsepower",))


def test_four_rails_without_a_table_of_their_board_make_no_total(tmp_path: Path) -> None:
    path = tmp_path / "rails.csv"
    rows = [f"{n / 10},4000,1000,900" for n in range(100)]
    path.write_text("\n".join(["t_s,gpu,npu,other", *rows]) + "\n")
    run = imported(tmp_path, path, units=("mW",))
    assert "no total" in run.metrics()["mean_power"].reason


# --- made power ----------------------------------------------------------------------------------


def made(seed: int, weak: float) -> tuple[np.ndarray, np.ndarray]:
    """300 s of steps of 230 ms, read every 50 ms: `weak` W of their course under 0.5 W of noise."""
    rng = np.random.default_rng(seed)
    t_s = np.cumsum(0.05 + rng.uniform(-5e-4, 5e-4, 6000))
    course = weak * np.sin(2 * np.pi * t_s / 0.230)
    return (t_s * 1e9).astype(np.int64), 10 + course + rng.normal(0, 0.5, len(t_s))


def test_a_period_of_less_than_half_the_noise_is_found_and_its_interval_holds_it() -> None:
    held = 0
    for seed in range(20):
        t_ns, watts = made(seed, weak=0.2)
        figure = weak_period(t_ns, [watts], "made")
        assert figure.value == pytest.approx(0.230, rel=0.01)
        held += figure.low <= 0.230 <= figure.high
    assert held >= 17  # of 20 intervals of 95 %


def test_noise_has_no_period() -> None:
    for seed in range(20):
        t_ns, watts = made(seed, weak=0.0)
        assert weak_period(t_ns, [watts], "made").missing


@pytest.mark.parametrize("samples", [120, 200, 390])
def test_noise_of_few_samples(samples: int) -> None:
    """Spectra of fewer lines than their noise is a median of: no warning, and no line."""
    t_ns = np.arange(samples) * 10_000_000
    for seed in range(20):
        watts = np.random.default_rng(seed).normal(5.0, 1.0, samples)
        assert weak_period(t_ns, [watts], "made").missing


def written(folder: Path, step_s: float, every_s: float) -> Path:
    """30 s idle at 4 W, 120 s of steps of 12 and 8 W, 30 s idle."""
    rng = np.random.default_rng(1)
    t_s = np.arange(0, 180, every_s) + rng.uniform(-0.1, 0.1, int(180 / every_s)) * every_s
    busy = (t_s > 30) & (t_s < 150)
    course = np.where((t_s / step_s) % 1 < 0.6, 12.0, 8.0)
    watts = np.where(busy, course, 4.0) + rng.normal(0, 0.05, len(t_s))
    path = folder / "board.csv"
    rows = [f"{t:.4f},{w:.4f}" for t, w in zip(t_s + 1, watts, strict=True)]
    path.write_text("\n".join(["t_s,power [W]", *rows]) + "\n")
    return path


def test_made_steps_come_back_with_their_energy(tmp_path: Path) -> None:
    metrics = imported(tmp_path, written(tmp_path, 0.5, 0.02)).metrics()
    assert metrics["step_time"].value == pytest.approx(0.5, rel=0.01)
    # 0.3 s at 12 W and 0.2 s at 8 W.
    assert metrics["energy_per_step"].value == pytest.approx(5.2, rel=0.01)
    for when in ("before", "after"):
        assert metrics["idle_power"][when].value == pytest.approx(4.0, rel=0.01)


def test_where_samples_are_too_slow_the_whole_and_the_busy_stretch_are_told_and_why(
    tmp_path: Path,
) -> None:
    run = imported(tmp_path, written(tmp_path, 0.1, 0.5))
    metrics = run.metrics()
    assert metrics["step_time"].missing
    assert "no steps were" in metrics["step_time"].reason
    assert metrics["busy_time"].value == pytest.approx(120, abs=1.5)
    assert metrics["busy_power"].value == pytest.approx(10.4, rel=0.03)
    assert metrics["idle_power"]["before"].value == pytest.approx(4.0, rel=0.01)
    assert metrics["recorded_energy"].value == pytest.approx(60 * 4 + 120 * 10.4, rel=0.03)


def test_steps_are_not_looked_for_where_that_is_not_wanted(tmp_path: Path) -> None:
    run = imported(tmp_path, written(tmp_path, 0.5, 0.02), find_steps=False)
    assert not len(run.series.steps.index)
    assert "steps" not in run.info.imported


# --- stretches in which steps take another time, or none are made ---------------------------------


@dataclass
class Course:
    """A course of power in W, and the steps that are in it."""

    lengths: list[float] = field(default_factory=list)
    watts: list[float] = field(default_factory=list)
    steps: list[float] = field(default_factory=list)
    joules: float = 0.0

    def hold(self, seconds: float, watts: float) -> None:
        self.lengths.append(seconds)
        self.watts.append(watts)

    def step(self, seconds: float) -> None:
        """Half of it at 12 W, half at 8 W."""
        self.hold(seconds / 2, 12.0)
        self.hold(seconds / 2, 8.0)
        self.steps.append(seconds)
        self.joules += 10.0 * seconds

    def write(self, folder: Path, seed: int, every_s: float = 0.05) -> Path:
        """As a sensor that averages over the time between two reads tells it, 8 s idle at either end."""
        rng = np.random.default_rng(seed)
        lengths, watts = [8.0, *self.lengths, 8.0], [4.0, *self.watts, 4.0]
        ends = np.concatenate([[0.0], np.cumsum(lengths)])
        gained = np.concatenate([[0.0], np.cumsum(np.multiply(lengths, watts))])
        t_s = np.arange(1, int(ends[-1] / every_s)) * every_s
        t_s += rng.uniform(-0.02, 0.02, len(t_s)) * every_s
        value = np.diff(np.interp(t_s, ends, gained)) / np.diff(t_s)
        value += rng.normal(0, 0.3, len(value))
        path = folder / "course.csv"
        rows = [f"{t:.4f},{w:.4f}" for t, w in zip(t_s[1:], value, strict=True)]
        path.write_text("\n".join(["t_s,power [W]", *rows]) + "\n")
        return path


STEP_S = 0.43


def course(kind: str, seed: int) -> Course:
    """450 steps of 430 ms to 1 %, and what is of its kind between or among them."""
    rng = np.random.default_rng(seed)
    found = Course()
    for n in range(450):
        longer = {
            "slower at the end": 1.3 if n > 380 else 1.0,
            "faster for a while": 0.75 if 150 < n < 240 else 1.0,
            "now and then three times": 3.0 if rng.random() < 0.03 else 1.0,
        }
        found.step(STEP_S * longer.get(kind, 1.0) * np.exp(0.01 * rng.standard_normal()))
        if n % 100 == 99:
            if kind == "pauses":
                found.hold(rng.uniform(1, 5), 4.0)
            if kind == "pauses at full power":
                found.hold(rng.uniform(5, 9), 10.0)
            for _ in range(30 if kind == "validations" else 0):
                found.hold(0.13, 11.5)
                found.hold(0.13, 8.0)
        if kind == "short pauses" and n % 50 == 49:
            found.hold(rng.uniform(0.6, 1.4) * STEP_S, 4.0)
    return found


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize(
    "kind",
    [
        "nothing", "pauses", "pauses at full power", "validations", "slower at the end",
        "faster for a while", "now and then three times", "short pauses",
    ],
)  # fmt: skip
def test_intervals_hold_the_mean_step_their_number_and_energy_whatever_is_between_them(
    tmp_path: Path, kind: str, seed: int
) -> None:
    made = course(kind, seed)
    run = imported(tmp_path, made.write(tmp_path, seed))
    metrics, found = run.metrics(), run.info.imported["steps"]
    time, energy = metrics["step_time"], metrics["energy_per_step"]
    assert time.low <= np.mean(made.steps) <= time.high
    assert energy.low <= made.joules / len(made.steps) <= energy.high
    assert found["count_low"] <= len(made.steps) <= found["count_high"]
    if kind == "nothing":
        assert time.high - time.low < 0.05 * time.value
        assert found["share"] > 0.98
    if kind.startswith("pauses"):
        # The mean of what is left in is that of the steps alone.
        assert time.value == pytest.approx(np.mean(made.steps), rel=0.01)


def test_a_period_that_shows_in_less_than_half_of_the_stretch_is_not_told_as_steps(
    tmp_path: Path,
) -> None:
    made = Course()
    for _ in range(150):
        made.step(STEP_S)
    rng = np.random.default_rng(0)
    for _ in range(400):
        made.step(rng.uniform(0.2, 0.9))
    run = imported(tmp_path, made.write(tmp_path, 0))
    assert not run.info.imported["steps"]["found"]
    assert run.metrics()["step_time"].missing


def test_throughput_is_less_where_steps_may_take_longer(tmp_path: Path) -> None:
    made = course("slower at the end", 1)
    metrics = imported(tmp_path, made.write(tmp_path, 1), batch_size=8).metrics()
    time, throughput = metrics["step_time"], metrics["throughput"]
    assert throughput.low <= 8 / np.mean(made.steps) <= throughput.high
    assert throughput.low == pytest.approx(8 / time.high, rel=0.02)
    assert throughput.high == pytest.approx(8 / time.low, rel=0.02)


# --- loads that repeat to the clock ---------------------------------------------------------------


def square(
    folder: Path, period_s: float, *, duty: float = 0.5, noise: float = 0.0, every: int = 1
) -> Run:
    """A minute of a square wave of 3 and 9 W at 20 Hz, 5 s of 1 W before and after."""
    rng = np.random.default_rng(0)
    t = np.arange(0, 70, 0.05)
    count = np.floor((t - 5) / period_s)
    high = ((t - 5) / period_s % 1 < duty) & (count % every == 0)
    watts = np.where((t >= 5) & (t < 65), np.where(high, 9.0, 3.0), 1.0)
    watts += noise * rng.standard_normal(len(t))
    rows = [f"{a:.4f},{b:.4f}" for a, b in zip(t, watts, strict=True)]
    path = folder / "wave.csv"
    path.write_text("\n".join(["time_s,power_W", *rows]) + "\n")
    return imported(folder, path)


@pytest.mark.parametrize("noise", [0.0, 0.1])
@pytest.mark.parametrize(
    ("period_s", "duty"), [(0.4, 0.5), (0.4137, 0.5), (0.4137, 0.3), (0.2718, 0.5)]
)
def test_a_square_wave_of_few_samples_a_period_has_its_steps_and_its_energy(
    tmp_path: Path, period_s: float, duty: float, noise: float
) -> None:
    """By hand: 9 W for the duty, 3 W for the rest of a minute."""
    metrics = square(tmp_path, period_s, duty=duty, noise=noise).metrics()
    time = metrics["step_time"]
    assert time.value == pytest.approx(period_s, rel=2e-3)
    assert time.low <= period_s <= time.high
    watts = 9 * duty + 3 * (1 - duty)
    assert metrics["mean_power"].value == pytest.approx(watts, rel=0.01)
    assert metrics["busy_energy"].value == pytest.approx(60 * watts, rel=0.01)


@pytest.mark.parametrize("every", [2, 3])
def test_periods_that_take_turns_are_no_steps_by_themselves(tmp_path: Path, every: int) -> None:
    time = square(tmp_path, 0.4137, noise=0.1, every=every).metrics()["step_time"]
    assert time.missing or time.value == pytest.approx(every * 0.4137, rel=0.01)


@pytest.mark.parametrize("swing_s", [7.0, 0.0])
def test_noise_and_a_slow_swing_have_no_steps_of_a_few_samples(
    tmp_path: Path, swing_s: float
) -> None:
    t_ns = np.arange(0, 60 * 10**9, 50 * 10**6)
    noise = np.random.default_rng(1).standard_normal(len(t_ns))
    watts = 6 + (2 * np.sin(2 * np.pi * t_ns * 1e-9 / swing_s) + 0.3 * noise if swing_s else noise)
    assert even_beat(t_ns, watts, "made").missing


@pytest.mark.parametrize("seed", range(4))
def test_a_part_of_a_step_that_stands_out_of_the_spectrum_is_not_taken_for_the_step(
    seed: int,
) -> None:
    """Steps of 180 ms are three parts that are nearly alike; pauses break the line of the step."""
    random = np.random.default_rng(seed)
    watts, lengths = [], []
    for _ in range(150):
        for part in (6.0, 8.0, 12.0):
            watts += [part, 17.0 + part / 4]
            lengths += [0.04 * random.normal(1, 0.02), 0.02 * random.normal(1, 0.02)]
        if random.random() < 0.2:
            watts.append(3.0)
            lengths.append(random.uniform(0, 0.5))
    edges = np.concatenate([[0.0], np.cumsum(lengths)])
    energy = np.concatenate([[0.0], np.cumsum(np.array(watts) * lengths)])
    t_s = np.arange(0, edges[-1], 0.01)
    power = np.diff(np.interp(t_s, edges, energy)) / 0.01
    figure = weak_period((t_s[1:] * 1e9).astype(np.int64), [power], "made")
    assert figure.missing or figure.value == pytest.approx(0.18, rel=0.05)
