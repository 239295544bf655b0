"""Plain CSV: columns and units, times of several kinds, gaps, and whatever else a file may hold."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.refusals import refused
from tests.wording import assert_says

from wattstep.formats.plain_csv import parse
from wattstep.formats.recording import FormatError, Recording
from wattstep.formats.registry import read_log
from wattstep.formats.rows import NO_END, NO_ZONE

EXAMPLES = 100_000 if settings.default.max_examples > 1000 else 200


def test_units_become_si() -> None:
    heads = "t_s,a [mW],b [W],c [Wh],d [MHz],e [%],f [MiB],g [°C],h [degC],i [furlong],j"
    got = parse(f"{heads}\n0,1500,1.5,2,1200,50,3,41,42,7,8\n".encode())
    units = {channel.name: channel.unit for channel in got.channels}
    assert {name: (got.value[name][0], units[name]) for name in units} == {
        "a": (1.5, "W"),
        "b": (1.5, "W"),
        "c": (7200.0, "J"),
        "d": (1.2e9, "Hz"),
        "e": (0.5, "ratio"),
        "f": (3 * 1024 * 1024, "B"),
        "g": (41.0, "°C"),
        "h": (42.0, "°C"),
        "i": (7.0, "furlong"),
        "j": (8.0, ""),
    }


def test_only_columns_that_say_so_are_the_whole_machine() -> None:
    text = b"t,power [W],gpu [W],energy [J],cpu_energy [J],GPU load [%],odd [W]\n0,1,1,1,1,1,1\n"
    found = {c.name: (c.role, c.kind, c.domain) for c in parse(text).channels}
    assert found == {
        "power": ("power_total", "gauge", "system"),
        "gpu": ("power_part", "gauge", "gpu"),
        "energy": ("energy_total", "counter", "system"),
        "cpu_energy": ("energy_part", "counter", "cpu"),
        "gpu_load": ("gpu_utilization", "gauge", "gpu"),
        "odd": ("power_part", "gauge", "unknown"),
    }


@pytest.mark.parametrize(
    ("head", "cells", "expected", "clock"),
    [
        ("t_s", ("0", "0.25"), [0, 250_000_000], "monotonic"),
        ("time [ms]", ("5", "5.5"), [5_000_000, 5_500_000], "monotonic"),
        ("timestamp [ns]", ("7", "9"), [7, 9], "monotonic"),
        (
            "timestamp",
            ("1700000000.123456789", "1700000001"),
            [1_700_000_000_123_456_789, 1_700_000_001_000_000_000],
            "wall",
        ),
        (
            "time",
            ("2023-11-14T22:13:20Z", "2023-11-14 23:13:20.5+01:00"),
            [1_700_000_000_000_000_000, 1_700_000_000_500_000_000],
            "wall",
        ),
        (
            "time",
            ("2023/11/14 22:13:20", "2023-11-14T23:13:21.123456789+0100"),
            [1_700_000_000_000_000_000, 1_700_000_001_123_456_789],
            "wall",
        ),
    ],
)
def test_times_are_exact_to_the_nanosecond(
    head: str, cells: tuple[str, str], expected: list[int], clock: str
) -> None:
    got = parse(f"{head},v\n{cells[0]},1\n{cells[1]},2\n".encode())
    assert list(got.t_ns["v"]) == expected
    assert got.clock == clock


def test_an_empty_cell_is_a_gap_and_no_zero() -> None:
    got = parse(b"t_s,a,b\n0,1,\n1,nan,0\n2,N/A,-\n")
    np.testing.assert_array_equal(got.value["a"], [1, math.nan, math.nan])
    np.testing.assert_array_equal(got.value["b"], [math.nan, 0, math.nan])
    assert got.values == 2


@pytest.mark.parametrize(
    "cell",
    ["", "-", "--", "---", "N/A", "n/a", "NaN", "null", "None", "[N/A]", "[Not Supported]"],
)
@pytest.mark.parametrize("header", ["t_s,power [W]", "time_s,power_W", "t_s power_W"])
def test_words_for_no_value(tmp_path: Path, header: str, cell: str) -> None:
    """In every second row of ten: more than damaged lines may be."""
    blanks = "," not in header
    if blanks and (not cell or " " in cell):
        return  # nothing that stands between blanks
    rows = "".join(f"{n}{' ' if blanks else ','}{cell if n % 2 else n}\n" for n in range(10))
    path = tmp_path / "log.csv"
    path.write_text(f"{header}\n{rows}")
    _, got = read_log(path)
    (watts,) = got.value.values()
    np.testing.assert_array_equal(watts, [math.nan if n % 2 else n for n in range(10)])


def test_comments_empty_lines_quotes_and_a_mark_of_utf_8_are_no_values() -> None:
    text = '\ufeff# by hand\n\n"t_s", "a [W]"\r\n#\n0, "1"\r\n\n1,2\n'
    got = parse(text.encode())
    assert list(got.value["a"]) == [1, 2]


def test_a_last_line_without_its_end_may_have_lost_digits_and_is_left_out() -> None:
    got = parse(b"t_s,a\n0,12\n1,1")
    assert list(got.value["a"]) == [12]
    assert got.notes == (NO_END,)
    assert sum(got.ignored.values()) == 1


@pytest.mark.parametrize(
    ("text", "line", "id", "named"),
    [
        ("", 1, "no-time-column", "t_s"),
        ("power [W]\n1\n", 1, "no-time-column", "t_s"),
        ("t_s\n1\n", 1, "no-value-columns", ""),
        ("t_s,a,A\n1,2,3\n", 1, "repeated-column", ""),
        ("t_s,a]b\n", 1, "malformed-heading", "'a]b'"),
        ("t_s,\n", 1, "malformed-heading", "''"),
        ("time [weeks],a\n", 1, "unknown-time-unit", "s, ms, us, µs, ns, min, h"),
        ("t_s;a\n0,5;1,234\n1,5;2.5\n", 1, "mixed-decimal-marks", ""),
        ("# x\nt_s,a\n1,2\n2\n", 4, "wrong-cell-count", "1 cells under 2"),
        ("t_s,a\n1,2\n2,3,4\n", 3, "wrong-cell-count", "3 cells under 2"),
        ("t_s,a\n1,two\n", 2, "not-a-number", "'two'"),
        ("t_s,a\n1,inf\n", 2, "not-a-number", "'inf'"),
        ("t_s,a\n1,1_000\n", 2, "not-a-number", "'1_000'"),
        ("t_s,a\n1,1e400\n", 2, "not-a-number", "'1e400'"),
        ("t_s,a [kWh]\n1,1e308\n", 2, "not-a-number", "'1e308'"),
        ("t_s,a\n,1\n", 2, "not-a-time", "''"),
        ("t_s,a\nnan,1\n", 2, "not-a-time", "'nan'"),
        ("t_s,a\n1e999999999,1\n", 2, "not-a-time", ""),
        ("t_s,a\n2024-13-01,1\n", 2, "not-a-time", ""),
        ("t_s,a\n2024-13-01T00:00:00,1\n", 2, "not-a-time", ""),
        ("t_s,a\n0001-01-01T00:00:00+23:59,1\n", 2, "not-a-time", ""),
        ("t_s,a\n2,1\n1,1\n", 3, "time-not-after", ""),  # the clock was set back
        ("t_s,a\n2,1\n2,1\n", 3, "time-not-after", ""),
        ('t_s,a\n1,"2\n', 2, "malformed-csv", ""),
    ],
)
def test_what_is_wrong_is_said_with_its_line(text: str, line: int, id: str, named: str) -> None:
    with refused(id, f"line {line} ", named) as error:
        parse(text.encode())
    assert isinstance(error.value, FormatError)
    assert error.value.line == line


def test_units_may_stand_behind_names_and_in_round_brackets() -> None:
    heads = "Timestamp (ms),cpu_power_W,Current(uA),gpu_MHz,temp C,phase_A,energy_Wh,odd (x)"
    got = parse(f"{heads}\n0,5,2000,1200,41,7,0.5,8\n250,5,2000,1200,41,7,1,8\n".encode())
    units = {channel.name: channel.unit for channel in got.channels}
    assert {name: (got.value[name][0], units[name]) for name in units} == {
        "cpu_power": (5.0, "W"),
        "current": (pytest.approx(2e-3), "A"),
        "gpu": (1.2e9, "Hz"),
        "temp": (41.0, "°C"),
        "phase_a": (7.0, ""),  # a phase, no amperes
        "energy": (1800.0, "J"),
        "odd_(x)": (8.0, ""),
    }
    assert list(got.t_ns["temp"]) == [0, 250_000_000]


def test_decimal_commas_are_read_where_no_comma_parts_the_cells() -> None:
    got = parse(b"time [min];power [W]\n0,5;20,5\n1;21\n")
    assert list(got.value["power"]) == [20.5, 21.0]
    assert list(got.t_ns["power"]) == [30 * 10**9, 60 * 10**9]
    (note,) = got.notes
    assert_says(note, "commas", "decimal")


def test_a_time_without_a_zone_is_noted_and_one_with_it_is_not() -> None:
    got = parse(b"time,a\n2023-11-14 22:13:20,1\n2023-11-14 22:13:21,1\n")
    assert list(got.t_ns["a"]) == [1_700_000_000 * 10**9, 1_700_000_001 * 10**9]
    assert got.notes == (NO_ZONE,)
    got = parse(b"time,a\n2023-11-14 23:13:20+01,1\n2023-11-14 22:13:21Z,1\n")
    assert list(got.t_ns["a"]) == [1_700_000_000 * 10**9, 1_700_000_001 * 10**9]
    assert got.notes == ()


def test_lines_of_one_time_are_spread_up_to_the_next() -> None:
    got = parse(b"t_s,a\n0,1\n0,2\n1,3\n1,4\n")
    assert [t / 1e9 for t in got.t_ns["a"]] == [0.0, 0.5, 1.0, 1.5]
    assert list(got.value["a"]) == [1, 2, 3, 4]
    (note,) = got.notes
    assert_says(note, "same time", "evenly")


def test_a_few_damaged_lines_are_left_out_with_a_note_and_many_are_refused() -> None:
    rows = ["0,1", "1,x", "2,3", "3", "no,5", "5,6", "6,7"]
    got = parse(("t_s,a\n" + "\n".join(rows) + "\n").encode())
    assert list(got.value["a"]) == [1, 3, 6, 7]
    assert list(got.t_ns["a"]) == [0, 2 * 10**9, 5 * 10**9, 6 * 10**9]
    (note,) = got.notes
    assert_says(note, "3 lines", "(3, 5, 6)", "line 3", "'x'")
    assert got.ignored == {"damaged line": 3}
    with refused("not-a-number", "line 3", "'x'"):
        parse(("t_s,a\n" + "\n".join([*rows[:5], "5.5,y", "6,7", "7,8", "8,9"]) + "\n").encode())


def test_bytes_that_are_no_text_are_said_with_their_line() -> None:
    with refused("bytes-not-text", "line 3"):
        parse(b"t_s,a\n0,1\n1,\xff\n")


def parsed(data: bytes) -> Recording | FormatError:
    try:
        return parse(data)
    except FormatError as error:
        return error


def checked(data: bytes) -> None:
    """Values or an error with a line that is there."""
    got = parsed(data)
    if isinstance(got, FormatError):
        assert 1 <= got.line <= data.count(b"\n") + data.count(b"\r") + 1
        return
    for channel in got.channels:
        times, value = got.t_ns[channel.name], got.value[channel.name]
        assert len(times) == len(value)
        assert (np.diff(times) > 0).all()
        assert not np.isinf(value).any()


@settings(max_examples=EXAMPLES)
@given(st.binary(max_size=300))
@example(b"t_s,a\n\x00,1\n")
def test_any_bytes_give_values_or_an_error_with_its_line(data: bytes) -> None:
    checked(data)


CELL = st.one_of(
    st.sampled_from(["0", "1.5", "-2", "", "nan", "1e308", "1e-320", '"', "2024-01-01T00:00:00Z"]),
    st.text(alphabet='0123456789.eE+-:T "[]#\r\x00_µ', max_size=12),
)


@settings(max_examples=EXAMPLES)
@given(
    st.sampled_from(["t_s,power [W]", "time [ms],a [kWh],b", "timestamp,x [GHz]"]),
    st.lists(st.lists(CELL, min_size=1, max_size=3), max_size=6),
)
def test_any_cells_below_a_heading_give_values_or_an_error(
    head: str, table: list[list[str]]
) -> None:
    checked("\n".join([head, *(",".join(row) for row in table), ""]).encode())


@settings(max_examples=EXAMPLES)
@given(
    st.lists(
        st.tuples(
            st.integers(1, 10**12),
            st.one_of(st.none(), st.floats(allow_nan=False, allow_infinity=False)),
        ),
        min_size=1,
        max_size=8,
    )
)
def test_what_is_written_is_read_again(rows: list[tuple[int, float | None]]) -> None:
    times = list(np.cumsum([step for step, _ in rows]))
    lines = [
        f"{t},{'' if value is None else repr(value)}\n"
        for t, (_, value) in zip(times, rows, strict=True)
    ]
    got = parse(("time [ns],v\n" + "".join(lines)).encode())
    assert list(got.t_ns["v"]) == times
    expected = [math.nan if value is None else value for _, value in rows]
    np.testing.assert_array_equal(got.value["v"], expected)
