"""Reports of five GPUs and tables of queries: every quantity in is a value out."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.refusals import refused
from tests.wording import saying

from wattstep.formats.nvidia_smi import parse
from wattstep.formats.recording import FormatError, Recording

EXAMPLES = 100_000 if settings.default.max_examples > 1000 else 200
REPORTS = sorted((Path(__file__).parent.parent / "fixtures/nvidia").glob("*.xml"))
SECOND = 10**9

# A V100 in training, as published (the first rows; the memory columns of later ones are not real).
V100 = """\
index, timestamp, utilization.gpu [%], utilization.memory [%], memory.total [MiB], memory.used [MiB], memory.free [MiB]
0, 2020/11/12 13:48:11.412, 99 %, 52 %, 32480 MiB, 30994 MiB, 1486 MiB
0, 2020/11/12 13:48:16.415, 99 %, 90 %, 32480 MiB, 30994 MiB, 1486 MiB
0, 2020/11/12 13:48:21.417, 99 %, 51 %, 32480 MiB, 30994 MiB, 1486 MiB
0, 2020/11/12 13:48:26.419, 98 %, 61 %, 32480 MiB, 30994 MiB, 1486 MiB
0, 2020/11/12 13:48:31.424, 100 %, 88 %, 32480 MiB, 30994 MiB, 1486 MiB
0, 2020/11/12 13:48:36.427, 32 %, 33 %, 32480 MiB, 30994 MiB, 1486 MiB
"""
TWO = """\
index, timestamp, power.draw [W], clocks_throttle_reasons.active, clocks.sm [MHz], clocks.max.sm [MHz], name
0, 2024/01/01 00:00:00.000, 60.50 W, 0x0000000000000001, 300 MHz, 1980 MHz, Some GPU
1, 2024/01/01 00:00:00.000, [N/A], 0x0000000000000024, 1200 MHz, 1980 MHz, Some GPU
0, 2024/01/01 00:00:01.000, 61.50 W, 0x0000000000000000, 1980 MHz, 1980 MHz, Some GPU
1, 2024/01/01 00:00:01.000, 700.25 W, [Not Supported], [Unknown Error], 1980 MHz, Some GPU
"""


def values(recording: Recording, name: str) -> list[float]:
    return [float(value) for value in recording.value[name]]


def power_of(recording: Recording) -> list[str]:
    return [channel.name for channel in recording.channels if channel.role == "power_part"]


# --- tables -------------------------------------------------------------------------------------


def test_every_cell_of_a_table_is_a_value() -> None:
    recording = parse(V100.encode())
    cells = re.findall(r"(\d+) (%|MiB)", V100.split("\n", 1)[1])
    assert recording.values == len(cells) == 30
    expected = {
        "gpu0.utilization": sum(int(row.split(",")[2][:-1]) for row in V100.splitlines()[1:]) / 100,
        "gpu0.memory_used": 6 * 30994 * 1048576,
        "gpu0.memory_free": 6 * 1486 * 1048576,
    }
    for name, total in expected.items():
        assert sum(values(recording, name)) == pytest.approx(total)
    assert recording.clock == "wall"
    # date -u -d '2020-11-12 13:48:11' +%s
    assert recording.t_ns["gpu0.utilization"][0] == 1605188891 * SECOND + 412_000_000
    assert any("time zone" in note for note in recording.notes)


def test_a_gpu_is_never_the_total_of_a_machine() -> None:
    assert {c.role for c in parse(TWO.encode()).channels}.isdisjoint(
        {"power_total", "energy_total"}
    )


def test_gpus_are_kept_apart_and_what_is_not_there_is_a_gap() -> None:
    recording = parse(TWO.encode())
    assert values(recording, "gpu0.power") == [60.5, 61.5]
    assert math.isnan(values(recording, "gpu1.power")[0])
    assert values(recording, "gpu1.power")[1] == 700.25
    assert math.isnan(values(recording, "gpu1.frequency")[1])
    assert list(recording.t_ns["gpu0.power"]) == list(recording.t_ns["gpu1.power"])
    limits = {c.limit for c in recording.channels if c.role == "frequency"}
    assert limits == {1980e6}
    assert dict(recording.ignored) == {
        "clocks.max.sm: kept as a limit": 4, "name: no quantity of a run": 4,
    }  # fmt: skip


def test_idleness_is_a_reason_but_no_throttling() -> None:
    recording = parse(TWO.encode())
    assert values(recording, "gpu0.clock_reasons") == [1, 0]
    assert values(recording, "gpu0.throttle_reasons") == [0, 0]
    assert values(recording, "gpu1.throttle_reasons")[0] == 0x24
    assert math.isnan(values(recording, "gpu1.throttle_reasons")[1])


@pytest.mark.parametrize("word", ["throttle", "event"])
def test_reasons_in_columns_of_their_own_make_the_same_bits(word: str) -> None:
    table = (
        f"clocks_{word}_reasons.gpu_idle, clocks_{word}_reasons.sw_power_cap, "
        f"clocks_{word}_reasons.hw_thermal_slowdown\nNot Active, Active, Active\n"
    )
    recording = parse(table.encode())
    assert values(recording, "gpu0.throttle_reasons") == [0x44]


def test_without_units_those_of_the_header_count() -> None:
    table = "power.draw [W], clocks.mem [MHz], temperature.gpu\n 27.50, 5000, 41\n"
    recording = parse(table.encode())
    assert values(recording, "gpu0.power") == [27.5]
    assert values(recording, "gpu0.memory_frequency") == [5e9]
    assert values(recording, "gpu0.temperature") == [41]


def test_the_instant_power_is_the_power_where_it_is_asked() -> None:
    table = "power.draw [W], power.draw.instant [W], power.draw.average [W]\n10 W, 30 W, 20 W\n"
    recording = parse(table.encode())
    assert power_of(recording) == ["gpu0.power"]
    assert values(recording, "gpu0.power") == [30]
    assert values(recording, "gpu0.power_draw") == [10]
    assert values(recording, "gpu0.average_power") == [20]
    without = parse(table.replace("30 W", "[N/A]").encode())
    assert values(without, "gpu0.power") == [10]
    only = parse(table.replace("30 W", "[N/A]").replace("10 W", "[N/A]").encode())
    assert values(only, "gpu0.power") == [20]


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ("0, 2020/11/12 13:48:16.415, 99 %", "cells"),
        ("0, 2020/13/12 13:48:16.415, 99 %, 5 %, 1 MiB, 2 MiB, 3 MiB", "date"),
        ("0, 2020/11/12 13:48:16.415, many, 5 %, 1 MiB, 2 MiB, 3 MiB", "no number"),
        ("0, 2020/11/12 13:48:16.415, 99 W, 5 %, 1 MiB, 2 MiB, 3 MiB", "no unit"),
    ],
)
def test_a_damaged_row_is_named_by_its_line(row: str, problem: str) -> None:
    lines = V100.splitlines()
    with pytest.raises(FormatError, match=problem) as caught:
        parse("\n".join([*lines[:2], *[row] * 4, *lines[2:], ""]).encode())
    assert caught.value.line == 3
    recording = parse("\n".join([*lines[:3], row, *lines[3:], ""]).encode())
    assert values(recording, "gpu0.memory_free") == [1486 * 2**20] * 6
    assert any("1 line is damaged" in n and problem in n for n in recording.notes)
    assert recording.ignored["damaged line"] == 1


def test_bytes_that_are_no_text_damage_one_row_of_a_table_and_a_whole_report() -> None:
    data = TWO.encode().replace(b"61.50 W", b"61.50 W\xff")
    assert values(parse(data), "gpu0.power") == [60.5]
    with refused("bytes-not-text", "line 2"):  # which GPU came first is lost
        parse(TWO.encode().replace(b"60.50 W", b"\xff"))
    with refused("bytes-not-text", "line 8"):
        parse(report("Sun Mar 2 15:02:02 2025", [1]).encode() + b"\n\xff")


def test_a_damaged_row_of_a_table_without_times_refuses_it() -> None:
    with pytest.raises(FormatError, match="line 3"):
        parse(b"utilization.gpu [%]\n1 %\nx\n3 %\n4 %\n", interval_s=1)


@pytest.mark.parametrize("load", ["500 %", "101 %", "-1 %"])
def test_an_impossible_load_is_a_gap(load: str) -> None:
    table = f"utilization.gpu [%], utilization.memory [%], fan.speed [%]\n{load}, 100 %, 105 %\n"
    recording = parse(table.encode())
    assert math.isnan(values(recording, "gpu0.utilization")[0])
    assert values(recording, "gpu0.memory_controller_utilization") == [1]
    assert values(recording, "gpu0.fan_duty") == [1.05]  # they may turn faster, as it documents
    assert dict(recording.ignored) == {"utilization.gpu: a share below 0 or above 100 %": 1}
    xml = parse(report("Sun Mar 2 15:02:02 2025", [500, 20]).encode())
    assert math.isnan(values(xml, "gpu0.utilization")[0])
    assert values(xml, "gpu1.utilization") == [0.2]
    assert sum(xml.ignored.values()) == 1


def test_a_reason_of_a_later_release_is_counted_by_its_name() -> None:
    table = (
        "clocks_event_reasons.hot_cable, clocks_event_reasons.sw_power_cap\n"
        "Active, Active\nMaybe, Active\n"
    )
    recording = parse(table.encode(), interval_s=1)
    assert values(recording, "gpu0.throttle_reasons") == [4, 4]
    assert dict(recording.ignored) == {"clocks_event_reasons.hot_cable: no quantity of a run": 2}
    only = parse(b"clocks_event_reasons.hot_cable, power.draw [W]\nActive, 5 W\n")
    assert [channel.name for channel in only.channels] == ["gpu0.power"]


@pytest.mark.parametrize("keep", range(1, 71, 3))
def test_a_last_row_that_is_cut_gives_no_wrong_number(keep: int) -> None:
    lines = V100.splitlines()
    recording = parse("\n".join([*lines[:6], lines[6][:keep]]).encode())
    assert values(recording, "gpu0.memory_free") == [1486 * 2**20] * 5
    assert saying(recording.notes, "line 7", "left out")


def test_reasons_that_are_cut_are_not_taken_for_others() -> None:
    table = "power.draw [W], clocks_event_reasons.active\n5 W, 0x00000000000000A0\n"
    row = "6 W, 0x00000000000000A0"
    for keep in range(1, len(row) + 1):
        recording = parse((table + row[:keep]).encode(), interval_s=1)
        assert values(recording, "gpu0.throttle_reasons") == [0xA0]
        assert saying(recording.notes, "line 3", "left out")
    with refused("no-gpu-values", "line 2"):
        parse(table[:-2].encode())


def test_a_table_without_header_or_clock_says_what_to_do() -> None:
    with refused("no-header", "noheader"):
        parse(b"0, 2020/11/12 13:48:16.415, 99 %\n")
    table = b"utilization.gpu [%]\n1 %\n2 %\n"
    with refused("no-clock", "interval"):
        parse(table)
    recording = parse(table, interval_s=2)
    assert list(recording.t_ns["gpu0.utilization"]) == [0, 2 * SECOND]
    assert any("one" in note for note in recording.notes)


# --- reports ------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", REPORTS, ids=lambda path: path.stem)
def test_every_quantity_of_a_report_is_a_value_or_is_counted(path: Path) -> None:
    text = path.read_text()
    recording = parse(path.read_bytes())
    leaves = re.findall(r">\s*-?[\d.]+ (?:W|C|MHz|MiB|%|KB/s)\s*<", text)
    reasons = [c for c in recording.channels if c.role in ("clock_reasons", "throttle_reasons")]
    assert recording.values - len(reasons) + sum(recording.ignored.values()) == len(leaves)
    assert len(leaves) > 10


@pytest.mark.parametrize("path", REPORTS, ids=lambda path: path.stem)
def test_values_of_a_report_are_those_of_its_text(path: Path) -> None:
    text = path.read_text()
    recording = parse(path.read_bytes())

    def first(tag: str) -> float:
        found = re.search(rf"<{tag}>([\d.]+) ?[A-Za-z%]*</{tag}>", text)
        return math.nan if found is None else float(found[1])

    expected = {
        "gpu0.temperature": first("gpu_temp"),
        "gpu0.utilization": first("gpu_util") / 100,
        "gpu0.frequency": first("sm_clock") * 1e6,
        "gpu0.memory_frequency": first("mem_clock") * 1e6,
        "gpu0.memory_used": first("used") * 2**20,
        "gpu0.fan_duty": first("fan_speed") / 100,
    }
    for name, value in expected.items():
        assert values(recording, name) == pytest.approx([value], nan_ok=True), name


@pytest.mark.parametrize(
    ("part", "watts", "throttles_at"),
    [("tesla-t4", 26.78, 93.0), ("rtx-3060", 11.63, 95.0), ("p2000", 4.61, 101.0)],
)
def test_power_and_limits_of_three_schemas(part: str, watts: float, throttles_at: float) -> None:
    recording = parse(next(p for p in REPORTS if part in p.stem).read_bytes())
    assert values(recording, "gpu0.power") == [watts]
    assert power_of(recording) == ["gpu0.power"]
    limit = next(c.limit for c in recording.channels if c.name == "gpu0.temperature")
    assert limit == throttles_at
    assert values(recording, "gpu0.throttle_reasons") == [0]


def test_a_power_that_is_not_there_is_a_gap() -> None:
    recording = parse(next(p for p in REPORTS if "1070" in p.stem).read_bytes())
    assert math.isnan(values(recording, "gpu0.power")[0])


def report(stamp: str, loads: list[int]) -> str:
    gpus = "".join(
        f'<gpu id="{n}"><utilization><gpu_util>{load} %</gpu_util></utilization></gpu>\n'
        for n, load in enumerate(loads)
    )
    return (
        '<?xml version="1.0" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">\n'
        f"<nvidia_smi_log>\n<timestamp>{stamp}</timestamp>\n{gpus}</nvidia_smi_log>\n"
    )


def test_reports_one_after_the_other_are_a_series_for_each_gpu() -> None:
    text = report("Sun Mar 2 15:02:02 2025", [10, 20]) + report("Sun Mar 2 15:02:03 2025", [30, 40])
    recording = parse(text.encode())
    assert values(recording, "gpu0.utilization") == [0.1, 0.3]
    assert values(recording, "gpu1.utilization") == [0.2, 0.4]
    begin = 1740927722 * SECOND  # date -u -d '2025-03-02 15:02:02' +%s
    assert list(recording.t_ns["gpu1.utilization"]) == [begin, begin + SECOND]
    cut = parse((text + report("Sun Mar 2 15:02:04 2025", [1, 2])[:150]).encode())
    assert values(cut, "gpu0.utilization") == [0.1, 0.3]
    assert any("line 15 is cut" in note for note in cut.notes)


BOMB = """<?xml version="1.0"?>
<!DOCTYPE nvidia_smi_log [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>
<nvidia_smi_log><gpu><fan_speed>&b;</fan_speed></gpu></nvidia_smi_log>
"""


def test_entities_and_other_documents_are_refused() -> None:
    with refused("document-type"):
        parse(BOMB.encode())
    with pytest.raises(FormatError):
        parse(BOMB.encode("utf-16"))
    with refused("unfinished-report"):
        parse(b"<html></html>")


def test_a_damaged_report_is_named_by_its_line() -> None:
    good = report("Sun Mar 2 15:02:02 2025", [10])
    bad = good.replace("</utilization>", "")
    with pytest.raises(FormatError) as caught:
        parse((good + bad).encode())
    assert caught.value.line == 11  # six lines, then the fifth, where <gpu> ends too early
    with refused("unfinished-report"):
        parse(good[:80].encode())


def test_deep_nesting_neither_crashes_nor_hangs() -> None:
    deep = "<gpu>" * 20_000 + "</gpu>" * 20_000
    with pytest.raises(FormatError):
        parse(f"<nvidia_smi_log>{deep}</nvidia_smi_log>".encode())


# --- any bytes ----------------------------------------------------------------------------------


def check(data: bytes) -> None:
    """Values that keep what a Recording promises, or an error at a line that exists."""
    lines = range(1, data.count(b"\n") + 2)
    try:
        recording = parse(data, interval_s=0.1)
    except FormatError as error:
        if error.line in lines:
            return
        raise
    assert len({channel.name for channel in recording.channels}) == len(recording.channels)
    for channel in recording.channels:
        t_ns, value = recording.t_ns[channel.name], recording.value[channel.name]
        assert (np.diff(t_ns) > 0).all()
        assert len(t_ns) == len(value)
        assert not np.isinf(value).any()


REAL = [
    V100.encode(),
    TWO.encode(),
    report("Sun Mar 2 15:02:02 2025", [1, 2]).encode(),
    REPORTS[0].read_bytes(),
]
CUTS = st.lists(
    st.tuples(st.integers(0, 2500), st.integers(0, 40), st.binary(max_size=12)), max_size=3
)


@settings(max_examples=EXAMPLES)
@given(st.binary(max_size=300), st.sampled_from([b"", b"<", b"index, power.draw [W]\n"]))
def test_any_bytes_give_values_or_a_clear_error(data: bytes, start: bytes) -> None:
    check(start + data)


@settings(max_examples=EXAMPLES)
@given(st.lists(st.sampled_from(REAL), min_size=1, max_size=2), CUTS)
def test_damaged_files_give_values_or_a_clear_error(
    parts: list[bytes], cuts: list[tuple[int, int, bytes]]
) -> None:
    data = b"".join(parts)
    for at, length, other in cuts:
        data = data[:at] + other + data[at + length :]
    check(data)
