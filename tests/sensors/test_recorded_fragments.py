"""Fragments of sysfs that are public text, as the sensors see them: every reading in is a value out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from wattstep.record.sensors.android.decode import decode
from wattstep.record.sensors.android.look import Answer, Dump
from wattstep.record.sensors.android.sections import frequency, memory
from wattstep.record.sensors.ina3221 import PowerRails
from wattstep.record.sensors.tegra_gpu import TegraGpu
from wattstep.record.sensors.thermal import ThermalZones
from wattstep.schema.channel import Absent

FIXTURES = Path(__file__).parent.parent / "fixtures"
ZONE = "sys/class/thermal/thermal_zone"
CPU = "/sys/devices/system/cpu/cpufreq"


def fragment(words: str) -> str:
    """The lines below the comment that holds these words, up to the next comment."""
    text = (FIXTURES / "jetson/fragments.txt").read_text()
    (found,) = (part for part in text.split("\n# --- ") if words in part.partition("\n")[0])
    return found.partition("\n")[2]


def zones(text, pattern):
    """A tree of thermal zones: name and °C of each line that the pattern fits."""
    lines = re.findall(pattern, text, re.MULTILINE)
    tree = {}
    for number, (name, degrees) in enumerate(lines):
        tree[f"{ZONE}{number}/type"] = f"{name}\n"
        tree[f"{ZONE}{number}/temp"] = f"{round(float(degrees) * 1000)}\n"
    return tree, [float(degrees) for _, degrees in lines]


def channels(found):
    return [channel for read in found.reads for channel in read.channels]


def test_a_chip_of_which_nothing_can_be_read_gives_no_value(tree):
    lines = re.findall(r"^1-0041 (\S+): (.*)$", fragment("alumet#212"), re.MULTILINE)
    assert len(lines) == 7
    chip = "sys/bus/i2c/devices/1-0041"
    root = tree({f"{chip}/{name}": f"{text}\n" for name, text in lines if "<read" not in text})
    for name, _ in lines:
        if not (root / chip / name).exists():
            (root / chip / name).mkdir(parents=True)  # a read of it fails
    (root / chip / "hwmon/hwmon2/name").write_text("ina3221\n")
    assert isinstance(PowerRails().probe(root, 1), Absent)


def test_of_a_tx1_s_gpu_the_load_comes_out_and_settings_are_no_clocks(tree, measure):
    files = dict(re.findall(r"^(\w+): (.*)$", fragment("gpu.0 directory"), re.MULTILINE))
    assert len(files) == 6
    root = tree({f"sys/devices/gpu.0/{name}": f"{text}\n" for name, text in files.items()})
    assert measure(TegraGpu().probe(root, 1)) == {"gpu.utilization": int(files["load"]) / 1000}


def test_every_clock_of_a_nano_that_jetson_clocks_shows_comes_out(tree, measure):
    shown = re.search(
        r"GPU MinFreq=(\d+) MaxFreq=(\d+) CurrentFreq=(\d+)", fragment("jetson_clocks")
    )
    assert shown is not None
    _, highest, current = shown.groups()
    folder = "sys/class/devfreq/57000000.gpu"
    root = tree({f"{folder}/cur_freq": current, f"{folder}/max_freq": highest})
    assert measure(TegraGpu().probe(root, 1)) == {
        "gpu.frequency": 153_600_000, "gpu.frequency_cap": 921_600_000,
    }  # fmt: skip


def test_every_temperature_of_a_tx2_comes_out_and_no_limit_below_zero(tree, measure):
    text = fragment("TX2 lm-sensors")
    files, degrees = zones(text, r"^(\S+?)-virtual-0 temp1 input=([\d.]+)")
    assert len(degrees) == text.count("input=") == 6
    limits = re.findall(r"(\S+)-virtual-0 .* crit=(-?\d+)", text)
    assert ("GPU-therm", "-40") in limits
    for number, name in enumerate(re.findall(r"^(\S+?)-virtual", text, re.MULTILINE)):
        for zone, limit in limits:
            if zone == name:
                files[f"{ZONE}{number}/trip_point_0_type"] = "passive\n"
                files[f"{ZONE}{number}/trip_point_0_temp"] = f"{limit}000\n"
    found = ThermalZones().probe(tree(files), 1)
    values = measure(found)
    assert len(values) == 6
    assert sum(values.values()) == pytest.approx(sum(degrees)) == 115.35
    kept = [channel.limit for channel in channels(found) if channel.limit is not None]
    assert sorted(kept) == [101, 101, 107, 107]


def test_every_temperature_of_a_thor_comes_out_and_its_sleeping_gpu_is_a_gap(tree, measure):
    text = fragment("status screen")
    files, degrees = zones(text, r"^(\S+)-thermal ([\d.]+)C")
    assert (len(degrees), text.count("-thermal")) == (4, 5)
    files[f"{ZONE}9/type"] = "gpu-thermal\n"
    root = tree(files)
    (root / f"{ZONE}9/temp").mkdir()  # a read of it fails
    values = measure(ThermalZones().probe(root, 1))
    assert "thermal.gpu_thermal" not in values
    assert sorted(values.values()) == sorted(degrees)
    assert sum(values.values()) == pytest.approx(217.6)


def test_every_rail_of_a_thor_comes_out_and_one_below_zero_stays_there(tree, measure):
    rails = re.findall(r"^(V\w+) ([\d.]+) W$", fragment("status screen"), re.MULTILINE)
    assert len(rails) == 3
    (negative,) = re.findall(r"VDD_GPU can read NEGATIVE \((-\d+) mW", whole())
    folder = "sys/class/hwmon/hwmon5"
    files = {f"{folder}/name": "ina3221\n"}
    watts = {f"rail.{label.lower()}": float(text) for label, text in rails}
    watts["rail.vdd_gpu"] = int(negative) / 1000
    for number, (label, _) in enumerate(rails, 1):  # at 1 V, so many mA as it has mW
        files[f"{folder}/in{number}_label"] = f"{label}\n"
        files[f"{folder}/in{number}_input"] = "1000\n"
        milli = round(watts[f"rail.{label.lower()}"] * 1000)
        files[f"{folder}/curr{number}_input"] = f"{milli}\n"
    values = measure(PowerRails().probe(tree(files), 1))
    assert sorted(values.values()) == pytest.approx([-0.392, 6.51, 6.52])


def whole() -> str:
    return (FIXTURES / "jetson/fragments.txt").read_text()


# --- a Galaxy S24: what a monitor showed of its clocks, and its memory -------------------------


def values_of(parts, texts):
    return [
        raw * channel.scale
        for part in parts
        if not isinstance(part, Absent)
        for channel, raw in zip(
            part.channels, decode(part.decoder, part.arguments, texts[part.argument]), strict=True
        )
    ]


def test_every_clock_of_a_phone_and_its_limit_come_out():
    text = (FIXTURES / "phone/gpu_load.txt").read_text()
    shown = re.findall(r"^policy(\d),(\d+),(\d+)$", text, re.MULTILINE)
    assert len(shown) == 4
    texts = {}
    for policy, current, highest in shown:
        texts[f"{CPU}/policy{policy}/related_cpus"] = policy  # of its cores, the first
        texts[f"{CPU}/policy{policy}/scaling_cur_freq"] = current
        texts[f"{CPU}/policy{policy}/cpuinfo_max_freq"] = highest
    dump = Dump(answers={path: Answer(text=value, status=0) for path, value in texts.items()})
    parts = list(frequency(dump))
    assert values_of(parts, texts) == [int(current) * 1000 for _, current, _ in shown]
    limits = [c.limit for part in parts if not isinstance(part, Absent) for c in part.channels]
    assert limits == [int(highest) * 1000 for _, _, highest in shown]
    assert sum(limits) == 10_658_000_000


def test_every_line_of_a_phone_s_memory_comes_out():
    text = (FIXTURES / "phone/gpu_load.txt").read_text()
    lines = "".join(re.findall(r"^\w+: +\d+ kB\n", text, re.MULTILINE))
    assert lines.count("\n") == 2
    dump = Dump(answers={"/proc/meminfo": Answer(text=lines, status=0)})
    values = values_of(memory(dump), {"/proc/meminfo": lines})
    assert sorted(values) == [8388604 * 1024, 11350704 * 1024]
