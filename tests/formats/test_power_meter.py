"""Logs of external power meters."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.refusals import refused
from tests.wording import assert_says

from wattstep.errors import InvalidValueError
from wattstep.formats.power_meter import _read_at_once, _read_by_line, parse
from wattstep.formats.recording import FormatError
from wattstep.formats.rows import NO_END, NO_ZONE

EXAMPLES = 100_000 if settings.default.max_examples > 1000 else 200


def read(text: str) -> tuple[list[int], list[float], str]:
    found = parse(text.encode())
    return (
        found.t_ns["meter.power"].tolist(), found.value["meter.power"].tolist(), found.clock
    )  # fmt: skip


def test_seconds_and_watts() -> None:
    assert read("time_s,power_W\n10.0,3.5\n10.01,4\n") == ([0, 10_000_000], [3.5, 4.0], "counted")


def test_volts_and_amperes_with_units_of_their_own() -> None:
    t_ns, watts, _ = read("Time (ms);Voltage [V];Current (mA)\n0;5.0;500\n1;5.0;1000\n")
    assert (t_ns, watts) == ([0, 1_000_000], [2.5, 5.0])


def test_seconds_since_1970_to_the_microsecond() -> None:
    t_ns, _, clock = read("timestamp,watts\n1700000000.000001,1\n1700000000.000051,1\n")
    assert clock == "wall"
    assert t_ns[0] // 10**9 == 1_700_000_000
    assert t_ns[1] - t_ns[0] == pytest.approx(50_000, abs=300)  # what a float64 of 1970 holds


def test_milliseconds_since_1970_are_told_by_their_size() -> None:
    assert read("t,p_W\n1700000000000,1\n1700000000500,1\n")[0] == [
        1_700_000_000_000_000_000, 1_700_000_000_500_000_000
    ]  # fmt: skip


def test_dates_with_their_zone() -> None:
    text = "datetime,power mW\n2026-11-20T10:00:00+01:00,1500\n2026-11-20T09:00:01Z,2500\n"
    t_ns, watts, clock = read(text)
    assert (t_ns[1] - t_ns[0], watts, clock) == (10**9, [1.5, 2.5], "wall")


def test_comments_and_empty_lines_do_not_count() -> None:
    assert read("# my meter\n\nt\twatt\n0\t1\n# pause\n2\t3\n")[1] == [1.0, 3.0]


@pytest.mark.parametrize(
    ("text", "line", "id", "named"),
    [
        ("", 1, "no-time-column", "time_s"),
        ("time_weeks,power_W\n0,1\n1,2\n", 1, "no-time-column", ": time_weeks"),
        ("Elapsed (days),power_W\n0,1\n1,2\n", 1, "no-time-column", ": Elapsed (days)"),
        (
            "time_s,power_limit_W,power_gpu_W\n0,1,1\n",
            1,
            "no-power-column",
            ": power_limit_W, power_gpu_W",
        ),
        ("time_s,power_ac_W,voltage\n0,1,1\n", 1, "no-power-column", "power_W"),
        ("time_s,power_W,main_power_W\n0,1,2\n", 1, "several-columns", "power_W, main_power_W"),
        ("time_s,v1_V,v2_V,i_A\n0,1,1,1\n", 1, "several-columns", "voltage"),
        ("time_s;power_W\n0,5;1\n1.5;2\n", 1, "mixed-decimal-marks", ""),
        ("time_s;power_W\n0,5;1.234,5\n1;2\n", 2, "not-a-number", "'1.234,5'"),
        ("time_s,power_W\n1,1\n0,2\n2,2\n", 3, "time-not-after", ""),
        ("time,power_W\n08:53:20,1\n", 2, "not-a-time", "'08:53:20'"),
        ("time_s,temperature\n0,1\n1,2\n", 1, "no-power-column", "power_W"),
        ("time_s,power_W\n0,1\n1\n", 3, "wrong-cell-count", "1 cells, the header"),
        ("time_s,power_W\n0,1\n0,2\n", 3, "time-not-after", ""),
        ("time_s,power_W\n0,1\n1,OVERLOAD\n", 3, "not-a-number", "'OVERLOAD'"),
        ("time_s,power_W\n0,1\n1,inf\n", 3, "not-a-number", "'inf'"),
        ("time_s,power_W\nnow,1\n", 2, "not-a-time", "'now'"),
        ("time_s,power_W\n0,1\n", 2, "too-few-rows", ""),
    ],
)
def test_what_is_wrong_is_said_with_its_line(text: str, line: int, id: str, named: str) -> None:
    with refused(id, named) as caught:
        parse(text.encode())
    assert isinstance(caught.value, FormatError)
    assert caught.value.line == line


@pytest.mark.parametrize(
    ("header", "row", "watts"),
    [
        ("time_s,power_factor,power_W", "0.95,20", 20),
        ("timestamp,power_limit_W,power_W", "60,20", 20),
        ("time_s,power_percent,power_W", "50,20", 20),
        ("t;power (%);power (mW)", "50;20000", 20),
        ("time_s,power_avg_W,power_W", "19,20", 20),
        ("time_s,power,power_mW", "19,20000", 20),
        ("time_s,p state,voltage_V,current_mA", "8,5,4000", 20),
        ("Time (s),Main Avg Current (mA),Main Avg Power (mW)", "5000,20000", 20),
        ("time_s,power_cpu_W,power_W", "5,20", 20),
        ("time_s,power_W,V1,V2", "20,5,6", 20),
    ],
)
def test_no_column_is_the_power_by_its_first_word_alone(
    header: str, row: str, watts: float
) -> None:
    mark = ";" if ";" in header else ","
    text = header + "".join(f"\n{n}{mark}{row}" for n in range(3)) + "\n"
    assert read(text)[1] == [watts] * 3


@pytest.mark.parametrize(
    ("heading", "seconds"),
    [
        ("elapsed (min)", 60), ("time_h", 3600), ("Time(us)", 1e-6), ("Elapsed time [ms]", 1e-3),
        ("seconds", 1), ("timestamp", 1),
    ],
)  # fmt: skip
def test_times_are_in_the_unit_of_their_heading(heading: str, seconds: float) -> None:
    assert read(f"{heading},power_W\n1,5\n3,5\n")[0] == [0, round(2 * seconds * 1e9)]


def test_a_last_line_without_its_end_may_have_lost_digits_and_is_left_out() -> None:
    found = parse(b"time_s,power_W\n0,20.5\n1,20.5\n2,2")
    assert found.value["meter.power"].tolist() == [20.5, 20.5]
    assert found.notes == (NO_END,)
    assert sum(found.ignored.values()) == 1


def test_an_empty_cell_is_a_gap_and_a_few_damaged_lines_are_left_out() -> None:
    lines = ["0,1", "1,", "2,3", "3,OVERLOAD", "4", "5,6"]
    found = parse(("time_s,power_W\n" + "\n".join(lines) + "\n").encode())
    np.testing.assert_array_equal(found.value["meter.power"], [1, np.nan, 3, 6])
    assert found.t_ns["meter.power"].tolist() == [0, 10**9, 2 * 10**9, 5 * 10**9]
    assert found.ignored == {"cell without a value": 1, "damaged line": 2}
    assert_says(found.notes[0], "2 lines", "(5, 6)", "line 5")


@pytest.mark.parametrize("mark", [";", "\t"])
def test_decimal_commas_are_read_where_no_comma_parts_the_cells(mark: str) -> None:
    rows = "".join(f"{n},5{mark}20,25\n" for n in range(3))
    data = f"time_s{mark}power_W\n{rows}".encode()
    assert _read_at_once(data) is not None
    found = parse(data)
    assert found.value["meter.power"].tolist() == [20.25] * 3
    assert found.t_ns["meter.power"].tolist() == [0, 10**9, 2 * 10**9]
    (note,) = found.notes
    assert_says(note, "commas", "decimal")
    gap = parse(data + f"3,5{mark}x\n".encode())  # which is read line by line
    assert gap.value["meter.power"].tolist() == [20.25] * 3
    assert gap.notes[0] == note


def test_lines_of_one_time_are_spread_up_to_the_next() -> None:
    found = parse(b"time_s,power_W\n0,1\n0,2\n0.2,3\n0.2,4\n")
    assert found.t_ns["meter.power"].tolist() == [0, 10**8, 2 * 10**8, 3 * 10**8]
    assert found.value["meter.power"].tolist() == [1, 2, 3, 4]
    (note,) = found.notes
    assert_says(note, "same time", "evenly")


def test_a_date_without_a_zone_is_noted() -> None:
    found = parse(b"time,power_W\n2023-11-14 22:13:20,1\n2023-11-14T22:13:20.5,2\n")
    assert found.t_ns["meter.power"].tolist() == [1_700_000_000 * 10**9, 1_700_000_000_500_000_000]
    assert found.notes == (NO_ZONE,)


def test_a_log_larger_than_a_block_is_read_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wattstep.formats.power_meter._BLOCK_BYTES", 64)
    data = b"time_s,power_W\n" + b"".join(b"%d,%d\n" % (n, n % 5) for n in range(500))
    assert _read_at_once(data) is not None
    assert parse(data).value["meter.power"].sum() == 1000  # 100 times 0 to 4


@settings(max_examples=EXAMPLES)
@given(
    st.one_of(
        st.binary(max_size=200),
        st.text("0123456789.,;-+eE:TZ \n#", max_size=200).map(
            lambda body: b"time,power_W\n" + body.encode()
        ),
    )
)
def test_any_bytes_give_values_or_a_clear_error(data: bytes) -> None:
    try:
        found = parse(data)
    except InvalidValueError:
        return
    t_ns, watts = found.t_ns["meter.power"], found.value["meter.power"]
    assert len(t_ns) == len(watts) >= 2
    assert (np.diff(t_ns) > 0).all()
    assert not np.isinf(watts).any()


@settings(max_examples=EXAMPLES)
@given(
    st.sampled_from(
        ["time_s,power_W", "t,voltage_V,i (mA),p_W", "elapsed ms;note;V;I_mA", "timestamp\twatt"]
    ),
    st.lists(
        st.lists(
            st.one_of(
                st.floats(0, 2e9).map(repr),
                st.integers(0, 2 * 10**18).map(str),
                st.sampled_from(
                    [
                        "",
                        " 1",
                        "1,5",
                        "1.5",
                        "-",
                        "1e3",
                        "+2",
                        "nan",
                        "1_0",
                        "#",
                        "0x1",
                        ".5",
                        "5.",
                        "-1",
                    ]
                ),
            ),
            min_size=4,
            max_size=4,
        ),
        max_size=6,
    ),
    st.booleans(),
    st.sampled_from(["\n", "\r\n", "\n\n"]),
)
def test_all_columns_at_once_give_what_line_by_line_gives(
    head: str, table: list[list[str]], ordered: bool, end: str
) -> None:
    mark = max(";\t,", key=head.count)
    width = head.count(mark) + 1
    rows = [cells[:width] for cells in table]
    if ordered:
        rows = [[str(n), *cells[1:]] for n, cells in enumerate(rows)]
    data = end.join([head, *(mark.join(cells) for cells in rows), ""]).encode()
    at_once = _read_at_once(data)
    if at_once is None:
        return
    by_line = _read_by_line(data)
    np.testing.assert_array_equal(at_once.seconds, by_line.seconds)
    assert at_once.wall == by_line.wall
    np.testing.assert_equal(at_once.aside, by_line.aside)
    assert at_once.notes in ((), by_line.notes)
    assert set(at_once.values) == set(by_line.values)
    for quantity, values in at_once.values.items():
        np.testing.assert_array_equal(values, by_line.values[quantity])


def test_a_log_of_plain_numbers_is_read_at_once_and_whole() -> None:
    rows = "".join(f"{n / 20000:.6f},5.000,{n % 7 / 10}\n" for n in range(50_000))
    data = ("time_s,voltage_V,current_A\n" + rows).encode()
    assert _read_at_once(data) is not None
    found = parse(data)
    assert found.values == 3 * 50_000
    # 50 000 rows of 5 V: 7142 whole sevens of 0.0 to 0.6 A, and then 0.0 to 0.5.
    assert found.value["meter.power"].sum() == pytest.approx(5 * (7142 * 2.1 + 1.5), rel=1e-12)
    assert found.t_ns["meter.power"][-1] == 49_999 * 50_000


def test_columns_that_are_no_power_are_counted() -> None:
    found = parse(b"time_s,power_W,note\n0,1,a\n1,2,b\n")
    assert found.ignored == {"column note": 2}
    assert parse(b"time_s,power_W,t2\n0,1,3\n1,2,4\n").ignored == {"column t2": 2}


def test_volts_and_amperes_whose_product_no_number_holds_are_a_gap() -> None:
    found = parse(b"time,voltage_V,current_A\n0,5,0.5\n1,1e200,1e200\n2,5,0.4\n")
    watts = found.value["meter.power"]
    assert watts[[0, 2]].tolist() == [2.5, 2.0]
    assert np.isnan(watts[1])
    assert found.ignored["volts and amperes whose product no number holds"] == 1


# --- units --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "heading",
    ["power", "Power", "p", "Total Power", "main avg power", "power_total", '"power draw"'],
)
def test_power_whose_heading_says_no_unit_is_refused_and_not_taken_for_watts(heading: str) -> None:
    with refused("no-unit", "power_mW", "--unit mW"):
        parse(f"time_s,{heading}\n0,4000\n1,5000\n".encode())


@pytest.mark.parametrize("header", ["time_s,voltage,current", "t,u_V,i", "t,vbus,current_mA"])
def test_volts_and_amperes_without_a_unit_are_refused(header: str) -> None:
    with refused("no-unit"):
        parse(f"{header}\n0,5,200\n1,5,300\n".encode())


@pytest.mark.parametrize("heading", ["watts", "power_w", "Power (W)", "power watts", "watt total"])
def test_a_heading_that_names_watts_says_its_unit(heading: str) -> None:
    assert read(f"time_s,{heading}\n0,4\n1,5\n")[1] == [4.0, 5.0]


@pytest.mark.parametrize(
    ("header", "row", "units"),
    [
        ("time_s,power", "4000", ["mW"]), ("time_s,power", "4", ["W"]),
        ("time_s,Total Power", "4000", ["Total Power=mW"]), ("t;P", "0,004", ["kW"]),
        ("t,voltage,current", "5000,800", ["voltage=mV", "current=mA"]),
        ("t,voltage_V,current", "5,800", ["mA"]),
    ],
)  # fmt: skip
def test_a_stated_unit_holds_where_the_heading_says_none(
    header: str, row: str, units: list[str]
) -> None:
    mark = ";" if ";" in header else ","
    text = header + "".join(f"\n{n}{mark}{row}" for n in range(3)) + "\n"
    assert parse(text.encode(), units).value["meter.power"].tolist() == pytest.approx([4.0] * 3)


@pytest.mark.parametrize("units", [["mW"], ["power_W=mW"], ["furlongs"], ["power=mW"]])
def test_a_stated_unit_that_does_nothing_is_refused(units: list[str]) -> None:
    with pytest.raises(InvalidValueError, match="--unit"):
        parse(b"time_s,power_W\n0,4\n1,5\n", units)


def test_volts_and_amperes_are_read_where_the_power_beside_them_says_no_unit() -> None:
    assert read("t,power,voltage_V,current_A\n0,4000,5,0.8\n1,4000,5,0.8\n")[1] == [4.0, 4.0]


def test_joules_of_a_meter_are_kept_beside_its_watts() -> None:
    recording = parse(b"time_s,power_W,energy_Wh\n0,6,0\n1,6,1\n2,6,2\n")
    assert list(recording.value["meter.energy"]) == [0.0, 3600.0, 7200.0]
    roles = {channel.name: channel.role for channel in recording.channels}
    assert roles == {"meter.power": "meter_power", "meter.energy": "meter_energy"}
    assert parse(b"time_s,power_W,energy\n0,6,0\n1,6,1\n").ignored == {"column energy": 2}


def test_energies_that_are_no_numbers_do_not_cost_the_power() -> None:
    log = b"time_s,power_W,energy_Wh\n0,6,0.000 Wh\n1,6,0.002 Wh\n2,6,0.003 Wh\n"
    assert list(parse(log).value["meter.power"]) == [6.0, 6.0, 6.0]
