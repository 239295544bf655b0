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
