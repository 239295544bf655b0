"""Real logs of eight boards and one line of each generation: every number in is a value out."""

from __future__ import annotations

import itertools
import math
import random
import re
import statistics
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.refusals import refused
from tests.wording import saying

from wattstep.formats.recording import FormatError, Recording
from wattstep.formats.tegrastats import parse
from wattstep.formats.tegrastats_line import parse_line

EXAMPLES = 100_000 if settings.default.max_examples > 1000 else 200
LOGS = sorted((Path(__file__).parent.parent / "fixtures/jetson").glob("*.tegrastats"))

# Board, and the clock shared by all cores counts once for each of them: numbers more than printed.
# Lines as published: TX1 hordiales/jetson-tx1-dev; TX2 gustavz/realtime_object_detection#24, a gist
# of TerryTsao, FindHao/tx-utils#3; TX2 and Orin Nano henrygd/beszel (MIT); AGX Orin
# GDWR/jetson_exporter#14, rbonghi/jetson_stats PR#894; Nano: two forum posts.
LINES = {
    "tx1-l4t28": (
        None,
        3,
        "RAM 3468/3983MB (lfb 48x4MB) SWAP 873/8192MB (cached 295MB) cpu [17%,13%,29%,5%]@408 EMC 1%@408 APE 25 GR3D 3%@76",
    ),
    "tx2-l4t28": (
        "jetson-tx2",
        0,
        "RAM 1685/7854MB (lfb 1044x4MB) SWAP 278/8192MB (cached 23MB) CPU [4%@346,0%@344,0%@345,1%@345,0%@345,2%@345] EMC_FREQ 16%@102 GR3D_FREQ 0%@140 APE 150 MTS fg 0% bg 0% BCPU@41C MCPU@41C GPU@39C PLL@41C Tboard@37C Tdiode@37.25C PMIC@100C thermal@39.9C VDD_IN 1776/1853 VDD_CPU 231/231 VDD_GPU 154/154 VDD_SOC 386/385 VDD_WIFI 38/38 VDD_DDR 250/288",
    ),
    "tx2-l4t28-no-swap": (
        "jetson-tx2",
        0,
        "RAM 977/7846MB (lfb 1509x4MB) CPU [85%@2035,67%@2033,56%@2034,81%@2034,80%@2034,86%@2034] EMC_FREQ 2%@1866 GR3D_FREQ 0%@1300 APE 150 MTS fg 0% bg 1% BCPU@38.5C MCPU@38.5C GPU@35.5C PLL@38.5C Tboard@32C Tdiode@33.25C PMIC@100C thermal@37.3C VDD_IN 7358/7453 VDD_CPU 3353/3429 VDD_GPU 228/228 VDD_SOC 990/990 VDD_WIFI 0/0 VDD_DDR 1318/1308",
    ),
    "tx2-l4t32": (
        "jetson-tx2",
        0,
        "RAM 2020/7852MB (lfb 1164x4MB) CPU [9%@345,21%@345,25%@345,3%@345,1%@345,1%@345] EMC_FREQ 0% GR3D_FREQ 0% PLL@42.5C MCPU@42.5C PMIC@100C Tboard@40C GPU@41C BCPU@42.5C thermal@41.9C Tdiode@41.25C VDD_SYS_GPU 153/158 VDD_SYS_SOC 536/547 VDD_4V0_WIFI 633/527 VDD_IN 3140/3208 VDD_SYS_CPU 536/590 VDD_SYS_DDR 557/601",
    ),
    "tx2-beszel": (
        "jetson-tx2",
        0,
        "RAM 3276/7859MB (lfb 5x4MB) SWAP 1626/12122MB (cached 181MB) CPU [44%@1421,49%@2031,67%@2034,17%@1420,25%@1419,8%@1420] EMC_FREQ 1%@1866 GR3D_FREQ 0%@114 APE 150 MTS fg 1% bg 1% PLL@42.5C MCPU@42.5C PMIC@50C Tboard@38C GPU@39.5C BCPU@42.5C thermal@41.3C Tdiode@39.25C VDD_SYS_GPU 182/182 VDD_SYS_SOC 730/730 VDD_4V0_WIFI 0/0 VDD_IN 5297/5297 VDD_SYS_CPU 1917/1917 VDD_SYS_DDR 1241/1241",
    ),
    "nano": (
        "jetson-nano",
        0,
        "RAM 2015/3964MB (lfb 98x4MB) SWAP 29/1982MB (cached 3MB) CPU [6%@102,5%@102,4%@102,3%@102] EMC_FREQ 0% GR3D_FREQ 0% PLL@28C CPU@31.5C PMIC@100C GPU@30.5C AO@36C thermal@31.25C POM_5V_IN 1388/1388 POM_5V_GPU 122/122 POM_5V_CPU 163/163",
    ),
    "orin-nano-jp6": (
        None,
        0,
        "11-15-2024 08:38:09 RAM 6185/7620MB (lfb 8x2MB) SWAP 851/3810MB (cached 1MB) CPU [15%@729,11%@729,14%@729,13%@729,11%@729,8%@729] EMC_FREQ 43%@2133 GR3D_FREQ 63%@[621] NVDEC off NVJPG off NVJPG1 off VIC off OFA off APE 200 cpu@53.968C soc2@52.437C soc0@50.75C gpu@53.343C tj@53.968C soc1@51.656C VDD_IN 12479mW/12479mW VDD_CPU_GPU_CV 4667mW/4667mW VDD_SOC 2817mW/2817mW",
    ),
    "orin-nano-jp6-no-root": (
        None,
        0,
        "06-18-2025 11:25:24 RAM 3452/7620MB (lfb 25x4MB) SWAP 1518/16384MB (cached 174MB) CPU [1%@1420,2%@1420,0%@1420,2%@1420,2%@729,1%@729] GR3D_FREQ 0% cpu@50.031C soc2@49.031C soc0@50C gpu@49.031C tj@50.25C soc1@50.25C VDD_IN 4824mW/4824mW VDD_CPU_GPU_CV 518mW/518mW VDD_SOC 1475mW/1475mW",
    ),
    "agx-orin-jp5-nc": (
        "jetson-agx-orin",
        0,
        "04-11-2025 10:36:27 RAM 4321/62801MB (lfb 1759x4MB) SWAP 19/31400MB (cached 0MB) CPU [0%@729,0%@729,0%@729,0%@729,0%@729,0%@729,0%@729,0%@729,0%@729,0%@729,0%@729,0%@729] EMC_FREQ 0%@2133 GR3D_FREQ 0%@[0,0] VIC_FREQ 729 APE 174 CV0@-256C CPU@44.562C Tboard@32C SOC2@40.093C Tdiode@33C SOC0@41.093C CV1@-256C GPU@-256C tj@44.343C SOC1@41.25C CV2@-256C VDD_GPU_SOC 2340mW/2340mW VDD_CPU_CV 390mW/390mW VIN_SYS_5V0 4025mW/4025mW NC 0mW/0mW VDDQ_VDD2_1V8AO 301mW/301mW NC 0mW/0mW",
    ),
    "agx-orin-jp7": (
        "jetson-agx-orin",
        0,
        "07-25-2026 09:08:28 RAM 20642/62817MB (lfb 1x2MB) CPU [23%@2201,10%@2201,4%@2201,14%@2201,30%@2201,18%@2201,10%@2201,10%@2201,33%@2201,7%@2201,5%@2201,27%@2201] EMC_FREQ 3%@3199 GR3D_FREQ 12%@[1300,1300] NVENC0 off NVDEC0 off NVJPG0 off NVJPG1 off VIC off OFA off NVDLA0 off NVDLA1 off PVA0_FREQ off APE 174 cpu@52.968C/52.968C soc2@48.406C/48.406C soc0@49.531C/49.531C gpu@47.625C/47.625C VDD_GPU_SOC 5139mW/5139mW/5139mW VDD_CPU_CV 3268mW/3268mW/3268mW VIN_SYS_5V0 5500mW/5500mW/5500mW",
    ),
}
SIMPLE = "RAM 10/20MB (lfb 3x4MB) CPU [1%@100] VDD_IN 1500/1400"


def numbers_in(line: str) -> int:
    """Numbers that are no part of a name, of a clock before the line, or of a date."""
    line = re.sub(r"^[0-9.]+::", "", line)
    line = re.sub(r"^\d\d-\d\d-\d{4} \d\d:\d\d:\d\d ", "", line)
    line = re.sub(r"(\d)x(\d)", r"\1 \2", line)
    return len(re.findall(r"(?<![A-Za-z0-9_.])-?\d+(?:\.\d+)?", line))


def values_of(text: str, board: str | None = None) -> dict[str, float]:
    return {channel.name: value for channel, value in parse_line(text, board).values}


def with_role(recording: Recording, role: str) -> list[str]:
    return [channel.name for channel in recording.channels if channel.role == role]


# --- nothing is lost ----------------------------------------------------------------------------


@pytest.mark.parametrize("log", LOGS, ids=lambda path: path.stem)
def test_every_number_of_a_log_is_a_value_or_is_counted_with_a_reason(log: Path) -> None:
    text = log.read_text()
    recording = parse(log.read_bytes())
    numbers = sum(map(numbers_in, text.splitlines()))
    assert recording.values + sum(recording.ignored.values()) == numbers
    for channel in recording.channels:
        assert len(recording.t_ns[channel.name]) == len(text.splitlines())


@pytest.mark.parametrize("name", LINES)
def test_every_number_of_every_generation_is_a_value_or_is_counted(name: str) -> None:
    _, repeated, line = LINES[name]
    recording = parse(f"{line}\n".encode())
    assert recording.values + sum(recording.ignored.values()) == numbers_in(line) + repeated


@pytest.mark.parametrize("log", LOGS, ids=lambda path: path.stem)
def test_sums_of_a_log_are_those_of_its_text(log: Path) -> None:
    text = log.read_text()
    recording = parse(log.read_bytes())
    rails = set(re.findall(r" ([A-Z][A-Z0-9_]*) \d+(?:mW)?/\d+(?:mW)?(?= |$)", text, re.MULTILINE))
    checked = {
        "system.used_memory": (r"RAM (\d+)/", 2**20),
        "thermal.cpu": (r"(?i: cpu)@([\d.]+)C", 1),
    }
    for rail in rails - {"NC"}:
        checked[f"rail.{rail.lower()}"] = (rf" {rail} (\d+)(?:mW)?/", 1e-3)
        checked[f"rail.{rail.lower()}.mean"] = (rf" {rail} \d+(?:mW)?/(\d+)", 1e-3)
    assert len(checked) == 2 + 2 * len(rails - {"NC"})
    for name, (pattern, scale) in checked.items():
        expected = sum(map(float, re.findall(pattern, text))) * scale
        assert recording.value[name].sum() == pytest.approx(expected, rel=1e-12), name


# Median distance of lines in ms, asked for 5 ms (shared facts, section 1.3).
SPACING = {
    "orinagx_32gb__all": 27.2, "orinagx_32gb__basic": 7.8, "orinagx_64gb__all": 17.9,
    "orinagx_64gb__basic": 10.9, "orinnx_16gb__basic": 11.1, "xavieragx_16gb__all": 24.5,
    "xaviernx_8gb__all": 18.2, "xaviernx_8gb__basic": 8.0,
}  # fmt: skip


@pytest.mark.parametrize("log", LOGS, ids=lambda path: path.stem)
def test_lines_asked_every_5_ms_come_8_to_27_ms_apart(log: Path) -> None:
    times = [Decimal(line.split("::")[0]) for line in log.read_text().splitlines()]
    by_hand = statistics.median(float(b - a) for a, b in itertools.pairwise(times)) * 1e3
    recording = parse(log.read_bytes())
    t_ns = recording.t_ns["system.used_memory"]
    assert recording.clock == "wall"
    assert int(t_ns[0]) == int(times[0] * 10**9)
    assert np.median(np.diff(t_ns)) * 1e-6 == pytest.approx(by_hand, rel=1e-9)
    assert by_hand == pytest.approx(SPACING[log.stem], abs=0.06)


def test_the_second_number_of_a_rail_is_the_mean_since_the_start() -> None:
    recording = parse(next(p for p in LOGS if p.stem == "xavieragx_16gb__all").read_bytes())
    now, mean = recording.value["rail.gpu"], recording.value["rail.gpu.mean"]
    running = np.cumsum(now) / np.arange(1, len(now) + 1)
    assert np.abs(mean - running).max() < 2e-3  # tegrastats cuts to whole mW


# --- boards and totals --------------------------------------------------------------------------


@pytest.mark.parametrize("name", LINES)
def test_the_board_is_told_by_rails_cores_and_memory(name: str) -> None:
    board, _, line = LINES[name]
    recording = parse(f"{line}\n".encode())
    assert recording.board == board
    assert any("which board" in note for note in recording.notes) == (board is None)


@pytest.mark.parametrize(
    ("stem", "board"),
    [
        ("orinagx_32gb__all", "jetson-agx-orin"),
        ("orinagx_64gb__basic", "jetson-agx-orin"),
        ("orinnx_16gb__basic", "jetson-orin-nx"),
        ("xavieragx_16gb__all", "jetson-agx-xavier"),
        ("xaviernx_8gb__all", "jetson-xavier-nx"),
        ("xaviernx_8gb__basic", "jetson-xavier-nx"),
    ],
)
def test_the_board_of_a_log_is_told(stem: str, board: str) -> None:
    assert parse(next(p for p in LOGS if p.stem == stem).read_bytes()).board == board


def test_only_the_rails_of_the_table_make_the_total() -> None:
    tx2 = parse(f"{LINES['tx2-l4t32'][2]}\n".encode())
    assert with_role(tx2, "power_total") == ["rail.vdd_in"]
    assert "rail.vdd_sys_gpu" in with_role(tx2, "power_part")
    orin = parse(f"{LINES['agx-orin-jp5-nc'][2]}\n".encode())
    assert with_role(orin, "power_total") == [
        "rail.vdd_gpu_soc", "rail.vdd_cpu_cv", "rail.vin_sys_5v0",
    ]  # fmt: skip
    assert with_role(orin, "power_part") == ["rail.vddq_vdd2_1v8ao"]
    xavier = parse(next(p for p in LOGS if p.stem == "xavieragx_16gb__all").read_bytes())
    assert len(with_role(xavier, "power_total")) == 6
    assert "6-8 W" in next(c.note for c in tx2.channels if c.role == "power_total")


def test_boards_that_cannot_be_told_apart_keep_the_total_that_they_share() -> None:
    # Six cores and 7620 MB: an Orin Nano of 8 GB, or an Orin NX of 8 GB.
    recording = parse(f"{LINES['orin-nano-jp6'][2]}\n".encode())
    assert recording.board is None
    assert with_role(recording, "power_total") == ["rail.vdd_in"]
    assert with_role(recording, "power_part") == ["rail.vdd_cpu_gpu_cv", "rail.vdd_soc"]
    (note,) = [note for note in recording.notes if "which board" in note]
    assert "jetson-orin-nano or jetson-orin-nx-8gb" in note
    assert "no total" not in note


def test_a_total_without_one_of_its_rails_is_none() -> None:
    line = LINES["agx-orin-jp5-nc"][2].replace("VDD_CPU_CV 390mW/390mW ", "")
    assert with_role(parse(f"{line}\n".encode()), "power_total") == []


def test_rails_nobody_has_seen_are_unknown_and_in_no_total() -> None:
    recording = parse(b"RAM 1/2MB CPU [1%@5] VDD_NEW 7mW/8mW\n")
    channel = next(c for c in recording.channels if c.name == "rail.vdd_new")
    assert (channel.domain, channel.role) == ("unknown", "power_part")
    assert recording.board is None


def test_bare_rails_of_agx_xavier_are_no_temperatures() -> None:
    log = next(p for p in LOGS if p.stem == "xavieragx_16gb__all")
    values = values_of(log.read_text().splitlines()[0].split("::")[1], "jetson-agx-xavier")
    assert values["rail.gpu"] == pytest.approx(0.463)
    assert values["thermal.gpu"] == 31
    assert values["rail.cpu"] == pytest.approx(1.236)
    assert values["thermal.cpu"] == 32


def test_a_named_board_is_believed() -> None:
    recording = parse(b"RAM 1/2MB CPU [1%@5] VDD_IN 7mW/8mW\n", board="jetson-tx2")
    assert with_role(recording, "power_total") == ["rail.vdd_in"]
    with refused("unknown-board"):
        parse(b"RAM 1/2MB CPU [1%@5] VDD_IN 7mW/8mW\n", board="jetson-tx9")


# --- fields -------------------------------------------------------------------------------------


def test_values_are_in_si_units() -> None:
    values = values_of(LINES["tx2-l4t28"][2])
    assert values["system.used_memory"] == 1685 * 1048576
    assert values["system.largest_free_blocks"] == 1044
    assert values["system.largest_free_block"] == 4 * 1048576
    assert values["system.swap_cached"] == 23 * 1048576
    assert values["cpu3.utilization"] == 0.01
    assert values["cpu0.frequency"] == 346e6
    assert values["memory.controller_utilization"] == 0.16
    assert values["memory.frequency"] == 102e6
    assert values["gpu.frequency"] == 140e6
    assert values["ape.frequency"] == 150e6
    assert values["thermal.thermal"] == 39.9
    assert values["rail.vdd_in"] == pytest.approx(1.776)
    assert values["rail.vdd_in.mean"] == pytest.approx(1.853)


def test_cores_that_are_off_are_gaps_by_their_own_number() -> None:
    values = values_of("RAM 1/2MB CPU [5%@345,off,off,7%@400]")
    assert math.isnan(values["cpu1.utilization"])
    assert math.isnan(values["cpu2.frequency"])
    assert values["cpu3.utilization"] == 0.07
    shared = values_of("RAM 1/2MB cpu [17%,off,29%]@408")
    assert shared["cpu2.frequency"] == 408e6
    assert math.isnan(shared["cpu1.frequency"])


def test_a_memory_load_without_a_clock_is_unknown_and_not_zero() -> None:
    line = parse_line("RAM 1/2MB EMC_FREQ 0% GR3D_FREQ 0%")
    values = {channel.name: value for channel, value in line.values}
    assert math.isnan(values["memory.controller_utilization"])
    assert values["gpu.utilization"] == 0
    assert sum(line.ignored.values()) == 1


def test_units_that_are_off_have_no_temperature() -> None:
    values = values_of(LINES["agx-orin-jp5-nc"][2].split(" ", 2)[2])
    assert math.isnan(values["thermal.gpu"])
    assert values["thermal.cpu"] == 44.562


@pytest.mark.parametrize(
    ("text", "load", "clocks"),
    [
        ("GR3D 39%@76", 0.39, [76e6]),
        ("GR3D_FREQ 45%@921", 0.45, [921e6]),
        ("GR3D_FREQ 63%@[621]", 0.63, [621e6]),
        ("GR3D_FREQ 12%@[1300,1301]", 0.12, [1300e6, 1301e6]),
        ("GR3D_FREQ @[1000,1001,1002]", None, [1000e6, 1001e6, 1002e6]),
        ("GR3D_FREQ 7%", 0.07, []),
    ],
)
def test_every_way_to_write_the_gpu(text: str, load: float | None, clocks: list[float]) -> None:
    values = values_of(f"RAM 1/2MB {text}")
    assert values.get("gpu.utilization") == (None if load is None else pytest.approx(load))
    assert [v for name, v in values.items() if name.endswith("frequency")] == clocks


def test_the_second_part_of_a_gpu_is_a_part() -> None:
    values = values_of("RAM 1/2MB GR3D_FREQ 5%@1300 GR3D2_FREQ 6%@1200")
    assert values["gpu.gpc1.utilization"] == 0.06
    assert values["gpu.gpc1.frequency"] == 1200e6


def test_engines_are_off_or_have_a_clock_a_load_or_both() -> None:
    values = values_of("RAM 1/2MB NVENC 716 NVDEC0 off VIC 31%@115")
    assert values["nvenc.frequency"] == 716e6
    assert math.isnan(values["nvdec0.frequency"])
    assert (values["vic.utilization"], values["vic.frequency"]) == (0.31, 115e6)
    assert values_of("RAM 1/2MB VIC_FREQ 729")["vic.frequency"] == 729e6
    assert values_of("RAM 1/2MB IRAM 0/252kB(lfb 252kB)")["system.iram_total"] == 252 * 1024


def test_three_numbers_of_a_rail_and_a_negative_one() -> None:
    values = values_of("RAM 1/2MB VDD_GPU -392mW/3787mW/4385mW")
    assert values["rail.vdd_gpu"] == pytest.approx(-0.392)
    assert values["rail.vdd_gpu.mean"] == pytest.approx(3.787)
    assert values["rail.vdd_gpu.peak"] == pytest.approx(4.385)


def test_rails_connected_to_nothing_are_told_apart() -> None:
    values = values_of("RAM 1/2MB NC 1mW/2mW NC 3mW/4mW")
    assert [values["rail.nc.1"], values["rail.nc.2"]] == pytest.approx([0.001, 0.003])


def test_a_field_of_a_later_release_is_counted_and_not_guessed() -> None:
    line = parse_line("RAM 1/2MB NEWUNIT 12%@345 CPU [1%@5]")
    assert dict(line.ignored) == {"NEWUNIT: unknown field": 2}
    assert len(line.values) == 4


def test_an_impossible_load_is_a_gap() -> None:
    line = parse_line("RAM 1/2MB CPU [101%@5,100%@5]")
    values = {channel.name: value for channel, value in line.values}
    assert math.isnan(values["cpu0.utilization"])
    assert values["cpu1.utilization"] == 1
    assert sum(line.ignored.values()) == 1


# --- damage -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "bad",
    [
        "hello", "CPU [1%@5]", "RAM 1/2MB RAM 1/2MB", "RAM 1/2MB CPU [1%@5", "RAM 1/2MB VDD_IN 5/",
        "RAM 1/2MB VDD_IN 5mW/5", "RAM 1/2", "RAM 1/2MB GPU@C", "RAM 1/2MB CPU [1%@34 EMC_FREQ 1%@5",
        "RAM 1/99999999999MB", "RAM 1/2MB (lfb 3x4MB",
    ],
)  # fmt: skip
def test_a_damaged_line_is_named_by_its_number(bad: str) -> None:
    with pytest.raises(FormatError, match=r"^line 2 ") as caught:
        parse(f"{SIMPLE}\n{bad}\n".encode(), interval_s=1)
    assert caught.value.line == 2
    recording = parse(f"{SIMPLE}\n{bad}\n{SIMPLE}\n".encode(), interval_s=1)
    assert saying(recording.notes, "line 2", "no tegrastats")


def test_nothing_and_bytes_that_are_no_text_are_errors() -> None:
    for data in (b"", b"\n\n", b"\xff\xfe", b"\xff\n"):
        with pytest.raises(FormatError):
            parse(data, interval_s=1)


def test_a_few_damaged_lines_are_left_out_and_many_refuse_the_log() -> None:
    lines = [f"{100 + i}.5::{SIMPLE}" for i in range(1000)]
    for number in (1, 300, 301, 500, 999):
        lines[number] = lines[number][:15]
    lines[700] = "\xff" + lines[700]
    recording = parse(("\n".join(lines) + "\n").encode("latin-1"))
    assert len(recording.t_ns["rail.vdd_in"]) == 994
    assert np.isfinite(recording.value["rail.vdd_in"]).all()
    assert recording.t_ns["rail.vdd_in"][1] == 102_500_000_000
    assert dict(recording.ignored) == {"damaged line": 6}
    assert saying(recording.notes, "6 lines", "(2, 301, 302, 501,")
    for number in range(10, 16):  # 12 of 1000 are more than 1 %
        lines[number] = lines[number][:15]
    with refused("not-a-rail", "line 2"):
        parse(("\n".join(lines) + "\n").encode("latin-1"))


def test_half_a_log_of_damage_is_no_log() -> None:
    with pytest.raises(FormatError, match="line 1 "):
        parse(f"hello\nworld\n{SIMPLE}\n{SIMPLE}\n".encode(), interval_s=1)


def test_a_damaged_line_of_a_log_without_a_clock_keeps_its_time() -> None:
    recording = parse(f"{SIMPLE}\nRAM 1/\n{SIMPLE}\n".encode(), interval_s=1)
    assert list(recording.t_ns["rail.vdd_in"]) == [0, 10**9, 2 * 10**9]
    assert list(np.isnan(recording.value["rail.vdd_in"])) == [False, True, False]


@pytest.mark.parametrize("end", ["", "SWAP 0/7", "CPU [1%@5] VDD_IN 5/4"])
def test_a_lone_line_that_does_not_end_may_be_cut(end: str) -> None:
    with refused("cut-line", "line 1"):
        parse(f"RAM 1/2MB {end}".encode(), interval_s=1)


@pytest.mark.parametrize(
    "field", ["SWAP 0/7", "IRAM 0/252", "EMC_FREQ 1/2", "GR3D_FREQ 3/4", "APE 1/2", "VIC 1/2"]
)
def test_no_memory_and_no_engine_is_ever_a_rail(field: str) -> None:
    with refused("not-a-rail"):
        parse_line(f"RAM 1/2MB {field}")


def test_a_pair_without_a_unit_beside_rails_that_say_mw_is_no_rail() -> None:
    for text in ("FAN 20/255 VDD_IN 7mW/8mW", "VDD_IN 7mW/8mW FAN 20/255"):
        line = parse_line(f"RAM 1/2MB {text}")
        assert line.rails == ("VDD_IN",)
        assert "rail.fan" not in {channel.name for channel, _ in line.values}
        assert dict(line.ignored) == {"FAN: unknown field": 2}


@pytest.mark.parametrize("keep", [4, 11, 12, 20, 30, 44, len(SIMPLE) - 5, len(SIMPLE) - 1])
def test_a_last_line_that_is_cut_is_left_out_and_said(keep: int) -> None:
    recording = parse(f"{SIMPLE}\n{SIMPLE}\n{SIMPLE[:keep]}".encode(), interval_s=1)
    assert list(recording.value["system.used_memory"]) == [10 * 2**20] * 2
    assert saying(recording.notes, "line 3", "left out")


def test_no_cut_gives_a_number_that_was_not_there() -> None:
    line = LINES["tx2-l4t28"][2]
    whole = values_of(line)
    for keep in range(len(line) + 1):
        recording = parse(f"{line}\n{line[:keep]}".encode(), interval_s=1)
        for name, values in recording.value.items():
            for value in values:
                assert math.isnan(value) or value == whole[name], (keep, name)


# --- clocks -------------------------------------------------------------------------------------


def test_lines_without_a_clock_need_their_distance() -> None:
    data = f"{SIMPLE}\n{SIMPLE}\n".encode()
    with refused("no-clock", "interval"):
        parse(data)
    recording = parse(data, interval_s=0.25)
    assert recording.clock == "counted"
    assert list(recording.t_ns["rail.vdd_in"]) == [0, 250_000_000]
    with refused("out-of-range", "apart"):
        parse(data, interval_s=math.inf)


def test_dates_of_whole_seconds_are_spread_over_them() -> None:
    stamps = ["06-25-2025 09:43:17"] * 2 + ["06-25-2025 09:43:18"] * 4 + ["06-25-2025 09:43:19"]
    data = "".join(f"{stamp} {SIMPLE}\n" for stamp in stamps).encode()
    recording = parse(data)
    begin = 1750844597 * 10**9  # date -u -d '2025-06-25 09:43:17' +%s
    offsets = [0, 500, 1000, 1250, 1500, 1750, 2000]
    assert list(recording.t_ns["rail.vdd_in"]) == [begin + ms * 10**6 for ms in offsets]
    assert any("time zone" in note for note in recording.notes)
    assert any("spread" in note for note in recording.notes)


@pytest.mark.parametrize(
    ("stamp", "seconds"),
    [
        ("2025-06-25T09:43:17Z", 1750844597.0),
        ("2025-06-25 09:43:17.250", 1750844597.25),
        ("2025-06-25T11:43:17.5+02:00", 1750844597.5),
        ("06-25-2025 09:43:17", 1750844597.0),
        ("[2025-06-25 09:43:17]", 1750844597.0),
        ("[06-25-2025 09:43:17.5]", 1750844597.5),
        ("2025-06-25 09:43:17,250 -", 1750844597.25),
        ("2025/06/25 09:43:17", 1750844597.0),
        ("1750844597.25", 1750844597.25),
        ("1750844597", 1750844597.0),
        ("[1750844597.25]", 1750844597.25),
        ("\ufeff2025-06-25 09:43:17", 1750844597.0),
        ("\ufeff1750844597.25::", 1750844597.25),
    ],
)
def test_dates_of_wrappers_are_understood(stamp: str, seconds: float) -> None:
    recording = parse(f"{stamp} {SIMPLE}\n".encode())
    assert recording.clock == "wall"
    assert recording.t_ns["rail.vdd_in"][0] == round(seconds * 1000) * 10**6
    assert recording.values == 8


@pytest.mark.parametrize(
    "stamp", ["[2025-06-25 09:43:17", "2025-06/25 09:43:17", "[1750844597.25", "7"]
)
def test_half_a_stamp_is_none(stamp: str) -> None:
    with pytest.raises(FormatError, match="line 1 "):
        parse(f"{stamp} {SIMPLE}\n".encode())


@pytest.mark.parametrize(("seconds", "said"), [(3, False), (3 * 365 * 86400, True)])
def test_a_clock_that_jumps_forward_is_said(seconds: int, said: bool) -> None:
    # A board without a battery begins in 1970 or at its last shutdown, until a server tells the time.
    stamps = [1_600_000_000, 1_600_000_001, 1_600_000_002]
    stamps += [stamp + seconds for stamp in stamps]
    recording = parse("".join(f"{stamp}::{SIMPLE}\n" for stamp in stamps).encode())
    notes = [note for note in recording.notes if "jumped forward 1 times" in note]
    assert bool(notes) == said
    assert all("2.63e+04 hours" in note for note in notes)  # 26,280 hours


def test_a_clock_that_goes_back_loses_nothing() -> None:
    seconds = [100.0, 100.5, 101.0, 50.0, 50.5]
    data = "".join(f"{s}::{SIMPLE}\n" for s in seconds).encode()
    recording = parse(data)
    t_ns = recording.t_ns["rail.vdd_in"]
    assert [round(t / 1e6) for t in t_ns] == [100_000, 100_500, 101_000, 101_500, 102_000]
    assert saying(recording.notes, "clock went back", "1 times")


@pytest.mark.parametrize("window", [2, 8, 40])
def test_lines_out_of_order_are_sorted(window: int) -> None:
    order = sorted(range(40), key=lambda n: n + random.Random(n).uniform(0, window))
    assert order != list(range(40))
    recording = parse("".join(f"{100 + n / 10:.1f}::{SIMPLE}\n" for n in order).encode())
    t_ns = recording.t_ns["rail.vdd_in"]
    assert [round(t / 1e8) for t in t_ns] == list(range(1000, 1040))
    assert saying(recording.notes, "sorted by")


def test_a_clock_that_is_set_back_among_many_lines_loses_nothing() -> None:
    """It repeats three seconds and a half; nothing is sorted among what came before."""
    stamps = [100 + n / 10 for n in range(60)] + [102.45 + n / 10 for n in range(60)]
    recording = parse("".join(f"{stamp:.2f}::{SIMPLE}\n" for stamp in stamps).encode())
    t_ns = recording.t_ns["rail.vdd_in"]
    assert (t_ns[-1] - t_ns[0]) / 1e9 == pytest.approx(11.9)
    assert saying(recording.notes, "clock went back", "1 times")


def test_times_that_go_back_again_and_again_are_refused_where_sorting_makes_no_sense() -> None:
    """Two logs of ten lines a second, one behind the other's time by some ms, line by line."""
    stamps = [100 + (n // 2) / 10 + (0.51 if n % 2 else 0) for n in range(80)]
    data = "".join(f"{stamp:.2f}::{SIMPLE}\n" for stamp in stamps).encode()
    with refused("time-goes-back", "line 3"):
        parse(data)


def test_a_line_without_the_time_that_others_have_is_an_error() -> None:
    with pytest.raises(FormatError, match="line 2"):
        parse(f"5.0::{SIMPLE}\n{SIMPLE}\n".encode())
    with pytest.raises(FormatError, match="no date"):
        parse(f"13-45-2025 09:43:17 {SIMPLE}\n".encode())


def test_a_rail_that_is_missing_in_a_line_is_a_gap() -> None:
    recording = parse(f"{SIMPLE}\nRAM 1/2MB\n{SIMPLE}\n".encode(), interval_s=1)
    values = recording.value["rail.vdd_in"]
    assert math.isnan(values[1])
    assert values[2] == 1.5


# --- any bytes ----------------------------------------------------------------------------------


def check(data: bytes) -> None:
    """Values that keep what a Recording promises, or an error at a line that exists."""
    lines = range(1, data.count(b"\n") + 2)
    try:
        recording = parse(data, interval_s=0.1)
    except FormatError as error:
        if error.line in lines:
            return
        raise
    assert len({channel.name for channel in recording.channels}) == len(recording.channels)
    for channel in recording.channels:
        t_ns, value = recording.t_ns[channel.name], recording.value[channel.name]
        assert t_ns.dtype == np.int64
        assert (np.diff(t_ns) > 0).all()
        assert len(t_ns) == len(value)
        assert not np.isinf(value).any()


REAL = [line.encode() for _, _, line in LINES.values()] + [
    log.read_bytes().splitlines()[0] for log in LOGS
]


@settings(max_examples=EXAMPLES)
@given(st.binary(max_size=300))
def test_any_bytes_give_values_or_a_clear_error(data: bytes) -> None:
    check(data)


@settings(max_examples=EXAMPLES)
@given(
    st.lists(st.sampled_from(REAL), min_size=1, max_size=3),
    st.lists(
        st.tuples(st.integers(0, 2000), st.integers(0, 40), st.binary(max_size=12)), max_size=3
    ),
)
def test_damaged_lines_give_values_or_a_clear_error(
    lines: list[bytes], cuts: list[tuple[int, int, bytes]]
) -> None:
    data = b"\n".join(lines)
    for at, length, other in cuts:
        data = data[:at] + other + data[at + length :]
    check(data)


@settings(max_examples=EXAMPLES)
@given(
    cores=st.lists(st.none() | st.tuples(st.integers(0, 100), st.integers(1, 5000)), min_size=1, max_size=12),
    rails=st.dictionaries(
        st.sampled_from(["VDD_IN", "VDD_CPU", "GPU", "SYS5V", "CV"]),
        st.lists(st.integers(-500, 99_999), min_size=2, max_size=3),
    ),
    zones=st.dictionaries(
        st.sampled_from(["CPU", "GPU", "tj", "soc0"]), st.integers(-300_000, 130_000)
    ),
    suffix=st.sampled_from(["", "mW"]),
)  # fmt: skip
def test_what_is_written_is_what_is_read(
    cores: list[tuple[int, int] | None],
    rails: dict[str, list[int]],
    zones: dict[str, int],
    suffix: str,
) -> None:
    parts = ["off" if core is None else f"{core[0]}%@{core[1]}" for core in cores]
    text = f"RAM 1/2MB CPU [{','.join(parts)}]"
    text += "".join(f" {name}@{value / 1000}C" for name, value in zones.items())
    text += "".join(
        f" {name} {'/'.join(f'{value}{suffix}' for value in values)}"
        for name, values in rails.items()
    )
    line = parse_line(text)
    values = {channel.name: value for channel, value in line.values}
    for number, core in enumerate(cores):
        expected = (math.nan, math.nan) if core is None else (core[0] / 100, core[1] * 1e6)
        found = values[f"cpu{number}.utilization"], values[f"cpu{number}.frequency"]
        assert found == pytest.approx(expected, nan_ok=True)
    for name, value in zones.items():
        expected_c = math.nan if value < -100_000 else value / 1000
        assert values[f"thermal.{name.lower()}"] == pytest.approx(expected_c, nan_ok=True)
    for name, numbers in rails.items():
        words = ("", ".mean", ".peak")[: len(numbers)]
        found_w = [values[f"rail.{name.lower()}{word}"] for word in words]
        assert found_w == pytest.approx([number / 1000 for number in numbers])
    assert np.isfinite(list(values.values())).sum() + sum(line.ignored.values()) == numbers_in(text)
