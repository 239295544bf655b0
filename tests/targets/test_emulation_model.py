"""The emulated board by itself: its options, power, heat, throttling and files, by hand and without processes."""

from __future__ import annotations

import math
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.refusals import refused

from wattstep import boards
from wattstep.boards.table import Board
from wattstep.record.hosts.emulation import tree
from wattstep.record.hosts.emulation.heat import Governor, Heat
from wattstep.record.hosts.emulation.mover import Average, Mover
from wattstep.record.hosts.emulation.power import (
    Load,
    clocks_for,
    core_count,
    module_watts,
    part_watts,
    rail_watts,
    reading,
    spread,
    stretch,
)
from wattstep.record.hosts.emulation.settings import (
    LAYOUTS,
    OPTIONS,
    QUIRKS,
    Settings,
    make_settings,
    read_numbers,
)
from wattstep.record.hosts.emulation.truth import read_truth
from wattstep.record.sampling import child
from wattstep.record.sensors import probe_all
from wattstep.schema.channel import Present

TICK_NS = 10_000_000
RAILS = ("VDD_SYS_GPU", "VDD_SYS_SOC", "VDD_4V0_WIFI", "VDD_IN", "VDD_SYS_CPU", "VDD_SYS_DDR")


def tx2(**options: str) -> Settings:
    return make_settings("jetson-tx2", {"truth": "10ms", **options})


def watts(settings: Settings, load: Load, cap: float = 1.0) -> dict[str, float]:
    parts = part_watts(settings, load, clocks_for(settings.board, load, cap))
    labels = [rail.label for rail in settings.rails]
    return dict(zip(labels, rail_watts(settings, parts), strict=True))


# --- options ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "id", "named"),
    [
        ({"colour": "red"}, "unknown-target-option", "'colour'"),
        ({"layout": "acpi"}, "unknown-choice", "iio, ina3221x, hwmon"),
        ({"ambient": "warm"}, "malformed-option", "ambient=warm"),
        ({"ambient": "nan"}, "out-of-range", "ambient=nan"),
        ({"scale": "-1"}, "out-of-range", "scale=-1"),
        ({"averaging": "1ms"}, "out-of-range", "10ms"),
        ({"averaging": "long"}, "malformed-duration", "'long'"),
        ({"throttle": "900"}, "out-of-range", "throttle=900"),
        ({"quirk": "eio"}, "malformed-quirk", "KIND:NAME"),
        ({"quirk": "explode:VDD_IN"}, "malformed-quirk", "explode"),
        ({"quirk": "eio:VDD_NONE"}, "unknown-quirk-target", "eio:VDD_NONE"),
        ({"quirk": "cold:VDD_IN"}, "unknown-quirk-target", "cold:VDD_IN"),
        ({"slow": "2"}, "out-of-range", "slow=2"),
    ],
)
def test_an_option_that_cannot_be_used_is_refused_with_the_reason(
    options: dict[str, str], id: str, named: str
) -> None:
    with refused(id, named):
        make_settings("jetson-tx2", options)


@pytest.mark.parametrize(
    ("table", "id", "named"),
    [
        ({"idle_watt": 1}, "unknown-field", "'idle_watt'"),
        ({"idle_w": 3.0}, "needs-a-table", "idle_w"),
        ({"idle_w": {"head": 1.0}}, "unknown-part", "'head'"),
        ({"idle_w": {"cpu": "much"}}, "malformed-option", "idle_w.cpu=much"),
        ({"efficiency": 1.5}, "out-of-range", "0.01 to 1"),
        ({"time_s": 0.0}, "out-of-range", "0.01"),
        ({"layout": "x"}, "unknown-choice", "iio"),
    ],
)
def test_a_boards_numbers_that_cannot_be_are_refused(
    table: dict[str, object], id: str, named: str
) -> None:
    board = Board(name="mine", title="Mine", source="-", no_total="-", emulation=table)
    with refused(id, named):
        read_numbers(board)


def test_a_board_without_numbers_has_those_that_are_assumed() -> None:
    numbers = read_numbers(Board(name="mine", title="Mine", source="-", no_total="-"))
    assert numbers.source == "assumed"


def test_every_option_and_quirk_is_documented() -> None:
    text = (Path(__file__).parents[2] / "docs/targets.md").read_text()
    for option in OPTIONS:
        assert f"`{option}=" in text, option
    for name in (*QUIRKS, *LAYOUTS):
        assert f"`{name}`" in text or f"{name}:" in text, name


# --- every board --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", boards.names())
@pytest.mark.parametrize("layout", ["own", *LAYOUTS])
def test_every_board_builds_a_tree_that_is_that_board_to_the_real_sensors(
    tmp_path: Path, name: str, layout: str
) -> None:
    settings = make_settings(name, {} if layout == "own" else {"layout": layout})
    tree.build(tmp_path, settings)
    board = boards.identify(tmp_path)
    assert board is not None
    assert board.name == name
    found = probe_all(tmp_path, os.getpid(), process_root=Path("/"))
    channels = {
        key: [channel.name for read in result.reads for channel in read.channels]
        for key, result in found.items()
        if isinstance(result, Present)
    }
    assert len(channels.get("ina3221", [])) == len(settings.rails)
    clocks = sum(len(cluster.cores) for cluster in board.clusters)
    assert len(channels.get("frequency", [])) == clocks
    assert len(channels.get("thermal", [])) == sum(z.use != "ignore" for z in board.zones)
    assert ("tegra_gpu" in channels) == bool(board.gpu)
    assert len(channels["cpu"]) == 3 * core_count(board)
    assert "process_memory" in channels


def test_a_board_whose_power_no_file_tells_is_emulated_without_rails() -> None:
    for name in ("jetson-nano-2gb", "raspberry-pi-4"):
        assert make_settings(name, {}).rails == ()


def test_an_rail_of_the_carrier_whose_watts_are_unknown_is_left_out_and_not_zero() -> None:
    assert tuple(rail.label for rail in tx2().rails) == RAILS


# --- power --------------------------------------------------------------------------------------


def test_a_tx2_at_rest_takes_what_its_table_says() -> None:
    # By hand: 0.23 + 0.15 + 0.29 + 0.385 + 0.04 = 1.095 W; over 0.87, and 0.58 W beside.
    found = watts(tx2(), Load(cores=(0.0,) * 6))
    assert found["VDD_SYS_CPU"] == pytest.approx(0.23)
    assert found["VDD_SYS_DDR"] == pytest.approx(0.29)
    assert found["VDD_IN"] == pytest.approx(1.095 / 0.87 + 0.58)


def test_one_busy_core_of_six_adds_a_sixth_of_what_all_would() -> None:
    # One core at its highest clock: CPU 0.23 + (4.2 - 0.23) / 6; memory and SoC at half of that.
    found = watts(tx2(), spread(tx2(), 1.0))
    assert found["VDD_SYS_CPU"] == pytest.approx(0.23 + 3.97 / 6)
    assert found["VDD_SYS_DDR"] == pytest.approx(0.29 + 2.41 / 12)
    assert found["VDD_SYS_SOC"] == pytest.approx(0.385 + 0.985 / 12)
    assert found["VDD_SYS_GPU"] == pytest.approx(0.15)


def test_a_capped_clock_takes_less_by_its_power_of_two_and_a_half() -> None:
    load = Load(cores=(1.0,) * 6)
    full, half = (watts(tx2(), load, cap)["VDD_SYS_CPU"] for cap in (1.0, 0.5))
    ratio = 1017600 / 2035200  # in whole kHz
    assert (half - 0.23) / (full - 0.23) == pytest.approx(ratio**2.5, rel=1e-3)


def test_the_training_moves_the_gpu_where_that_is_asked_for() -> None:
    settings = tx2(processor="gpu")
    load = spread(settings, 5.0)
    assert load.gpu == 1.0
    assert sum(load.cores) == 1.0
    assert watts(settings, load)["VDD_SYS_GPU"] == pytest.approx(6.85)


def test_combined_rails_carry_the_sum_of_their_parts() -> None:
    settings = make_settings("jetson-orin-nano", {})
    parts = part_watts(
        settings, Load(cores=(0.0,) * 6), clocks_for(settings.board, Load(cores=(0.0,) * 6), 1.0)
    )
    found = watts(settings, Load(cores=(0.0,) * 6))
    assert found["VDD_CPU_GPU_CV"] == pytest.approx(parts["cpu"] + parts["gpu"] + parts["cv"])
    assert found["VDD_IN"] == pytest.approx(module_watts(settings, parts))


def test_the_scale_multiplies_every_rail() -> None:
    load = Load(cores=(0.5,) * 6)
    once, twice = watts(tx2(), load), watts(tx2(scale="2"), load)
    assert twice == pytest.approx({label: 2 * value for label, value in once.items()})


@given(busy=st.floats(0, 64))
def test_no_busy_core_is_lost_and_none_is_more_than_busy(busy: float) -> None:
    load = spread(tx2(), busy)
    assert sum(load.cores) == pytest.approx(min(busy, 6.0))
    assert all(0.0 <= share <= 1.0 for share in load.cores)


def test_cores_fill_cluster_by_cluster_and_clocks_follow() -> None:
    load = spread(tx2(), 1.5)  # the A57 are 0, 3, 4 and 5, the Denver2 1 and 2
    assert load.cores == (1.0, 0.0, 0.0, 0.5, 0.0, 0.0)
    assert clocks_for(tx2().board, load, 1.0).clusters == (2035200e3, 345600e3)


@given(power=st.floats(0, 60))
def test_a_reading_is_within_half_a_quantum_of_the_truth(power: float) -> None:
    # The table's quantum of VDD_IN: 38.5 mW; the chip's least step is 2 mA at 19.15 V: 38.3 mW.
    rail = tx2().board.rail("VDD_IN")
    assert rail is not None
    said = reading(tx2(), rail, power)
    assert said.milliamperes % 2 == 0
    assert abs(said.milliwatts * 1e-3 - power) <= 0.0385 / 2 + 1e-3


# --- heat ---------------------------------------------------------------------------------------


def test_temperatures_are_those_of_two_stages_solved_in_small_steps() -> None:
    settings = make_settings("jetson-tx2", {"ambient": "20", "heat": "10"})
    idle, full = ({"cpu": w, "soc": 1.0} for w in (0.5, 6.0))
    heat = Heat(settings, idle)
    zone = [z.type for z in settings.board.zones].index("BCPU-therm")
    assert heat.zones_c()[zone] == pytest.approx(20 + 3.0 * (1.5 / 0.87 + 0.58) + 0.5)
    sink, die = 3.0 * (1.5 / 0.87 + 0.58), 0.5
    for _ in range(2000):
        heat.advance(full, 0.01)
    for _ in range(200_000):  # Euler, 100 times finer
        sink += 1e-4 * (3.0 * (7.0 / 0.87 + 0.58) - sink) / 18.0
        die += 1e-4 * (6.0 - die) / 0.4
    assert heat.zones_c()[zone] == pytest.approx(20 + sink + die, abs=0.01)


def test_the_governor_lowers_the_clock_above_the_trip_and_raises_it_again_below() -> None:
    settings = tx2(throttle="60")
    governor = Governor(settings)
    zones = len(settings.board.zones)
    hot, warm, cool = ((celsius,) * zones for celsius in (60.0, 59.0, 57.9))
    governor.advance(warm, 1.0)
    assert (governor.level, governor.cap) == (0, 1.0)
    for _ in range(3):
        governor.advance(hot, 0.1)
    assert governor.level == 3
    assert governor.cap == pytest.approx(0.7)
    governor.advance(warm, 1.0)
    assert governor.level == 3
    for _ in range(20):
        governor.advance(hot, 1.0)
    assert governor.cap == pytest.approx(0.4)
    for _ in range(20):
        governor.advance(cool, 1.0)
    assert (governor.level, governor.events) == (0, 1)


def test_a_board_that_must_not_throttle_does_not() -> None:
    governor = Governor(tx2(throttle="off"))
    governor.advance((200.0,) * 8, 1.0)
    assert governor.level == 0


# --- files --------------------------------------------------------------------------------------


def moved(tmp_path: Path, settings: Settings) -> tuple[Path, Path, Mover]:
    root, run = tmp_path / "root", tmp_path / "run"
    run.mkdir()
    tree.build(root, settings)
    return root, run, Mover(settings, root, run)


def number(root: Path, name: str) -> int:
    return int((root / name).read_text())


def rail_file(settings: Settings, label: str, what: str = "mW") -> str:
    rail = settings.board.rail(label)
    assert rail is not None
    return tree.rail_files(settings, rail)[what]


def test_files_are_written_in_place_and_keep_their_length(tmp_path: Path) -> None:
    settings = tx2()
    root, _, mover = moved(tmp_path, settings)
    name = rail_file(settings, "VDD_IN")
    with (root / name).open("rb", 0) as file:
        said = []
        for place in range(1, 30):
            mover.advance(place * TICK_NS, 0.01, place / 10, place << 28)
            said.append(os.pread(file.fileno(), 64, 0))
    assert len({len(line) for line in said}) == 1
    assert len(set(said)) > 10
    assert int(said[-1]) == number(root, name)


def test_the_kernels_files_keep_their_length_for_a_century() -> None:
    century = 100 * 365 * 86400.0
    short, long = tree.stat_text((0.0,), (0.0,)), tree.stat_text((century,), (century,))
    assert len(short) == len(long)
    board = tx2().board
    assert len(tree.meminfo_text(board, 0)) == len(tree.meminfo_text(board, 1 << 40))


def test_averaging_shows_the_mean_of_the_window_that_is_over(tmp_path: Path) -> None:
    settings = tx2(averaging="420ms", layout="ina3221x")
    root, _, mover = moved(tmp_path, settings)
    name = rail_file(settings, "VDD_IN")
    idle = watts(settings, Load(cores=(0.0,) * 6))["VDD_IN"]
    busy = watts(settings, Load(cores=(1.0,) * 6))["VDD_IN"]
    said = []
    for place in range(1, 127):  # three windows; all is busy from the middle of the second on
        mover.advance(place * TICK_NS, 0.01, 6.0 if place > 63 else 0.0, 0)
        said.append(number(root, name) * 1e-3)
    changes = [place + 1 for place in range(1, 126) if said[place] != said[place - 1]]
    assert changes == [84, 126]
    half = 0.0385 / 2 + 1e-3
    assert said[0] == pytest.approx(idle, abs=half)
    assert said[100] == pytest.approx((idle + busy) / 2, abs=half)
    assert said[125] == pytest.approx(busy, abs=half)


@given(
    powers=st.lists(st.floats(0, 30), min_size=1, max_size=60), window=st.sampled_from([1, 3, 42])
)
def test_what_the_chip_says_holds_the_energy_of_its_windows_within_its_quantum(
    powers: list[float], window: int
) -> None:
    rail = tx2().board.rail("VDD_IN")
    assert rail is not None
    chip = Average(1, window * 0.01)
    said = [mean for power in powers if (mean := chip.add([power], 0.01)) is not None]
    over = len(powers) // window * window  # ticks in windows that are over
    assert len(said) == over // window
    watts_said = sum(reading(tx2(), rail, mean).milliwatts * 1e-3 for (mean,) in said)
    difference = abs(watts_said * window - sum(powers[:over])) * 0.01
    assert difference <= over * 0.01 * (0.0385 / 2 + 1e-3)


def test_a_rail_that_fails_now_and_then_leaves_the_others_alone(tmp_path: Path) -> None:
    settings = tx2(quirk="again:VDD_SYS_SOC")
    root, _, mover = moved(tmp_path, settings)
    name, other = rail_file(settings, "VDD_SYS_SOC"), rail_file(settings, "VDD_SYS_DDR")
    empty = []
    for place in range(1, 81):
        mover.advance(place * TICK_NS, 0.01, 1.0, 0)
        empty.append((root / name).read_text() == "")
        assert number(root, other) > 0
    assert empty[:19] == [False] * 19
    assert empty[19:39] == [True] * 20
    assert empty[39:59] == [False] * 20


def test_a_zone_without_power_says_the_kernels_sign_for_it(tmp_path: Path) -> None:
    settings = tx2(quirk="cold:GPU-therm")
    root, _, mover = moved(tmp_path, settings)
    place = [z.type for z in settings.board.zones].index("GPU-therm")
    assert number(root, tree.zone_file(place)) > 0
    for tick in range(1, 11):
        mover.advance(tick * TICK_NS, 0.01, 0.0, 0)
    assert number(root, tree.zone_file(place)) == -256_000


def test_what_moves_reads_as_an_error_after_the_mover_failed(tmp_path: Path) -> None:
    settings = tx2()
    root, _, mover = moved(tmp_path, settings)
    mover.advance(TICK_NS, 0.01, 1.0, 0)
    mover.fail()
    for name in (rail_file(settings, "VDD_IN"), tree.STAT, tree.zone_file(0)):
        assert (root / name).read_text() == ""


def test_a_hot_board_throttles_in_all_the_places_where_a_kernel_says_so(tmp_path: Path) -> None:
    settings = tx2(throttle="36", heat="1000")
    root, run, mover = moved(tmp_path, settings)
    policy = tree.policy_folder(settings.board.clusters[0])
    for tick in range(1, 200):
        mover.advance(tick * TICK_NS, 0.01, 6.0, 0)
    mover.end()
    state = number(root, f"{tree.COOLING}/cur_state")
    assert 0 < state <= number(root, f"{tree.COOLING}/max_state")
    cap = number(root, f"{policy}/scaling_max_freq")
    assert cap == round(2035200 * (1 - state / 10))
    assert number(root, f"{policy}/scaling_cur_freq") == cap
    columns, rows = read_truth(run)
    names = [column.name for column in columns]
    first = next(row for row in rows if row[names.index("throttle.level")])
    assert first[names.index("BCPU-therm")] >= 36_000


def test_a_raspberry_pi_throttles_in_its_firmwares_bits(tmp_path: Path) -> None:
    settings = make_settings("raspberry-pi-4", {"throttle": "30", "heat": "1000"})
    root, _, mover = moved(tmp_path, settings)
    for tick in range(1, 100):
        mover.advance(tick * TICK_NS, 0.01, 4.0, 0)
    assert int((root / tree.FIRMWARE).read_text(), 16) == 0x40004


def test_busy_time_of_cores_adds_up_to_what_the_training_used(tmp_path: Path) -> None:
    root, _, mover = moved(tmp_path, tx2())
    for tick in range(1, 1001):
        mover.advance(tick * TICK_NS, 0.01, 2.5, 3 << 30)
    total, *cores = (line.split() for line in (root / tree.STAT).read_text().splitlines())
    per_second = os.sysconf("SC_CLK_TCK")
    assert int(total[1]) == pytest.approx(25 * per_second, abs=6)
    assert [int(row[1]) for row in cores] == pytest.approx(
        [10 * per_second, 0, 0, 10 * per_second, 5 * per_second, 0], abs=1
    )
    memory = dict(line.split(":") for line in (root / tree.MEMINFO).read_text().splitlines())
    used = int(memory["MemTotal"].split()[0]) - int(memory["MemAvailable"].split()[0])
    assert used == 3 << 20


def test_the_first_temperature_is_that_of_a_board_at_rest(tmp_path: Path) -> None:
    root, _, _ = moved(tmp_path, tx2(ambient="10"))
    rise = 3.0 * (1.095 / 0.87 + 0.58) + 0.23
    said = number(root, tree.zone_file(0)) * 1e-3
    assert math.isclose(said, 10 + rise, abs_tol=1e-3)


def test_an_unreadable_rail_or_zone_fails_alone(tmp_path: Path) -> None:
    settings = tx2(quirk="eio:VDD_SYS_SOC+eio:GPU-therm")
    tree.build(tmp_path, settings)
    broken = {"rail.vdd_sys_soc", "thermal.gpu_therm"}
    read_well = set()
    for name in ("ina3221", "thermal"):
        found = probe_all(tmp_path, os.getpid())[name]
        assert isinstance(found, Present)
        for read in found.reads:
            entry = {"path": read.path, "parser": read.parser, "arguments": read.arguments}
            names = {channel.name for channel in read.channels}
            if names & broken:
                with pytest.raises(OSError, match="directory"):
                    child.open_read(entry, [])()
            else:
                child.open_read(entry, [])()
                read_well |= names
    assert len(read_well & {f"rail.{label.lower()}" for label in RAILS}) == 5
    assert len(read_well) == 5 + sum(z.use != "ignore" for z in settings.board.zones) - 1


# --- caps that somebody writes ------------------------------------------------------------------

A57, DENVER = (f"sys/devices/system/cpu/cpufreq/policy{n}" for n in (0, 1))
BUSY = 2.0  # cores: two of the four A57


def test_a_cap_that_somebody_writes_lowers_the_clock_and_the_power(tmp_path: Path) -> None:
    settings = tx2()
    root, _, mover = moved(tmp_path, settings)
    rail = rail_file(settings, "VDD_SYS_CPU")
    assert mover.advance(TICK_NS, 0.01, BUSY, 0) == 1.0
    free = number(root, rail)
    (root / A57 / "scaling_max_freq").write_text("1017600\n")  # half of 2,035,200 kHz
    assert mover.advance(2 * TICK_NS, 0.01, BUSY, 0) == pytest.approx(2.0)
    assert number(root, f"{A57}/scaling_cur_freq") == 1017600
    assert number(root, f"{A57}/scaling_max_freq") == 1017600
    # At rest 0.23 W, and two cores of six at half the clock, of 4.2 - 0.23 W for all of them.
    assert free * 1e-3 == pytest.approx(0.23 + 3.97 / 3, abs=0.04)
    assert number(root, rail) * 1e-3 == pytest.approx(0.23 + 3.97 / 3 * 0.5**2.5, abs=0.04)
    (root / A57 / "scaling_max_freq").write_text("2035200\n")
    mover.advance(3 * TICK_NS, 0.01, BUSY, 0)
    assert number(root, rail) == free


def test_a_cap_is_taken_between_the_lowest_and_the_highest_clock(tmp_path: Path) -> None:
    root, _, mover = moved(tmp_path, tx2())
    cap = root / A57 / "scaling_max_freq"
    for written, taken in (("1", 345600), ("9999999", 2035200), ("-5", 2035200), ("fast", 2035200)):
        cap.write_text(f"{written}\n")
        mover.advance(TICK_NS, 0.01, BUSY, 0)
        assert number(root, f"{A57}/scaling_max_freq") == taken, written


def test_a_cap_and_heat_lower_the_clock_to_the_lower_of_both(tmp_path: Path) -> None:
    root, _, mover = moved(tmp_path, tx2(throttle="26", heat="1000"))
    (root / A57 / "scaling_max_freq").write_text("1500000\n")
    for place in range(1, 200):  # it throttles to four tenths, below the cap
        mover.advance(place * TICK_NS, 0.01, 6.0, 0)
    assert number(root, f"{A57}/scaling_max_freq") == 814080
    assert number(root, f"{DENVER}/scaling_max_freq") == 814080


def test_the_clock_of_the_gpu_can_be_capped(tmp_path: Path) -> None:
    settings = tx2(processor="gpu")
    root, _, mover = moved(tmp_path, settings)
    folder = root / tree.gpu_devfreq(settings.board)
    (folder / "max_freq").write_text("650250000\n")
    assert mover.advance(TICK_NS, 0.01, 1.0, 0) == pytest.approx(2.0)  # half of 1,300.5 MHz
    assert int((folder / "cur_freq").read_text()) == 650250000


@given(st.floats(0.0, 6.0), st.floats(0.2, 1.0))
def test_what_no_cap_touches_is_not_stretched(busy: float, cap: float) -> None:
    settings = tx2()
    load = spread(settings, busy)
    free = clocks_for(settings.board, load, 1.0)
    assert stretch(settings, load, free) == pytest.approx(1.0)
    assert (
        1.0 - 1e-9
        <= stretch(settings, load, clocks_for(settings.board, load, cap))
        <= 1 / cap + 1e-3
    )
