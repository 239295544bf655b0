"""Recorded trees are read without loss: every file of an archive is a channel, a description, or left out by name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.sensors.conftest import RECORDINGS, read_once

from wattstep.record.sensors import probe_all
from wattstep.record.sensors.throttling import throttling_parts
from wattstep.schema.channel import Absent, Present

# Counted by hand in the archives, kind by kind: node_exporter, procfs.
MEASURED = {
    r"powercap/intel-rapl:\w+(:\d+)?/energy_uj": (2, 3),
    r"hwmon\d+/temp\d+_input": (15, 0),
    r"hwmon\d+/(power|energy)\d+_(input|average)": (0, 0),
    r"hwmon\d+/fan\d+_input": (1, 0),
    r"hwmon\d+/pwm\d+": (0, 0),
    r"thermal_zone\d+/temp": (1, 2),
    r"cpu\d+/cpufreq/scaling_cur_freq": (4, 0),
    r"power_supply/BAT\d+/(power|energy)_now": (2, 2),
    r"cooling_device\d+/cur_state": (0, 2),
}
# What tells how a value is to be taken.
DESCRIBING = (
    r"hwmon\d+/(name|temp\d+_label)",
    r"power_supply/\w+/(type|status)",
    r"intel-rapl:[\w:]+/(name|max_energy_range_uj)",
    r"(thermal_zone|cooling_device)\d+/type",
)
# Left out on purpose: voltages and clocks of chips (which pairs make a power is known only by
# board), what the kernel does not define, settings, and what follows from values that are read.
LEFT_OUT = (
    r"hwmon\d+/(in|curr|freq)\d+_(input|label)",
    r"hwmon\d+/bogus\d+_(input|label)",
    r"intel-rapl[\w:]*/enabled",
    r"thermal_zone\d+/(policy|mode|passive)",
    r"cooling_device\d+/max_state",
    r"power_supply/AC/online",
    r"power_supply/BAT\d+/(capacity|capacity_level|energy_full|energy_full_design|present"
    r"|technology|voltage_min_design|voltage_now)",
)


def contents(archive: Path) -> dict[str, str]:
    """Path and text of the files of one line, from the archive's own text."""
    found = re.findall(r"^Path: (.+)\nLines: 1\n(.*)\n", archive.read_text(), re.MULTILINE)
    assert len(found) == len(re.findall(r"^Lines: ", archive.read_text(), re.MULTILINE))
    return dict(found)


def is_one_of(path: str, patterns: tuple[str, ...]) -> bool:
    return any(re.search(f"/{pattern}$", path) for pattern in patterns)


def values_read(root: Path) -> dict[Path, int]:
    """Raw values of all sensors by the real path of their file."""
    return {
        Path(read.path).resolve(): read_once(read)[0]
        for found in probe_all(root, 1).values()
        if isinstance(found, Present)
        for read in found.reads
    }


TREES = [("node_exporter", "", 0), ("procfs", "fixtures/", 1)]


@pytest.mark.parametrize(("name", "prefix", "column"), TREES)
def test_every_value_of_a_recorded_tree_is_a_channel_that_shows_it(name, prefix, column, request):
    root = request.getfixturevalue(name)
    read = values_read(root)
    texts = contents(RECORDINGS / f"{name}.ttar")
    for pattern, counts in MEASURED.items():
        matching = {path: text for path, text in texts.items() if is_one_of(path, (pattern,))}
        assert len(matching) == counts[column], pattern
        for path, text in matching.items():
            value = read[(root / path.removeprefix(prefix)).resolve()]
            # Idle injection says -1 when it injects nothing, which is no step of cooling.
            idle = path.endswith("cooling_device2/cur_state")
            assert value == (0 if idle else int(text)), path
    assert len(read) == sum(counts[column] for counts in MEASURED.values())


@pytest.mark.parametrize(("name", "prefix", "column"), TREES)
def test_every_file_of_a_recorded_tree_is_accounted_for(name, prefix, column):
    rest = {
        path
        for path in contents(RECORDINGS / f"{name}.ttar")
        if not is_one_of(path, (*MEASURED, *DESCRIBING, *LEFT_OUT))
    }
    assert rest == set()


def test_a_device_whose_files_are_not_recorded_has_a_reason(node_exporter):
    # cooling_device0 is a link whose target the archive does not hold.
    parts = list(throttling_parts(node_exporter))
    assert [type(part) for part in parts] == [Absent]
    assert isinstance(parts[0], Absent)
    assert "cooling_device0" in parts[0].reason


def test_every_energy_zone_of_a_recorded_processor_counts_once(procfs):
    # Package 0, the cores inside it, and package 10, whose folder is called "a".
    found = probe_all(procfs, 1)["rapl"]
    assert isinstance(found, Present)
    paths = [Path(read.path).resolve() for read in found.reads]
    assert len(paths) == len(set(paths)) == 3
