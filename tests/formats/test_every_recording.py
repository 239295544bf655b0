"""Recordings that are public text: every line and every row in, every number out, sums by text alone."""

from __future__ import annotations

import csv
import math
import re
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from wattstep.formats import nvidia_smi, tegrastats
from wattstep.formats.gpu_load import parse_gpubusy, parse_percent

FIXTURES = Path(__file__).parent.parent / "fixtures"
MEBI = 2**20


def published(path: str) -> list[str]:
    """The lines of a fixture; those with # are comments of ours."""
    lines = (FIXTURES / path).read_text().splitlines()
    return [line for line in lines if not line.startswith("#")]


# --- tegrastats: boards from TX1 to AGX Orin ---------------------------------------------------

LINES = published("jetson/lines.txt")
IDS = re.findall(r"(?m)^# id=(\S+)", (FIXTURES / "jetson/lines.txt").read_text())
NUMBER = r"-?\d+(?:\.\d+)?"
# Numbers that are of no use, by the board's id: load of the memory without its clock, parts that
# are off, second temperatures that nobody documents.
OF_NO_USE = {
    "tx2-l4t32-new-labels": 1, "nano-a": 1, "nano-b": 1, "agx-orin64-jp5-nc": 4,
    "agx-orin64-jp7.2": 4,
}  # fmt: skip


def by_unit(line: str) -> dict[str, list[float]]:
    """Numbers of a line in SI units, told apart by the characters around them."""
    pairs = [float(x) for pair in re.findall(r"(\d+)/(\d+)MB", line) for x in pair]
    single = [float(x) for x in re.findall(r"(?:x|cached )(\d+)MB", line)]
    watts = re.findall(rf" [A-Z]\w* ({NUMBER}(?:mW)?(?:/{NUMBER}(?:mW)?)+)(?= |$)", line)
    found = re.findall(r"%@(\d+)|%@\[([\d,]+)\]| (?:APE|VIC_FREQ) (\d+)", line)
    clocks = ["".join(groups) for groups in found]
    shared = re.search(r"cpu \[([^]]*)\]@(\d+)", line)  # the first boards have one for all cores
    if shared:
        clocks += [shared[2]] * len(shared[1].split(","))
    percents = re.findall(r"(\d+)%", line.replace("EMC_FREQ 0% ", ""))
    celsius = [float(x) for x in re.findall(rf"\w@({NUMBER})C", line)]
    return {
        "B": [x * MEBI for x in pairs + single],
        "blocks": [float(x) for x in re.findall(r"lfb (\d+)x", line)],
        "ratio": [float(x) / 100 for x in percents],
        "Hz": [float(x) * 1e6 for clock in clocks for x in clock.split(",")],
        "°C": [x for x in celsius if x > -256],
        "W": [float(x.removesuffix("mW")) / 1000 for each in watts for x in each.split("/")],
    }


def test_every_line_has_its_source() -> None:
    assert len(LINES) == len(IDS) == len(set(IDS)) == 13


@pytest.mark.parametrize(("name", "line"), list(zip(IDS, LINES, strict=True)), ids=IDS)
def test_every_number_of_every_published_line_is_a_value_or_is_counted(
    name: str, line: str
) -> None:
    recording = tegrastats.parse(f"{line}\n".encode())
    got: dict[str, list[float]] = defaultdict(list)
    for channel in recording.channels:
        column = recording.value[channel.name]
        got[channel.unit] += [float(value) for value in column if math.isfinite(value)]
    expected = {unit: values for unit, values in by_unit(line).items() if values}
    assert {unit: len(values) for unit, values in got.items() if values} == {
        unit: len(values) for unit, values in expected.items()
    }
    for unit, values in expected.items():
        assert math.fsum(got[unit]) == pytest.approx(math.fsum(values), rel=1e-12), unit
    assert sum(recording.ignored.values()) == OF_NO_USE.get(name, 0)
    # And no number of the text stands outside of all these.
    body = re.sub(r"^\d\d-\d\d-\d{4} \d\d:\d\d:\d\d ", "", line)
    loose = re.findall(rf"(?<![\w.])(?:{NUMBER})|(?<=\dx)\d+|(?<=@){NUMBER}|(?<=@\[)\d+", body)
    shared = re.search(r"cpu \[([^]]*)\]@", line)
    repeated = shared[1].count(",") if shared else 0
    assert recording.values + OF_NO_USE.get(name, 0) == len(loose) + repeated


# --- a V100 in training ------------------------------------------------------------------------


def test_every_cell_of_a_v100_s_table_is_a_value() -> None:
    data = (FIXTURES / "nvidia/v100.csv").read_bytes()
    rows = list(csv.DictReader(data.decode().splitlines(), skipinitialspace=True))
    assert len(rows) == data.count(b"\n") - 1 == 17
    recording = nvidia_smi.parse(data)
    assert recording.values == len(re.findall(rb"\d (?:%|MiB)", data)) == 17 * 5
    assert sum(recording.ignored.values()) == 0
    columns = {
        "gpu0.utilization": ("utilization.gpu [%]", 0.01),
        "gpu0.memory_controller_utilization": ("utilization.memory [%]", 0.01),
        "gpu0.memory_total": ("memory.total [MiB]", MEBI),
        "gpu0.memory_used": ("memory.used [MiB]", MEBI),
        "gpu0.memory_free": ("memory.free [MiB]", MEBI),
    }
    assert set(recording.value) == set(columns)
    for name, (column, scale) in columns.items():
        total = sum(int(row[column].split()[0]) for row in rows)
        assert recording.value[name].sum() == pytest.approx(total * scale, rel=1e-12), name
    seconds = [sum(map(float.__mul__, (3600.0, 60.0, 1.0), clock)) for clock in map(clock_of, rows)]
    np.testing.assert_allclose(
        np.diff(recording.t_ns["gpu0.utilization"]) * 1e-9, np.diff(seconds), atol=1e-6
    )


def clock_of(row: dict[str, str]) -> list[float]:
    return [float(part) for part in row["timestamp"].split()[1].split(":")]


# --- loads of phones' GPUs ---------------------------------------------------------------------


def test_the_loads_of_two_phones_come_out() -> None:
    idle, exynos = published("phone/gpu_load.txt")[:2]
    found = parse_gpubusy(idle)
    assert [found.busy_us, found.total_us] == [int(x) for x in idle.split()] == [0, 0]
    assert found.share is None  # it was powered down: no window, and not 0 %
    assert parse_percent(exynos) == int(exynos.split()[0]) / 100 == 0.13
