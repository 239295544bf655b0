from __future__ import annotations

import ast
import os
import struct
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from wattstep.record.sampling import child
from wattstep.record.sampling.child import MISSING, parse

STAT = b"""cpu  300 20 130 4000 50 6 7 80 0 0
cpu0 100 10 30 2000 25 3 4 40 0 0
cpu2 200 10 100 2000 25 3 3 40 0 0
intr 12345 0 0
ctxt 99887766
btime 1700000000
"""
STATUS = b"""Name:\tpython
VmHWM:\t  123456 kB
VmRSS:\t   98765 kB
voluntary_ctxt_switches:\t41
nonvoluntary_ctxt_switches:\t17
"""
PRESSURE = b"""some avg10=0.00 avg60=0.12 avg300=0.05 total=123456
full avg10=0.00 avg60=0.00 avg300=0.00 total=654
"""


@pytest.mark.parametrize(
    ("parser", "data", "arguments", "values"),
    [
        ("number", b"42000\n", (), [42000]),
        ("number", b"-5\n", (), [-5]),
        ("at_least", b"41500\n", (-100_000,), [41500]),
        ("at_least", b"-100000\n", (-100_000,), [-100_000]),
        ("at_least", b"-256000\n", (-100_000,), [MISSING]),
        ("at_least", b"-1\n", (0, 0), [0]),
        ("at_least", b"3\n", (0, 0), [3]),
        ("within", b"0\n", (0, 1000), [0]),
        ("within", b"1000\n", (0, 1000), [1000]),
        ("within", b"1001\n", (0, 1000), [MISSING]),
        ("within", b"-1\n", (0, 1000), [MISSING]),
        # Under-voltage has happened (bit 16), is so now (bit 0), and the clock is capped (bit 1).
        ("hex", b"0x10003\n", (0xF, 0xF0000), [3, 0x10000]),
        ("hex", b"50000\n", (0xF, 0xF0000), [0, 0x50000]),
        ("fields", b"5000 123 77 1 0 300 0\n", (1,), [123]),
        ("fields", b"10 20 30\n40\n", (2, 0), [30, 10]),
        # Of a process that calls itself "a) R 1 (b".
        ("process_stat", b"7 (a) R 1 (b) S 5 7 7 0 -1 64 508 4 31 2 9\n", (10, 12), [508, 31]),
        ("keyed", STAT, ("ctxt",), [99887766]),
        ("status", STATUS, ("VmRSS",), [98765]),
        ("status", STATUS, ("voluntary_ctxt_switches", "nonvoluntary_ctxt_switches"), [41, 17]),
        ("status", STATUS, ("Name2", "VmHWM"), [MISSING, 123456]),
        # busy: user + nice + system + irq + softirq; idle: idle + iowait; steal
        ("cores", STAT, (0, 2), [147, 2025, 40, 316, 2025, 40]),
        ("cores", STAT, (0, 1, 2), [147, 2025, 40, MISSING, MISSING, MISSING, 316, 2025, 40]),
        ("stat_total", STAT, (), [463, 4050, 80]),
        ("pressure", PRESSURE, ("some", "full"), [123456, 654]),
        ("pressure", PRESSURE.splitlines()[0], ("some", "full"), [123456, MISSING]),
    ],
)
def test_files_of_the_kernel_give_their_integers(
    parser: str, data: bytes, arguments: tuple[str | int, ...], values: list[int]
) -> None:
    assert parse(parser, data, arguments) == values


def test_a_core_is_not_taken_for_one_whose_number_begins_alike() -> None:
    stat = b"cpu  0 0 0 0 0 0 0 0\ncpu11 1 1 1 1 1 1 1 1\nintr 0\n"
    assert parse("cores", stat, (1, 11)) == [MISSING] * 3 + [5, 2, 1]


def test_a_line_that_is_cut_gives_no_value_rather_than_a_wrong_one() -> None:
    cut = STAT[: STAT.index(b"\ncpu2") + len(b"\ncpu2 200 10 100 2000 25 3 3 4")]
    assert parse("cores", cut, (0, 2)) == [147, 2025, 40, MISSING, MISSING, MISSING]


@pytest.mark.parametrize(
    "parser", sorted(set(child.PARSERS) - {"keyed", "status", "cores", "pressure"})
)
def test_an_empty_file_gives_no_value(parser: str) -> None:
    with pytest.raises((ValueError, IndexError)):
        parse(parser, b"", (0,))


def test_what_an_empty_file_lacks_is_missing() -> None:
    assert parse("status", b"", ("VmRSS",)) == [MISSING]
    assert parse("cores", b"", (0,)) == [MISSING] * 3
    assert parse("pressure", b"", ("some",)) == [MISSING]


CASES = {
    "number": ((),),
    "at_least": ((0,), (-5, 7)),
    "within": ((0, 1000), (-5, 5)),
    "hex": ((0xF, 0xF0000), (1,)),
    "fields": ((0,), (1, 5)),
    "process_stat": ((10, 12), (3,)),
    "keyed": (("MemAvailable",), ("ctxt", "procs_running")),
    "status": (("VmRSS", "VmSwap"),),
    "cores": ((0, 1), (3,)),
    "stat_total": ((),),
    "pressure": (("some", "full"),),
}
WORDS = st.sampled_from(
    [
        b"cpu",
        b"cpu0 ",
        b"cpu1 ",
        b"\n",
        b" ",
        b"total=",
        b"some ",
        b"VmRSS:",
        b"ctxt",
        b"12",
        b"-",
        b"_",
    ]
)
EXAMPLES = 100_000 if settings.default.max_examples > 1000 else 200
BYTES = st.binary(max_size=200) | st.lists(WORDS | st.binary(max_size=5), max_size=40).map(b"".join)


@pytest.mark.parametrize("parser", sorted(CASES))
@settings(max_examples=EXAMPLES)
@given(case=st.integers(0, 1), data=BYTES)
@example(case=0, data=b"9" * 5000)
@example(case=0, data=b"1_000")
@example(case=0, data=STAT)
@example(case=0, data=b"VmRSS")
def test_any_bytes_give_integers_or_an_error_that_is_caught(
    parser: str, case: int, data: bytes
) -> None:
    arguments = CASES[parser][case % len(CASES[parser])]
    try:
        values = parse(parser, data, arguments)
    except (ValueError, IndexError):
        return
    widths = {"cores": 3 * len(arguments), "stat_total": 3, "at_least": 1, "within": 1}
    assert len(values) == widths.get(parser, len(arguments) or 1)
    assert all(isinstance(value, int) for value in values)


def test_every_parser_is_tested_with_any_bytes() -> None:
    assert set(CASES) == set(child.PARSERS)


@given(st.integers(2**63, 2**200))
def test_a_number_too_large_for_a_row_is_a_failed_read(number: int) -> None:
    pack = struct.Struct("<q").pack
    with pytest.raises(struct.error):  # which `Read.take` turns into a gap
        pack(*parse("number", b"%d" % number, ()))


def read_two(folder: Path, parser: str, first: str, second: str, *more: int) -> int:
    """What a read of two files gives."""
    for name, text in (("first", first), ("second", second)):
        (folder / name).write_text(text)
    entry = {
        "path": str(folder / "first"),
        "parser": parser,
        "arguments": [str(folder / "second"), *more],
        "excluded": [],
    }
    fds: list[int] = []
    try:
        (value,) = child.open_read(entry, [], fds)()
    finally:
        for fd in fds:
            os.close(fd)
    return int(value)


@pytest.mark.parametrize(
    ("activity", "rate", "ratio"),
    [
        # 102 MHz used of 1866 MHz: 0.054662; the file of the activity is in kHz.
        ("102000\n", "1866000000\n", 54662),
        ("0\n", "204000000\n", 0),
        ("1600000\n", "1600000000\n", 1_000_000),
        ("5\n", "0\n", MISSING),
    ],
)
def test_a_ratio_is_one_file_over_another_and_nothing_over_zero(
    tmp_path: Path, activity: str, rate: str, ratio: int
) -> None:
    assert read_two(tmp_path, "ratio", activity, rate, 1000 * 1_000_000) == ratio


def test_a_ratio_above_its_limit_says_nothing(tmp_path: Path) -> None:
    assert read_two(tmp_path, "ratio", "5\n", "4\n", 100, 125) == 125
    assert read_two(tmp_path, "ratio", "6\n", "4\n", 100, 125) == MISSING


@pytest.mark.parametrize(("first", "second"), [("", "1\n"), ("1\n", ""), ("x\n", "1\n")])
def test_a_ratio_of_what_is_no_number_is_a_failed_read(
    tmp_path: Path, first: str, second: str
) -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        read_two(tmp_path, "ratio", first, second, 1)


def test_the_child_is_written_for_python_3_6() -> None:
    source = Path(child.__file__).read_text(encoding="utf-8")
    tree = ast.parse(source, feature_version=(3, 6))
    imported = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    }
    # Nothing of the package, and what costs memory only as C modules.
    assert imported == {"_signal", "_socket", "_thread", "os", "struct", "sys", "time"}
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
