"""A real command in place of NVIDIA's: one that prints recorded lines, dies, hangs, or prints garbage."""

from __future__ import annotations

import errno
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from wattstep.record.sensors.ina3221 import PowerRails
from wattstep.record.sensors.tegrastats import Tegrastats, make_source
from wattstep.schema.channel import Absent, Present, SensorRead
from wattstep.schema.journal import MISSING

LOG = Path(__file__).parent.parent / "fixtures/jetson/xavieragx_16gb__all.tegrastats"
LINES = [line.split("::")[1] for line in LOG.read_text().splitlines()]

Install = Callable[[str], Path]
Row = tuple[int, int, Sequence[int] | None]


@pytest.fixture
def install(tmp_path: Path) -> Install:
    """A function that writes a tegrastats below a root: a script that knows the file `lines`."""

    def write(script: str) -> Path:
        command = tmp_path / "usr/bin/tegrastats"
        command.parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "lines").write_text("\n".join(LINES) + "\n")
        command.write_text(f"#!/bin/sh\ncd '{tmp_path}'\n{script}\n")
        command.chmod(0o755)
        model = tmp_path / "proc/device-tree/model"
        model.parent.mkdir(parents=True, exist_ok=True)
        model.write_text("NVIDIA Jetson AGX Xavier Developer Kit\0")
        return tmp_path

    return write


def only_read(found: Present | Absent) -> SensorRead:
    assert isinstance(found, Present), found
    assert len(found.reads) == 1
    return found.reads[0]


def rows_of(read: SensorRead, *, most: int, seconds: float = 5.0) -> list[Row]:
    """What the feed gives until there are so many rows, or the time is over."""
    rows: list[Row] = []
    stop = threading.Event()

    def emit(position: int, t_ns: int, code: int, values: Sequence[int] | None) -> None:
        assert position == 0
        rows.append((t_ns, code, values))
        if len(rows) >= most:
            stop.set()

    timer = threading.Timer(seconds, stop.set)
    timer.start()
    try:
        make_source(**read.push_settings, period_s=0.02).run(emit, stop)
    finally:
        timer.cancel()
    return rows


def test_recorded_lines_come_out_as_integers_of_the_channels(install: Install) -> None:
    root = install('printf "%s" "$*" > asked; cat lines; sleep 20')
    read = only_read(Tegrastats().probe(root, 1))
    before = time.monotonic_ns()
    rows = rows_of(read, most=len(LINES))
    names = [channel.name for channel in read.channels]
    at = {name: names.index(name) for name in names}
    assert len(rows) == len(LINES)
    assert (root / "asked").read_text() == "--interval 20"
    by_hand = [int(line.split(" CPU ")[2].split("/")[0]) for line in LINES]  # in mW, as recorded
    assert [values[at["rail.cpu"]] for _, _, values in rows if values] == by_hand
    assert all(before <= t_ns <= time.monotonic_ns() for t_ns, _, _ in rows)
    scale = {channel.name: channel.scale for channel in read.channels}
    first = rows[0][2]
    assert first is not None
    assert first[at["memory.frequency"]] * scale["memory.frequency"] == 2133e6
    assert first[at["thermal.thermal"]] * scale["thermal.thermal"] == pytest.approx(30.95)
    assert first[at["system.used_memory"]] * scale["system.used_memory"] == 2086 * 2**20


def test_the_total_is_that_of_the_board(install: Install) -> None:
    read = only_read(Tegrastats().probe(install("cat lines; sleep 20"), 1))
    totals = [channel.name for channel in read.channels if channel.role == "power_total"]
    assert totals == [f"rail.{rail}" for rail in ("gpu", "cpu", "soc", "cv", "vddrq", "sys5v")]


def test_rails_are_called_and_meant_as_those_of_files(
    install: Install, board_tree: Callable[[str], Path]
) -> None:
    files = PowerRails().probe(board_tree("jetson-agx-xavier"), 1)
    assert isinstance(files, Present)
    from_files = {(c.name, c.domain, c.role) for read in files.reads for c in read.channels}
    read = only_read(Tegrastats().probe(install("cat lines; sleep 20"), 1))
    own = {(c.name, c.domain, c.role) for c in read.channels if c.role == "power_total"}
    assert own == from_files


def test_what_files_give_is_not_read_twice(install: Install) -> None:
    root = install("cat lines; sleep 20")
    for name in (
        "proc/meminfo",
        "sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq",
        "sys/class/thermal/thermal_zone0/temp",
        "sys/devices/gpu.0/load",
    ):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("1\n")
    read = only_read(Tegrastats().probe(root, 1))
    kinds = {channel.name.split(".")[0] for channel in read.channels}
    assert kinds == {"memory", "ape", "mts", "rail", "tegrastats"}


@pytest.mark.parametrize(
    "name", ["sys/bus/i2c/drivers/ina3221x/1-0040/name", "sys/class/hwmon/hwmon3/name"]
)
def test_rails_as_files_make_it_unneeded(install: Install, name: str) -> None:
    root = install("echo must not run > ran; cat lines; sleep 20")
    (root / name).parent.mkdir(parents=True)
    (root / name).write_text("ina3221\n")
    found = Tegrastats().probe(root, 1)
    assert found == Absent(reason="not needed: the power rails are read directly")
    assert not (root / "ran").exists()


def test_a_rail_with_a_monitor_of_its_own_comes_once(install: Install) -> None:
    root = install(
        "for i in 1 2 3 4 5 6; do echo 'RAM 1/2MB VIN_SYS_5V0 5mW/6mW VIN 7mW/8mW'; done; sleep 20"
    )
    (root / "proc/device-tree/model").unlink()
    (root / "proc/device-tree/compatible").write_text(
        "nvidia,p3971-0089+p3834-0008\0nvidia,tegra264\0"
    )
    names = {c.name for c in only_read(Tegrastats().probe(root, 1)).channels}
    assert {"rail.vin", "rail.vin_sys_5v0"} <= names
    monitor = root / "sys/class/hwmon/hwmon0"
    monitor.mkdir(parents=True)
    for name, text in (("name", "ina238"), ("power1_input", "7000"), ("in1_input", "9000")):
        (monitor / name).write_text(f"{text}\n")
    files = PowerRails().probe(root, 1)
    assert isinstance(files, Present)
    from_files = {c.name for read in files.reads for c in read.channels}
    own = {c.name for c in only_read(Tegrastats().probe(root, 1)).channels}
    assert from_files == {"rail.vin"}
    assert names - own == {"rail.vin", "rail.vin.mean"}


def test_loads_of_units_that_are_off_at_first_are_recorded_later(install: Install) -> None:
    root = install(
        "echo 'RAM 1/2MB GR3D_FREQ off NVENC off VIC 5%@100 VDD_IN 1mW/2mW';"
        "echo 'RAM 1/2MB NVENC off VIC off VDD_IN 1mW/2mW APE 150'; sleep 2;"
        "echo 'RAM 1/2MB GR3D_FREQ 7%@921 NVENC 8%@300 VIC off VDD_IN 1mW/2mW NVDEC 9%@200'; sleep 20"
    )
    read = only_read(Tegrastats().probe(root, 1))
    names = [channel.name for channel in read.channels]
    assert len(set(names)) == len(names)
    assert "ape.frequency" in names
    (_, _, first), (_, _, second), (_, _, last) = rows_of(read, most=3)
    assert first is not None
    assert second is not None
    assert last is not None
    for name, raw in (
        ("gpu.utilization", 700), ("gpu.frequency", 921_000), ("nvenc.utilization", 800),
        ("tegrastats.unrecorded_values", 2),
    ):  # fmt: skip
        assert last[names.index(name)] == raw
    at = names.index("gpu.utilization")
    assert (first[at], second[at]) == (MISSING, MISSING)
    assert "came only later" in read.channels[-1].note


def test_without_the_command_the_reason_is_said(tmp_path: Path) -> None:
    found = Tegrastats().probe(tmp_path, 1)
    assert found == Absent(reason="there is no tegrastats: only Jetsons have it")


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("exit 3", "does not run"),
        ("echo command not found", "not understood"),
        ("exit 0", "said nothing"),
    ],
)
def test_a_command_that_tells_nothing_is_absent(install: Install, script: str, reason: str) -> None:
    found = Tegrastats().probe(install(script), 1)
    assert isinstance(found, Absent)
    assert reason in found.reason


def test_a_garbled_line_is_a_gap_and_nothing_else(install: Install) -> None:
    root = install("head -n 2 lines; echo 'RAM 1/2MB VDD_IN 5/'; tail -n 1 lines; sleep 20")
    rows = rows_of(only_read(Tegrastats().probe(root, 1)), most=4)
    assert [code for _, code, _ in rows] == [0, 0, errno.EBADMSG, 0]
    assert rows[2][2] is None
    assert rows[3][2] is not None


def test_a_core_or_rail_that_goes_away_is_a_gap_in_its_channel(install: Install) -> None:
    root = install(
        "head -n 1 lines; head -n 1 lines | sed 's/ SYS5V .*//; s/CPU .0%@2265/CPU [off/'; sleep 20"
    )
    read = only_read(Tegrastats().probe(root, 1))
    rows = rows_of(read, most=2)
    names = [channel.name for channel in read.channels]
    first, second = rows[0][2], rows[1][2]
    assert first is not None
    assert second is not None
    lost = {name for name, now in zip(names, second, strict=True) if now == MISSING}
    assert lost == {"rail.sys5v", "rail.sys5v.mean", "cpu0.utilization", "cpu0.frequency"}
    assert MISSING not in first


def test_a_command_that_dies_is_an_error_after_its_rows(install: Install) -> None:
    root = install("head -n 3 lines; exit 3")
    read = only_read(Tegrastats().probe(root, 1))
    with pytest.raises(OSError, match="ended with 3"):
        rows_of(read, most=10)


def test_a_line_that_is_cut_when_the_command_ends_is_no_row(install: Install) -> None:
    root = install("head -n 2 lines; tail -n 1 lines | head -c 100")
    assert len(rows_of(only_read(Tegrastats().probe(root, 1)), most=10)) == 2


def test_a_command_that_hangs_is_ended(install: Install) -> None:
    root = install("echo $$ > pid; head -n 1 lines; exec sleep 600")
    read = only_read(Tegrastats().probe(root, 1))
    rows = rows_of(read, most=10, seconds=0.5)
    assert len(rows) == 1
    assert not Path(f"/proc/{(root / 'pid').read_text().strip()}").exists()
