"""Exports of a run of which old samples were thinned tell of all of them, by sums over the rows that were made."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from tests.exporting.schema import read
from tests.store.test_thinning import BEGIN, CHANNELS, FAILED, KEEP, ROWS, TICKS, WRAP, a_long_run

from wattstep.report.export.export import export_run
from wattstep.store.convert import convert

GOOD = ROWS[ROWS[:, 1] == 0]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("thinned") / "run"
    convert(a_long_run(path, KEEP).path)
    return path


@pytest.fixture(scope="module")
def tables(run: Path) -> Path:
    export_run(run, "parquet", run.parent / "tables")
    return run.parent / "tables"


@pytest.fixture(scope="module", params=["chrome", "perfetto"])
def values(run: Path, request: pytest.FixtureRequest) -> dict[str, list[tuple[int, float]]]:
    """Times in ns since the first sample, and values, by counter."""
    target = run.parent / f"trace.{request.param}"
    export_run(run, request.param, target)
    found: dict[str, list[tuple[int, float]]] = {}
    if request.param == "perfetto":
        for name, pairs in read(target).values.items():
            found[name] = [(t_ns - BEGIN, value) for t_ns, value in pairs]
        return found
    for event in json.loads(target.read_bytes())["traceEvents"]:
        if event["ph"] == "C":
            (value,) = event["args"].values()
            found.setdefault(event["name"], []).append((round(event["ts"] * 1000), value))
    return found


def held(pairs: list[tuple[int, float]]) -> float:
    """Integral over s of values that hold until the next."""
    t_ns, value = np.array([t for t, _ in pairs]), np.array([v for _, v in pairs])
    return float((value[:-1] * np.diff(t_ns)).sum() * 1e-9)


def test_tables_of_samples(tables: Path) -> None:
    samples, thinned = (pq.read_table(tables / f"{n}.parquet") for n in ("samples", "thinned"))
    for column, channel in enumerate(CHANNELS, 2):
        single = [row for row in samples.to_pylist() if row["channel"] == channel.name]
        stretches = [row for row in thinned.to_pylist() if row["channel"] == channel.name]
        assert {row["unit"] for row in stretches} == {channel.unit}
        assert len(single) + sum(row["reads"] for row in stretches) == TICKS
        total = sum(row["value"] or 0.0 for row in single)
        total += sum(row["sum"] or 0.0 for row in stretches)
        assert total == pytest.approx(GOOD[:, column].sum() * channel.scale, rel=1e-9)


def test_numbers_of_samples(tables: Path) -> None:
    for row in pq.read_table(tables / "channels.parquet").to_pylist():
        assert (row["samples"], row["failed_reads"]) == (len(GOOD), TICKS - len(GOOD))


def test_values_of_a_gauge(values: dict[str, Any]) -> None:
    for name, column, scale in (("board.power", 2, 1e-3), ("zone.temperature", 3, 0.1)):
        made = list(zip(GOOD[:, 0].tolist(), (GOOD[:, column] * scale).tolist(), strict=True))
        assert len(values[name]) < 0.45 * len(made)
        assert held(values[name]) == pytest.approx(held(made), rel=1e-5)


def test_rates_of_a_counter(values: dict[str, Any]) -> None:
    """Until reads failed: what it counted, wraps undone."""
    steps = np.diff(ROWS[: FAILED.start, 4])
    counted = np.where(steps < 0, steps + WRAP, steps).sum() * 1e-3
    until = int(ROWS[FAILED.start - 1, 0]) - BEGIN
    first = int(ROWS[0, 0]) - BEGIN
    shift = values["rapl.core, rate"][0][0] - first  # Chrome's times count from the first of all
    pairs = [(t - shift, v) for t, v in values["rapl.core, rate"] if t - shift < until]
    assert held([*pairs, (until, 0.0)]) == pytest.approx(counted, rel=1e-6)


def test_gaps(run: Path) -> None:
    target = run.parent / "gaps.json"
    export_run(run, "chrome", target)
    events = json.loads(target.read_bytes())["traceEvents"]
    gaps = [e for e in events if e["ph"] == "X" and e["cat"] == "gap" and e["args"]]
    lasting = sorted({round(event["dur"] / 1e6) for event in gaps})
    assert lasting == [3, 7]  # the pause, and the failed reads
    assert {e["args"]["failed_reads"] for e in gaps if round(e["dur"] / 1e6) == 7} == {700}
