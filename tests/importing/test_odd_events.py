"""Events that cannot be what they say are left out, and counted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.refusals import refused
from tests.wording import assert_says

import wattstep
from wattstep.importing.importer import ImportSettings, import_run
from wattstep.importing.odd_events import TOO_FAR, TOO_LONG, TWICE
from wattstep.importing.operations import tables_of
from wattstep.importing.traces import read_trace

TEN_YEARS_US = 10 * 366 * 86_400 * 10**6


def event(name: str, ts: float, dur: float, id: int | None = None, **more: Any) -> dict[str, Any]:
    arguments = {} if id is None else {"External id": id}
    return {
        "ph": "X",
        "cat": "cpu_op",
        "name": name,
        "ts": ts,
        "dur": dur,
        "pid": 1,
        "tid": 1,
        "args": arguments,
        **more,
    }


def steps(count: int = 4) -> list[dict[str, Any]]:
    """Steps of 10 ms, each with one operation of 8 ms."""
    every = []
    for n in range(count):
        begin = 10_000 * n
        every.append(event(f"ProfilerStep#{n}", begin, 9_990, cat="user_annotation"))
        every.append(event("aten::mm", begin + 1000, 8_000, id=n))
    return every


def written(path: Path, events: list[dict[str, Any]]) -> Path:
    path.write_text(json.dumps({"traceEvents": events}))
    return path


@pytest.mark.parametrize(
    ("odd", "reason"),
    [
        (event("aten::add", 500, TEN_YEARS_US), TOO_LONG),
        (event("aten::add", TEN_YEARS_US, 5), TOO_FAR),
        (steps()[1], TWICE),
    ],
)
def test_an_event_that_cannot_be_is_left_out_and_counted(
    tmp_path: Path, odd: dict[str, Any], reason: str
) -> None:
    tables = tables_of(read_trace(written(tmp_path / "trace.json", [*steps(), odd])))
    assert tables.left_out[reason].events == 1
    assert tables.events == 9
    assert tables.rows + tables.marks + 1 == 9
    assert_says(" ".join(tables.notes), "1 events", reason)
    assert len(tables.steps["index"]) == 4


def test_a_file_that_was_joined_to_itself_counts_its_calls_once(tmp_path: Path) -> None:
    for name, events in (("once", steps()), ("twice", [*steps(), *steps()])):
        trace = written(tmp_path / f"{name}.json", events)
        import_run(ImportSettings(trace=trace), tmp_path / name)
    rows = [
        {
            row["name"]: row["calls"]["value"]
            for row in wattstep.load(tmp_path / name).document()["operations"]
        }
        for name in ("once", "twice")
    ]
    assert rows[0] == rows[1]
    assert rows[0]["aten::mm"] == 1


def test_a_file_without_numbers_that_was_joined_to_itself_counts_its_calls_once(
    tmp_path: Path,
) -> None:
    calls = [event(f"aten::op{n}", 1000 * n, 20) for n in range(12)]
    tables = tables_of(read_trace(written(tmp_path / "trace.json", [*calls, *calls])))
    assert tables.left_out[TWICE].events == 12


def test_calls_without_a_number_that_look_alike_are_two(tmp_path: Path) -> None:
    same = [event("aten::mm", 500, 20), event("aten::mm", 500, 20)]
    tables = tables_of(read_trace(written(tmp_path / "trace.json", [*steps(), *same])))
    assert TWICE not in tables.left_out
    assert tables.rows == 6


def test_a_trace_of_nothing_else_is_refused(tmp_path: Path) -> None:
    trace = written(tmp_path / "trace.json", [event("aten::add", 0, TEN_YEARS_US)])
    with refused("no-known-events", TOO_LONG):
        import_run(ImportSettings(trace=trace), tmp_path / "run")


def test_ten_years_beside_a_log_take_no_more_memory_than_ten_seconds(tmp_path: Path) -> None:
    """An event that just may be: a bit less than a year."""
    import resource

    long = event("aten::add", 40_000, 360 * 86_400 * 10**6, id=99)
    trace = written(tmp_path / "trace.json", [*steps(), long])
    log = tmp_path / "log.csv"
    log.write_text("t_s,power [W]\n" + "".join(f"{n},{n % 7}.5\n" for n in range(100)))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    import_run(ImportSettings(trace=trace, telemetry=(log,), align="none"), tmp_path / "run")
    wattstep.load(tmp_path / "run").document()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 600_000  # kB
