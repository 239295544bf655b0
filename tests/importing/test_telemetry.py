"""Logs of sensors as one set of samples: nothing lost, nothing twice."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.refusals import refused
from tests.wording import assert_says

from wattstep.errors import InvalidValueError
from wattstep.importing.clocks.alignment import from_offset
from wattstep.importing.telemetry import Telemetry, mapped, merge, merged, read_telemetry


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def csv(path: Path, rows: list[tuple[float, float]], head: str = "t_s,power [W]") -> Path:
    return write(path, head + "\n" + "".join(f"{t},{value}\n" for t, value in rows))


def read(*paths: Path) -> tuple[Telemetry, ...]:
    return read_telemetry(paths)


def test_formats_are_known_by_their_contents(tmp_path: Path) -> None:
    meter = write(tmp_path / "a.txt", "Time (ms);Voltage [V];Current (mA)\n0;5.0;500\n1;5.0;1000\n")
    plain = csv(tmp_path / "b", [(0, 4.5), (1, 5)], "t_s,gpu [W]")
    found = {log.file: log.recording.format for log in read(meter, plain)}
    assert found == {"a.txt": "power meter", "b": "plain CSV"}
    power = read(meter)[0].recording
    assert [(c.name, c.unit, c.role) for c in power.channels] == [
        ("meter.power", "W", "power_total"),
        ("meter.voltage", "V", "unknown"),
        ("meter.current", "A", "unknown"),
    ]
    assert power.value["meter.power"].tolist() == [2.5, 5.0]
    packed = tmp_path / "a.gz"
    packed.write_bytes(gzip.compress(meter.read_bytes()))
    assert read(packed)[0].recording.value["meter.power"].tolist() == [2.5, 5.0]
    packed.write_bytes(gzip.compress(meter.read_bytes())[:-12])
    with refused("unreadable-telemetry", "a.gz"):
        read(packed)


@pytest.mark.parametrize(
    ("text", "id", "named"),
    [
        ("", "unreadable-telemetry", "power meter, plain CSV"),
        ("t_s,power [W]\n0,\n", "no-values", "plain CSV"),
        ("time_s,power_W\n0,1\n1,x\n", "unreadable-telemetry", "line 3"),
        ("t_s,power [W]\n2,1\n1,1\n", "unreadable-telemetry", "line 3"),
    ],
)
def test_what_cannot_be_read_names_its_file(tmp_path: Path, text: str, id: str, named: str) -> None:
    with refused(id, "--telemetry odd.csv: ", named):
        read(write(tmp_path / "odd.csv", text))


def odd(path: Path, header: str, cells: Callable[[int], str], mark: str = ",") -> Path:
    return write(path, header + "\n" + "".join(f"{cells(n)}{mark}{5100 + n}\n" for n in range(9)))


@pytest.mark.parametrize("header", ["time,power [mW]", "time,power_mW"])
def test_times_that_say_no_unit_are_seconds_or_since_1970(tmp_path: Path, header: str) -> None:
    """Of rows that lie 100 apart nobody knows whether that is ms; what lies a second apart is s."""
    path = tmp_path / "log.csv"
    with refused("unreadable-telemetry", "100", "time_ms"):
        read(odd(path, header, lambda n: f"{100 * n}"))
    begin = 1_795_176_000
    for size in (1, 10**3, 10**6, 10**9):
        (log,) = read(odd(path, header, lambda n, size=size: f"{(begin + n) * size}"))  # type: ignore[misc]
        (t_ns,) = log.recording.t_ns.values()
        assert list(t_ns) == [(begin + n) * 10**9 for n in range(9)]


@pytest.mark.parametrize(
    ("header", "watts"),
    [
        ("time_s,Power (MW)", None),
        ("time_s,power_MW", None),
        ("TIME_S,POWER_MW", 5.1),
        ("time_s,power_mW", 5.1),
    ],
)
def test_a_capital_m_among_small_letters_is_neither_mega_nor_milli(
    tmp_path: Path, header: str, watts: float | None
) -> None:
    path = odd(tmp_path / "log.csv", header, str)
    if watts is None:
        with refused("unreadable-telemetry", header.partition(",")[2], "no unit"):
            read(path)
    else:
        assert read(path)[0].recording.value["meter.power"][0] == pytest.approx(watts)


@pytest.mark.parametrize("header", ["time_s;power [mW];a [A]", "time_s;power_mW;a"])
def test_commas_that_may_part_thousands_are_refused(tmp_path: Path, header: str) -> None:
    def log(watts: str, amperes: str) -> Path:
        rows = "".join(f"{n};{watts};{amperes}\n" for n in range(5))
        return write(tmp_path / "log.csv", f"{header}\n{rows}")

    with refused("unreadable-telemetry", "5,100", "thousands"):
        read(log("5,100", "1"))
    for other in ("0,512", "1,5", "1,5000"):  # which no thousands have
        (read_,) = read(log("5,100", other))
        values = read_.recording.value
        assert values[next(name for name in values if "power" in name)][0] == pytest.approx(5.1e-3)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("header", ["time_s,power [mW]", "time_s,power_mW"])
def test_text_in_utf_16_is_read_with_its_mark_and_without(
    tmp_path: Path, header: str, encoding: str
) -> None:
    path = odd(tmp_path / "log.csv", header, str)
    path.write_bytes(path.read_text().encode(encoding))
    (value,) = read(path)[0].recording.value.values()
    assert value[0] == pytest.approx(5.1)


def test_a_file_is_named_once_in_its_error(tmp_path: Path) -> None:
    path = write(tmp_path / "turbostat.txt", "Avg_MHz\tBusy%\n12\t1.5\n")
    with pytest.raises(InvalidValueError) as caught:
        read(path)
    assert_says(str(caught.value), "--telemetry turbostat.txt", "no recording")
    assert str(caught.value).count("turbostat.txt") == 1


def test_watts_of_parts_are_channels_and_no_total(tmp_path: Path) -> None:
    rows = "".join(f"{n / 10:.1f},5,15,60\n" for n in range(5))
    text = "time_s,power_cpu_W,gpu_power_W,gpu_power_limit_W\n" + rows
    recording = read(write(tmp_path / "parts.csv", text))[0].recording
    assert [(c.name, c.unit, c.role, c.domain) for c in recording.channels] == [
        ("power_cpu", "W", "power_part", "cpu"),
        ("gpu_power", "W", "power_part", "gpu"),
        ("gpu_power_limit", "W", "unknown", "gpu"),
    ]
    assert recording.value["gpu_power"].tolist() == [15.0] * 5


def test_rotated_logs_join_and_keep_every_value(tmp_path: Path) -> None:
    late = csv(tmp_path / "a.2.csv", [(3, 30), (4, 40)])
    early = csv(tmp_path / "a.1.csv", [(0, 1), (1, 10), (2, 20)])
    logs, notes = merged(read(late, early))
    assert len(logs) == 1
    assert logs[0].recording.t_ns["power"].tolist() == [n * 10**9 for n in range(5)]
    assert logs[0].recording.value["power"].tolist() == [1, 10, 20, 30, 40]
    (note,) = notes
    assert_says(note, "power", "a.2.csv, a.1.csv")


def test_what_two_files_say_alike_is_there_once(tmp_path: Path) -> None:
    one = csv(tmp_path / "a.csv", [(0, 1), (1, 10), (2, 20)])
    other = csv(tmp_path / "b.csv", [(1, 10), (2, 20), (3, 30)])
    (log,) = merge(read(one, other))
    assert log.recording.value["power"].tolist() == [1, 10, 20, 30]


def test_what_differs_stands_behind_the_name_of_its_file_and_one_is_the_total(
    tmp_path: Path,
) -> None:
    one = csv(tmp_path / "wall.csv", [(0, 1), (1, 10), (2, 20)])
    other = csv(tmp_path / "rail.csv", [(1, 9), (2, 20), (3, 30)])
    logs, notes = merged(read(one, other))
    roles = {c.name: c.role for log in logs for c in log.recording.channels}
    assert roles == {"wall.power": "power_total", "rail.power": "unknown"}
    assert_says(notes[0], "differs", "wall.csv, rail.csv")
    assert_says(notes[1], "the total", "wall.csv")
    assert sum(log.recording.values for log in logs) == 6


def test_files_of_one_name_that_differ_are_refused_with_the_stretch(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    one = csv(tmp_path / "a.csv", [(0, 1), (1, 10), (2, 20)])
    other = csv(tmp_path / "x" / "a.csv", [(1, 9), (2, 20), (3, 30)])
    with refused("differing-telemetry", "a.csv and a.csv", "power", "1.000 s", "2.000 s"):
        merge(read(one, other))


def test_a_mapped_log_has_every_value_at_its_time_in_the_other_clock(tmp_path: Path) -> None:
    (log,) = read(csv(tmp_path / "a.csv", [(0, 1), (1, 10), (2, 20)]))
    there = mapped(log, from_offset(100.5))
    assert there.recording.t_ns["power"].tolist() == [100_500_000_000 + n * 10**9 for n in range(3)]
    assert there.recording.value["power"].tolist() == [1, 10, 20]
    assert np.array_equal(log.recording.t_ns["power"], [0, 10**9, 2 * 10**9])
