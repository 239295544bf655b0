"""Numbers whose marks, and times whose units, a log does not say: what decides them, in both readers of tables."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.refusals import refused

from wattstep.formats import plain_csv, power_meter
from wattstep.formats.recording import Recording

READERS = [
    pytest.param(plain_csv.parse, "power [W]", "power", id="plain"),
    pytest.param(power_meter.parse, "power_W", "meter.power", id="meter"),
]
of_both = pytest.mark.parametrize(("parse", "heading", "name"), READERS)
Parse = Callable[[bytes], Recording]


@of_both
@pytest.mark.parametrize(
    "times",
    [
        [f"2026-01-01 10:00:0{n},123" for n in range(5)],
        [f"2026-01-01T00:00:0{n},5Z" for n in range(5)],
        ["0", "1", "2", "0,0,0", "4"],  # a damaged line
    ],
)
def test_a_comma_in_no_number_decides_nothing(
    parse: Parse, heading: str, name: str, times: list[str]
) -> None:
    """Of 1,100 and 2,101 nobody knows whether they are one and two, or more than a thousand."""
    rows = [f"{time};{n + 1},{100 + n}" for n, time in enumerate(times)]
    with refused("ambiguous-commas", "1,100"):
        parse(f"timestamp;{heading}\n{chr(10).join(rows)}\n".encode())
    got = parse(f"timestamp;{heading}\n{chr(10).join([*rows[:-1], f'{times[-1]};1,5'])}\n".encode())
    assert [got.value[name][0], got.value[name][-1]] == [1.1, 1.5]


@of_both
def test_points_in_no_number_are_no_marks_beside_commas(
    parse: Parse, heading: str, name: str
) -> None:
    rows = [f"{n},5;20,25" for n in range(4)]
    got = parse(f"time_s;{heading}\n{chr(10).join(rows)}\n1.2.3;v1.2\n".encode())
    assert got.value[name].tolist() == [20.25] * 4


def log(heading: str, begin: int, apart: int, end: str = "5") -> bytes:
    rows = [f"{begin + n * apart},{5 + n % 3}" for n in range(50)]
    return f"{heading}\n{chr(10).join(rows)}\n{begin + 50 * apart},{end}\n".encode()


@of_both
@pytest.mark.parametrize("end", ["5", "x"])  # a damaged line has the others read one by one
@pytest.mark.parametrize(
    ("begin", "apart"),
    [
        (250_000_000_000, 10_000_000),  # ns since a start four minutes ago: as ms, 1977
        (200_000_000_000_000, 10_000_000),  # ns since a start two days ago: as µs, 1976
        (2_000_000_000_000, 10_000_000),  # ns since half an hour ago: as ms, 2033
        (2_000_000_000, 10_000),  # µs since half an hour ago: as s, 2033
        (500_000_000, 10),  # ms since six days ago: as s, 1985
        (5_000_000_000, 100),  # ms since two months ago: as s, 2128
        (0, 10_000_000),
        (0, 100),
        (0, 10),  # ms as a sensor of 100 Hz writes them, or a reading every 10 s
    ],
)
def test_times_that_may_be_in_another_unit_are_refused(
    parse: Parse, heading: str, name: str, begin: int, apart: int, end: str
) -> None:
    with refused("no-time-unit"):
        parse(log(f"timestamp,{heading}", begin, apart, end))
    got = parse(log(f"time_ns,{heading}", begin, apart, end))
    assert (got.t_ns[name][49] - got.t_ns[name][0]) == 49 * apart
    assert not got.notes or end == "x"


@of_both
@pytest.mark.parametrize("end", ["5", "x"])
@pytest.mark.parametrize(
    ("begin", "apart", "seconds", "unit"),
    [
        (0, 1, 1.0, "seconds"),
        (10, 2, 2.0, "seconds"),
        (1_000_000_000, 1, 1.0, "as s since 1970"),  # in 2001
        (1_700_000_000, 60, 60.0, "as s since 1970"),
        (1_700_000_000_000, 10, 0.01, "as ms since 1970"),
        (1_700_000_000_000_000, 10_000, 0.01, "as µs since 1970"),
        (1_700_000_000_000_000_000, 10_000_000, 0.01, "as ns since 1970"),
    ],
)
def test_the_unit_that_times_without_one_are_taken_in_is_noted(
    parse: Parse, heading: str, name: str, begin: int, apart: int, seconds: float, unit: str, end: str
) -> None:  # fmt: skip
    got = parse(log(f"timestamp,{heading}", begin, apart, end))
    assert (got.t_ns[name][49] - got.t_ns[name][0]) * 1e-9 == pytest.approx(49 * seconds, rel=1e-5)
    assert [note for note in got.notes if note.endswith(unit)]
    assert got.clock == "wall" or unit == "seconds"


@of_both
def test_a_time_of_no_date_among_dates_is_a_damaged_line(
    parse: Parse, heading: str, name: str
) -> None:
    rows = [f"{1_700_000_000 + n},5" for n in range(20)]
    got = parse(f"t,{heading}\n{chr(10).join(rows)}\n17000000200,5\n".encode())
    assert len(got.t_ns[name]) == 20
    assert any("17000000200" in note for note in got.notes)
