"""What fails in the middle leaves a gap in its own channel, with the reason, and nothing else."""

from __future__ import annotations

import errno
import os
import struct
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from wattstep.record.sampling import child
from wattstep.record.sampling.plan import make_plan
from wattstep.record.sensors import is_asleep, probe_all, read_text
from wattstep.schema.channel import Absent, Present

PER_SECOND = 100
CPU = "sys/devices/system/cpu"
BOARD = {
    "sys/class/thermal/thermal_zone0/type": "CPU-therm\n",
    "sys/class/thermal/thermal_zone0/temp": "41500\n",
    "sys/class/thermal/thermal_zone1/type": "GPU-therm\n",
    "sys/class/thermal/thermal_zone1/temp": "39000\n",
    "sys/devices/gpu.0/load": "250\n",
    "sys/class/devfreq/57000000.gpu/cur_freq": "921600000\n",
    "sys/class/hwmon/hwmon3/name": "soctherm_oc\n",
    "sys/class/hwmon/hwmon3/oc1_event_cnt": "7\n",
    f"{CPU}/cpu1/cpufreq/scaling_cur_freq": "1200000\n",
}
ZONE, GPU_ZONE = "thermal.cpu_therm", "thermal.gpu_therm"
Values = Mapping[str, float | int]


class Ticking:
    """The child's own reads of a tree, in this process, so that a test decides on the ticks."""

    def __init__(self, root: Path, folder: Path) -> None:
        found = {
            name: part for name, part in probe_all(root, 1).items() if isinstance(part, Present)
        }
        plan = make_plan(found, 1 / PER_SECOND)
        self.reads = {
            read.channels[0].name: child.Read(number, entry, [], str(folder))
            for number, (read, entry) in enumerate(zip(plan.reads, plan.entries, strict=True))
            if read.parser != "self"
        }

    def tick(self, times: int = 1) -> dict[str, tuple[int, int]]:
        """Error number and value of each read, of the last of so many ticks."""
        for tick in range(times):
            for read in self.reads.values():
                read.take(tick, PER_SECOND)
        rows = {
            name: struct.unpack("<3q", read.journal.rows[-1]) for name, read in self.reads.items()
        }
        return {name: (row[1], row[2]) for name, row in rows.items()}

    def values(self, name: str) -> list[int]:
        return [struct.unpack("<3q", row)[2] for row in self.reads[name].journal.rows]

    def close(self) -> None:
        for read in self.reads.values():
            for fd in (*read.fds, read.journal.fd):
                os.close(fd)


@contextmanager
def ticking(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ticking]:
    one = Ticking(root, tmp_path_factory.mktemp("journal"))
    try:
        yield one
    finally:
        one.close()


def replaced(path: Path, target: str) -> None:
    """Puts a link in the place of a file."""
    path.unlink()
    path.symlink_to(target)


WELL = {
    ZONE: (0, 41500),
    GPU_ZONE: (0, 39000),
    "gpu.utilization": (0, 250),
    "gpu.frequency": (0, 921600000),
    "throttling.oc1": (0, 7),
    "cpu1.frequency": (0, 1200000),
}


def test_a_board_that_is_well_has_every_value(tree, tmp_path_factory):
    with ticking(tree(BOARD), tmp_path_factory) as board:
        assert board.tick() == WELL


def test_an_input_output_error_is_a_gap_in_one_channel(tree, tmp_path_factory):
    root = tree(BOARD)
    # The first bytes of a process's memory: the kernel itself answers EIO.
    replaced(root / "sys/class/thermal/thermal_zone1/temp", "/proc/self/mem")
    with ticking(root, tmp_path_factory) as board:
        assert board.tick() == WELL | {GPU_ZONE: (errno.EIO, child.MISSING)}


def test_a_unit_that_is_powered_down_is_a_gap_without_an_error(tree, tmp_path_factory):
    root = tree(BOARD)
    with ticking(root, tmp_path_factory) as board:
        tree({"sys/class/thermal/thermal_zone1/temp": "-256000\n"})
        assert board.tick() == WELL | {GPU_ZONE: (0, child.MISSING)}
        tree({"sys/class/thermal/thermal_zone1/temp": "38500\n"})
        assert board.tick() == WELL | {GPU_ZONE: (0, 38500)}


def test_a_sensor_that_disappears_in_the_middle_comes_back(tree, tmp_path_factory):
    root = tree(BOARD)
    path = root / f"{CPU}/cpu1/cpufreq/scaling_cur_freq"
    # A file of the kernel that holds an integer and fails once its device, a process, is gone.
    device = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    replaced(path, f"/proc/{device.pid}/oom_score_adj")
    score = int(path.read_text())
    with ticking(root, tmp_path_factory) as board:
        assert board.tick() == WELL | {"cpu1.frequency": (0, score)}
        device.communicate(b"\n")
        assert board.tick() == WELL | {"cpu1.frequency": (errno.ESRCH, child.MISSING)}
        path.unlink()
        path.write_text("345600\n")
        assert board.tick(child.PATIENCE - 1) == WELL | {
            "cpu1.frequency": (errno.ESRCH, child.MISSING)
        }
        assert board.tick() == WELL | {"cpu1.frequency": (0, 345600)}


def test_a_counter_that_starts_again_is_kept_as_it_is(tree, tmp_path_factory):
    # What a fall means is decided where the record is read; the child loses nothing of it.
    root = tree(BOARD)
    with ticking(root, tmp_path_factory) as board:
        for value in (7, 9, 0, 3):
            tree({"sys/class/hwmon/hwmon3/oc1_event_cnt": f"{value}\n"})
            board.tick()
        assert board.values("throttling.oc1") == [7, 9, 0, 3]


def test_half_a_number_or_none_is_a_gap(tree, tmp_path_factory):
    root = tree(BOARD)
    with ticking(root, tmp_path_factory) as board:
        for text in ("", "\n", "25 0", "0x19", "<unknown>"):
            tree({"sys/devices/gpu.0/load": text})
            assert board.tick() == WELL | {"gpu.utilization": (errno.EINVAL, child.MISSING)}


def test_a_right_that_is_missing_hides_one_channel_only(open_folder, unprivileged):
    for name, text in BOARD.items():
        path = open_folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (open_folder / "sys/class/thermal/thermal_zone1/temp").chmod(0)
    with unprivileged():
        found = probe_all(open_folder, 1)
    reads = [read for part in found.values() if isinstance(part, Present) for read in part.reads]
    assert {channel.name for read in reads for channel in read.channels} == set(WELL) - {GPU_ZONE}


def test_a_file_that_answers_try_again_is_a_reason_and_no_crash(tmp_path, monkeypatch):
    # Python's own files give None for EAGAIN, which made a GPU that is off look like our mistake.
    path = tmp_path / "temp"
    path.write_text("40000\n")

    def again(fd: int, size: int) -> bytes:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(os, "read", again)
    assert read_text(path) == Absent(reason=f"{path}: resource temporarily unavailable")
    assert is_asleep(path)


@pytest.mark.parametrize("name", ["missing", "folder", "file"])
def test_what_is_not_there_is_not_asleep(tmp_path, name):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("1\n")
    assert not is_asleep(tmp_path / name)
