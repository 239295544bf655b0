"""Devices for predictions: each value with its range and origin, checked against facts told another way."""

from __future__ import annotations

import copy
import dataclasses
import math
import re
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.refusals import refused
from tests.wording import assert_says

from wattstep import devices
from wattstep.devices.loading import parse_device
from wattstep.devices.table import BASES, PARTS, Value
from wattstep.errors import InvalidValueError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SMALL = """
title = "A device"
memory.unified = true
memory.size = { value = 4e9, low = 4e9, high = 4e9, basis = "datasheet", source = "a label" }
processors.cpu = { kind = "cpu", title = "2 cores", cores = 2 }
power = {}
thermal = {}
"""
ENDS = ("value", "low", "high")
PEAKS = {  # FLOP/s by hand: cores x operations in a cycle x clock in Hz
    ("jetson-tx2", "gpu", "fp32"): 256 * 2 * 1300.5e6,
    ("jetson-tx2", "gpu", "fp16"): 256 * 4 * 1300.5e6,
    ("jetson-tx2", "cpu-a57", "fp32"): 4 * 8 * 2035.2e6,
    ("jetson-nano", "gpu", "fp32"): 128 * 2 * 921.6e6,
    ("jetson-xavier-nx", "gpu", "fp32"): 384 * 2 * 1109e6,
    ("jetson-xavier-nx", "gpu", "fp16"): 48 * 128 * 1109e6,  # tensor cores
    ("jetson-agx-xavier", "gpu", "fp32"): 512 * 2 * 1377e6,
    ("jetson-agx-xavier", "gpu", "fp16"): 64 * 128 * 1377e6,
    ("jetson-orin-nano", "gpu", "fp32"): 1024 * 2 * 1020e6,
    ("jetson-orin-nano", "gpu", "bf16"): 32 * 512 * 1020e6,
    ("jetson-orin-nx", "gpu", "fp32"): 1024 * 2 * 1173e6,
    ("jetson-orin-nx", "cpu", "fp32"): 8 * 16 * 1984e6,
    ("jetson-agx-orin", "gpu", "fp32"): 2048 * 2 * 1300e6,
    ("jetson-agx-orin", "gpu", "tf32"): 64 * 256 * 1300e6,
    ("jetson-agx-orin", "gpu", "bf16"): 64 * 512 * 1300e6,
    ("jetson-agx-orin", "cpu", "fp32"): 12 * 16 * 2201.6e6,
    ("raspberry-pi-3b-plus", "cpu", "fp32"): 4 * 8 * 1400e6,
    ("raspberry-pi-4", "cpu", "fp32"): 4 * 8 * 1800e6,
    ("raspberry-pi-5", "cpu", "fp32"): 4 * 16 * 2400e6,
    ("snapdragon-855", "gpu", "fp32"): 768 * 2 * 585e6,
    ("snapdragon-855", "cpu-gold", "fp32"): 3 * 16 * 2419e6,
    ("snapdragon-888", "cpu-prime", "fp32"): 32 * 2842e6,
    ("laptop-i5-1135g7", "cpu", "fp32"): 4 * 32 * 4200e6,
}
RATES = {  # B/s at the pins by hand: bytes of the width x transfers in a second
    "jetson-tx2": 16 * 2 * 1866e6,
    "jetson-nano": 8 * 2 * 1600e6,
    "jetson-xavier-nx": 16 * 2 * 1866e6,
    "jetson-agx-xavier": 32 * 2 * 2133e6,
    "jetson-orin-nano": 16 * 2 * 3199e6,
    "jetson-orin-nx": 16 * 2 * 3199e6,
    "jetson-agx-orin": 32 * 2 * 3199e6,
    "raspberry-pi-3b-plus": 4 * 900e6,
    "raspberry-pi-4": 4 * 3200e6,
    "raspberry-pi-5": 4 * 4267e6,
    "snapdragon-855": 8 * 4266e6,
    "snapdragon-865": 8 * 5500e6,
    "snapdragon-888": 8 * 6400e6,
    "snapdragon-8-gen-1": 8 * 6400e6,
    "laptop-i5-1135g7": 16 * 3200e6,
}

every_device = pytest.mark.parametrize("name", devices.names())


def small(**changes: str) -> bytes:
    """The small device with lines replaced by what they begin with, or added."""
    lines = SMALL.strip().splitlines()
    for key, line in changes.items():
        lines = [one for one in lines if not one.startswith(key)] + [line]
    return "\n".join(lines).encode()


def test_every_device_of_the_issue_has_a_file() -> None:
    assert devices.names() == sorted(RATES)


@every_device
def test_every_shipped_device_lacks_nothing_that_a_datasheet_or_an_estimate_can_say(
    name: str,
) -> None:
    device = devices.find(name)
    assert device.name == name
    assert set(device.missing) <= {"kinds", "floors.torch"}  # which trainings alone can tell


@every_device
def test_every_value_is_in_its_range_and_an_estimate_is_never_sure(name: str) -> None:
    for key, unit, value in devices.find(name).values():
        assert value.low <= value.value <= value.high, key
        assert value.basis in BASES, key
        assert value.source, key
        if value.basis == "estimate" and unit == "°C":
            assert value.high - value.low >= 10, key
        elif value.basis == "estimate":
            assert value.low == 0 or value.high / value.low >= 1.5, key


@pytest.mark.parametrize(("name", "processor", "precision"), PEAKS)
def test_a_peak_is_cores_times_operations_times_clock(
    name: str, processor: str, precision: str
) -> None:
    peak = devices.find(name).processors[processor].peak[precision]
    assert peak.value == pytest.approx(PEAKS[name, processor, precision], rel=1e-3)


@every_device
def test_each_peak_follows_from_the_facts_that_stand_beside_it(name: str) -> None:
    for processor in devices.find(name).processors.values():
        for precision, operations in processor.per_cycle.items():
            assert processor.max_hz is not None
            expected = processor.cores * operations * processor.max_hz.value
            assert processor.peak[precision].value == pytest.approx(expected, rel=1e-3)


@every_device
def test_the_bandwidth_is_width_times_transfers(name: str) -> None:
    bandwidth = devices.find(name).memory.bandwidth
    assert bandwidth is not None
    assert bandwidth.value == pytest.approx(RATES[name], rel=1e-3)


@every_device
def test_the_idle_parts_make_the_idle_device(name: str) -> None:
    power = devices.find(name).power
    assert power.idle is not None
    lost = power.efficiency.value if power.efficiency else 1.0
    parts = {key: part.idle.value for key, part in power.parts.items() if part.idle is not None}
    rest = parts.pop("rest")
    assert set(parts) | {"rest"} | {"gpu"} == set(PARTS)
    assert power.idle.low <= sum(parts.values()) / lost + rest <= power.idle.high


@every_device
def test_a_full_load_is_not_more_than_all_parts_at_their_fullest(name: str) -> None:
    power = devices.find(name).power
    assert power.full is not None
    assert power.idle is not None
    lost = power.efficiency.low if power.efficiency else 1.0
    most = sum(
        value.high
        for part in power.parts.values()
        for value in (part.idle, part.dynamic)
        if value is not None
    )
    assert power.idle.value < power.full.value <= most / lost


def test_what_the_board_s_table_says_is_not_said_again() -> None:
    tx2 = devices.find("jetson-tx2")
    assert tx2.board is not None
    assert tx2.memory.size == exact(8239710208, "boards/jetson-tx2.toml")
    assert tx2.memory.clock == exact(1.866e9, "boards/jetson-tx2.toml")
    assert tx2.processors["gpu"].max_hz == exact(1.3005e9, "boards/jetson-tx2.toml")
    assert tx2.processors["cpu-a57"].cores == 4
    assert tx2.processors["cpu-denver"].cores == 2
    assert tx2.modes["MAXQ"].clocks["gpu"].value == 850e6
    assert tx2.modes["MAXQ"].clocks["cpu-a57"].value == 1.2e9
    assert tx2.modes["MAXQ"].cap == exact(7.5, "boards/jetson-tx2.toml")
    assert "carrier" in tx2.power.leaves_out
    assert devices.find("jetson-nano").thermal.throttle == exact(97.0, "boards/jetson-nano.toml")
    assert "no power sensor" in devices.find("raspberry-pi-4").power.no_total
    assert devices.find("jetson-agx-orin").processors["cpu"].cores == 12


def test_power_follows_the_clock_through_the_modes_of_the_agx_orin() -> None:
    orin = devices.find("agx-orin")
    most, less = orin.modes["MAXN"].dynamic, orin.modes["50W"].dynamic  # all cores in both
    gpu = math.log(most["gpu"].value / less["gpu"].value) / math.log(1300 / 816)
    cpu = math.log(most["cpu"].value / less["cpu"].value) / math.log(2201.6 / 1497.6)
    exponent = orin.power.clock_exponent
    assert exponent is not None
    assert exponent.low < gpu < cpu < exponent.high
    assert orin.modes["30W"].cores == {"cpu": 8, "gpu": 4 * 2 * 128}  # 4 of 8 TPCs, 2 SMs each


def exact(value: float, source: str) -> Value:
    return Value(value=value, low=value, high=value, basis="datasheet", source=source)


def test_the_wall_of_the_tx2_is_where_its_published_trainings_ran_out() -> None:
    usable = devices.find("tx2").memory.usable
    assert usable is not None
    assert usable.low == pytest.approx(6180 * 2**20, rel=1e-3)
    assert usable.high == pytest.approx(6250 * 2**20, rel=1e-3)
    floor = devices.find("tx2").floors["torch-1.6"].memory
    assert floor is not None
    assert floor.value == pytest.approx(1630 * 2**20, rel=1e-3)


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("tx2", "jetson-tx2"), ("Jetson TX2", "jetson-tx2"), ("jetson_tx2", "jetson-tx2"),
        ("orin-nano", "jetson-orin-nano"), ("rpi5", "raspberry-pi-5"), ("SD855", "snapdragon-855"),
    ],
)  # fmt: skip
def test_a_device_is_found_by_the_names_that_people_use(alias: str, name: str) -> None:
    assert devices.find(alias).name == name


def test_no_two_devices_answer_to_the_same_name() -> None:
    names = [word for name in devices.names() for word in (name, *devices.find(name).aliases)]
    assert len(set(names)) == len(names)
    assert all(name == name.lower() and " " not in name and "_" not in name for name in names)


def test_what_a_device_lacks_is_named_with_what_would_tell_it() -> None:
    missing = parse_device(small(), "small", "small.toml").missing
    assert_says(missing["memory.usable"], "memory runs out")
    assert "wattstep ceilings" in missing["processors.cpu.peak.fp32"]
    assert "meter" in missing["power.idle"]
    assert "meter" in missing["power.parts.memory"]
    assert_says(missing["kinds"], "fit to trainings")
    assert "memory.size" not in missing
    assert "power.parts.gpu" not in missing  # it has no GPU
    assert "battery.capacity" not in missing  # it has no battery


def test_kinds_of_operations_keep_the_fit_s_own_terms_and_where_they_were_fitted() -> None:
    text = """
        [kinds."torch-1.6"."matrix product"]
        fitted = "batch 2 to 256"
        basis = "calibration"
        source = "a fit"
        efficiency = { value = 0.6, low = 0.5, high = 0.7 }
        slope = { value = -0.1, low = -0.2, high = 0.0, source = "another" }
        """
    device = parse_device(small() + text.encode(), "small", "small.toml")
    fit = device.kinds["torch-1.6"]["matrix product"]
    assert fit.fitted == "batch 2 to 256"
    assert fit.values["efficiency"] == Value(
        value=0.6, low=0.5, high=0.7, basis="calibration", source="a fit"
    )
    assert fit.values["slope"].source == "another"
    assert "kinds" not in device.missing
    keys = [key for key, _, _ in device.values()]
    assert keys[-2:] == [
        'kinds."torch-1.6"."matrix product".efficiency',
        'kinds."torch-1.6"."matrix product".slope',
    ]


VALUE = '{ value = 2.0, low = 1.0, high = 3.0, basis = "estimate", source = "a guess" }'


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("memory.bandwidth = 59.7e9", "memory.bandwidth: 59700000000.0 has no range"),
        (f"memory.bandwidth = {VALUE.replace('low = 1.0, ', '')}", "memory.bandwidth.low: it is missing"),
        (f"memory.bandwidth = {VALUE.replace('low', 'least')}", "memory.bandwidth.low: it is missing"),
        (f"memory.bandwidth = {VALUE.replace('2.0', '4.0')}", "memory.bandwidth: 4 is not within"),
        (f"memory.bandwidth = {VALUE.replace('1.0', 'nan')}", "memory.bandwidth.low: nan"),
        (f"memory.bandwidth = {VALUE.replace('1.0', '1' * 400)}", "is no number"),
        (f"memory.bandwidth = {VALUE.replace('1.0', '1' * 5000)}", ""),
        (f"memory.bandwidth = {VALUE.replace('1.0', '0x' + 'f' * 5000)}", ""),
        (f"memory.bandwidth = {VALUE.replace('2.0', 'true')}", "memory.bandwidth.value: True"),
        (f"memory.bandwidth = {VALUE.replace('estimate', 'hearsay')}", "basis 'hearsay': "),
        (f"memory.bandwidth = {VALUE.replace('a guess', ' ')}", "memory.bandwidth: the source"),
        (f"memory.bandwidth = {VALUE.replace('3.0', '2.0').replace('1.0', '1.5')}", "memory.bandwidth: an estimate from 1.5"),
        (f"memory.bandwidth = {VALUE.replace('1.0', '-1.0')}", "memory.bandwidth: -1 B/s is below zero"),
        (f"thermal.ambient = {VALUE}", "thermal.ambient: an estimate from 1"),
        (f"memory.speed = {VALUE}", "memory.speed: no such key"),
        (f'memory."a b" = {VALUE}', 'memory."a b": no such key'),
        (f"memory.usable = {VALUE.replace('2.0', '5e9').replace('3.0', '6e9')}", "memory.usable: it is more"),
        ("colour = 1", "no such key"),
        ('name = "x"', "name: the file's"),
        ('board = "jetson-tx9"', "board: 'jetson-tx9'"),
        ("title = 1", "title: 1 is no"),
        ('aliases = "x"', "aliases: 'x'"),
        ("memory = 1", "memory: 1 is no"),
        ("processors = {}", "processors: it"),
        ("processors.cpu = { kind = 'cpu', title = 'x' }", "processors.cpu.cores: it is missing"),
        ("processors.cpu = { kind = 'npu', title = 'x', cores = 1 }", "processors.cpu.kind: 'npu'"),
        ("processors.cpu = { kind = 'cpu', cores = 1 }", "processors.cpu.title: it is missing"),
        (f"processors.cpu = {{ kind = 'cpu', title = 'x', cores = 1, peak.fp64 = {VALUE} }}", "processors.cpu.peak.fp64: precisions are fp32"),
        (f"power.parts.fan.idle = {VALUE}", "power.parts.fan: parts"),
        ("floors.torch.counted = 'all'", "floors.torch.counted: 'all'"),
        (f"modes.low.clocks.gpu = {VALUE}", "modes.low: 'gpu'"),
        (f"modes.low.dynamic.fan = {VALUE}", "modes.low.dynamic.fan: parts"),
        ("modes.low.cores.npu = 1", "modes.low: 'npu'"),
        ("title = ", "Invalid value"),
    ],
)  # fmt: skip
def test_a_wrong_file_is_refused_with_its_name_the_key_and_what_is_wrong(
    line: str, problem: str
) -> None:
    start = line.partition("=")[0].split(".")[0].strip()
    single = start in ("title", "power", "thermal", "processors") or line.startswith("memory =")
    data = small(**({start: line} if single else {"-": line}))
    with pytest.raises(InvalidValueError) as caught:
        parse_device(data, "mine", "folder/mine.toml")
    assert str(caught.value).startswith("folder/mine.toml: ")
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    ("key", "changes", "problem"),
    [
        ("memory.usable", dict.fromkeys(ENDS, 1), "is not plausible"),
        ("memory.usable", {"low": 0}, "is not plausible"),
        ("processors.gpu.peak.fp32", dict.fromkeys(ENDS, 0), "is not plausible"),
        ("processors.gpu.peak.fp32", dict.fromkeys(ENDS, 1e-300), "is not plausible"),
        ("processors.gpu.peak.fp32", dict.fromkeys(ENDS, 1e30), "is not plausible"),
        ("thermal.throttle", {"value": 999, "high": 999}, "is not plausible"),
        ("power.idle", dict.fromkeys(ENDS, 100), "more than power.full"),
        ("power.efficiency", dict.fromkeys(ENDS, 8.7), "1 at most"),
        ("power.efficiency", {"low": 0}, "1 at most"),
        ("kinds.torch-1/6.dense convolution.forward_efficiency", {"low": 0}, "must be above 0"),
        ("kinds.torch-1/6.step.kernel_gap_s", dict.fromkeys(ENDS, -1), "-1 is below zero"),
        ("kinds.torch-1/6.interval.step_time", dict.fromkeys(ENDS, 0), "must be above 0"),
        ("processors.gpu", {"cores": -256}, "-256 is below 0"),
        ("modes.MAXQ.cores", {"cpu-denver": -1}, "-1 is below 0"),
    ],
)
def test_what_cannot_be_is_refused_by_its_key(
    key: str, changes: dict[str, float], problem: str
) -> None:
    document = tomllib.loads((devices.FOLDER / "jetson-tx2.toml").read_text(encoding="utf-8"))
    table = document
    for part in key.split("."):
        table = table[part.replace("/", ".")]
    table.update(changes)
    with pytest.raises(InvalidValueError, match=re.escape(problem)) as refused:
        parse_device(spelled(document).encode(), "mine", "mine.toml")
    assert str(refused.value).startswith("mine.toml: " + key.split(".")[0])


def test_a_cluster_that_the_board_lacks_is_refused_with_those_it_has() -> None:
    data = small(
        processors='processors.cpu = { kind = "cpu", title = "x", cluster = "Cortex-A5" }',
        board='board = "jetson-tx2"',
    )
    with refused("damaged-device-file", "jetson-tx2", "'Cortex-A5'", "Cortex-A57"):
        parse_device(data, "mine", "mine.toml")


def test_a_processor_cannot_be_faster_than_the_memory_that_it_shares() -> None:
    slow = VALUE.replace(".0", ".0e9")
    fast = slow.replace("2.0", "9.0").replace("3.0", "9.0")
    lines = {
        "processors": f'processors.cpu = {{ kind = "cpu", title = "x", cores = 1, bandwidth = {fast} }}',
        "memory.bandwidth": f"memory.bandwidth = {slow}",
    }
    with refused("damaged-device-file", "processors.cpu.bandwidth: ", "memory.bandwidth"):
        parse_device(small(**lines), "mine", "mine.toml")
    apart = small(**lines, **{"memory.unified": "memory.unified = false"})
    assert parse_device(apart, "mine", "mine.toml").processors["cpu"].bandwidth is not None


WHOLE = tomllib.loads((devices.FOLDER / "jetson-tx2.toml").read_text(encoding="utf-8"))
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2)
    ),
    max_leaves=4,
)


def leaves(table: dict[str, Any], path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """The path of each key, tables included."""
    return [
        each
        for key, held in table.items()
        for each in ((*path, key), *(leaves(held, (*path, key)) if isinstance(held, dict) else ()))
    ]


@given(path=st.sampled_from(leaves(WHOLE)), held=ANYTHING)
def test_whatever_stands_at_a_key_the_file_is_read_or_refused(
    path: tuple[str, ...], held: Any
) -> None:
    document = copy.deepcopy(WHOLE)
    table = document
    for key in path[:-1]:
        table = table[key]
    table[path[-1]] = held
    try:
        device = parse_device(spelled(document).encode("utf-8", "replace"), "mine", "mine.toml")
    except InvalidValueError as error:
        refused = str(error)
    else:
        refused = ""
        assert all(value.low <= value.value <= value.high for _, _, value in device.values())
    assert not refused or refused.startswith("mine.toml: ")


def spelled(held: Any) -> str:
    """A document as TOML: one table with all others inline; what TOML has no word for becomes text."""
    if isinstance(held, dict):
        rows = [f"{spelled(str(key))} = {inline(value)}" for key, value in held.items()]
        return "\n".join(rows)
    return inline(held)


def inline(held: Any) -> str:
    if isinstance(held, dict):
        return "{ " + ", ".join(f"{inline(str(k))} = {inline(v)}" for k, v in held.items()) + " }"
    if isinstance(held, list):
        return f"[{', '.join(map(inline, held))}]"
    if isinstance(held, bool):
        return str(held).lower()
    if isinstance(held, int):
        return str(held)
    if isinstance(held, float):
        return repr(held) if math.isfinite(held) else "nan"
    escaped = (f"\\U{ord(char):08x}" for char in str(held) if not 0xD800 <= ord(char) < 0xE000)
    return f'"{"".join(escaped)}"'


def test_records_cannot_be_changed() -> None:
    device = devices.find("tx2")
    with pytest.raises(dataclasses.FrozenInstanceError):
        device.title = "x"  # type: ignore[misc]
