"""A recorded run that trained on a GPU says what the import of the same trace says, and plain sums over its file."""

from __future__ import annotations

import math
import struct
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.engines.played_profile import (
    PlayedEvent,
    PlayedProfile,
    PlayedTracer,
    Row,
    events_of,
    tree_of,
)
from tests.engines.test_device_work import TRACES, TRAINED, of_step, steps_of

from wattstep.attribution.gpu_breakdown import kernel_times, occupancies
from wattstep.attribution.tables.traced_work import traced_work
from wattstep.importing.importer import ImportSettings, import_run
from wattstep.insight.explain import SECTIONS, explain
from wattstep.insight.explain.device_gaps import idle_of_device
from wattstep.run import Run, load
from wattstep.schema.channel import Channel
from wattstep.schema.journal import (
    DEVICE_OPERATIONS,
    JOURNAL,
    OPERATIONS,
    Mark,
    samples_name,
)
from wattstep.schema.run_info import PlannedRead, RunInfo
from wattstep.store.convert import convert
from wattstep.store.files import create_folder, write_info
from wattstep.store.marks import MarkJournal

SAMPLED, AMD = TRAINED
HOUR = 3600 * 10**9
CLEAN = 6  # clean steps before each traced one


def recorded(
    path: Path, name: str, cost: float = 0.0, rails: Sequence[tuple[Channel, float]] = ()
) -> Run:
    """Each step of a trace traced, between clean ones that were shorter by a share `cost`.

    Args:
        path: Of the run.
        name: Of the trace.
        cost: What tracing adds.
        rails: Channels of power in mW and how many W each shows in the second half of steps, over
            3 W in the first; read every 5 ms.
    """
    create_folder(path)
    info = RunInfo(
        state="recording", created="2026-11-20T12:00:00+0000", workload="made", title="made",
        engine="torch", batch_size=4, threads=1, precision="fp32", processor="cuda", seed=0,
        interval_s=0.01, warmup=0, trace="every:7",
        reads=tuple(
            PlannedRead(
                number=n, sensor="made", path="-", parser="-", every=1, channels=(channel,)
            )
            for n, (channel, _) in enumerate(rails)
        ),
    )  # fmt: skip
    write_info(path, info)
    marks = MarkJournal(path / JOURNAL)
    spans: list[tuple[int, int]] = []
    events = events_of(TRACES / f"{name}.json.gz")
    cpu, gpu, index = b"", b"", 0
    for window, (step, *_) in enumerate(steps_of(name)):
        later = (
            window * HOUR
        )  # room for clean steps between two that follow each other in the trace
        begin, end = step["start_ns"] + later, step["end_ns"] + later
        phases = [
            (at + later, phase)
            for at, phase in zip(step["mark_ns"], step["mark_name"], strict=True)
        ]
        length = round((end - begin) * (1 - cost))
        for back in range(CLEAN, 0, -1):
            at = begin - back * (length + 1000)
            place = [(at + round((t - begin) * (1 - cost)), phase) for t, phase in phases]
            _step(marks, index, at, at + length, place, False)
            spans.append((at, at + length))
            index += 1
        _step(marks, index, begin, end, phases, True)
        mine = of_step(events, step["start_ns"], step["end_ns"] + 1)
        mine = [{**event, "ts": event["ts"] + later} for event in mine]
        profile = PlayedProfile(tree_of(mine), list(map(PlayedEvent, mine)))
        traced = PlayedTracer(profile, (begin, end), code=marks.code).play(phases, window, index)
        cpu, gpu, index = cpu + traced.rows, gpu + traced.device_rows, index + 1
    marks.close()
    (path / JOURNAL / OPERATIONS).write_bytes(cpu)
    (path / JOURNAL / DEVICE_OPERATIONS).write_bytes(gpu)
    for number, (_, watts) in enumerate(rails):
        times = np.concatenate([np.arange(a, b, 5_000_000) for a, b in spans])
        second = np.concatenate([np.arange(a, b, 5_000_000) - a > (b - a) / 2 for a, b in spans])
        noise = np.arange(len(times)) * 7919 % 21 - 10
        values = 1e3 * np.where(second, 3.0 + watts, 3.0) + noise
        rows = (
            struct.pack("<qqq", *row)
            for row in zip(
                times.tolist(), [0] * len(times), np.rint(values).astype(int).tolist(), strict=True
            )
        )
        (path / JOURNAL / samples_name(number)).write_bytes(b"".join(rows))
    convert(path)
    return load(path)


def _step(
    marks: MarkJournal,
    index: int,
    begin: int,
    end: int,
    phases: list[tuple[int, str]],
    traced: bool,
) -> None:
    marks.add(Mark.STEP_START, int(traced), 4.0, index, 0, begin)
    for at, phase in phases:
        marks.add(Mark.PHASE, marks.code("phase", phase), t_ns=at)
    marks.add(Mark.STEP_END, 0, math.nan, index, 0, end)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, tuple[Run, Run]]:
    """The recorded and the imported run of each trace."""
    folder = tmp_path_factory.mktemp("gpu")
    found = {}
    for name in TRAINED:
        settings = ImportSettings(trace=TRACES / f"{name}.json.gz")
        import_run(settings, folder / f"imported {name}")
        found[name] = recorded(folder / name, name), load(folder / f"imported {name}")
    return found


@pytest.mark.parametrize("name", TRAINED)
def test_kernels_and_gaps_are_those_of_the_imported_trace(
    runs: Mapping[str, tuple[Run, Run]], name: str
) -> None:
    ours, theirs = runs[name]
    (gpu,) = ours.breakdown.others
    assert ours.breakdown.others == theirs.breakdown.others
    works = [traced_work(run.breakdown).work for run in (ours, theirs)]
    assert kernel_times(works[0]) == kernel_times(works[1])
    gaps = [idle_of_device(run.breakdown, gpu) for run in (ours, theirs)]
    assert len(gaps[0]) == len(gaps[1]) == (2 if name == SAMPLED else 1)
    for one, other in zip(*gaps, strict=True):
        assert one == pytest.approx(other, abs=1e-9)
    if name == AMD:  # of the other, both steps are one stretch where all steps were traced
        assert occupancies(works[0]) == occupancies(works[1])


def test_busy_time_of_kernels_is_their_own_whatever_tracing_cost(tmp_path: Path) -> None:
    """Clean steps that are a fifth shorter: the GPU's clock has stamped kernels all the same."""
    run = recorded(tmp_path / "run", SAMPLED, cost=0.2)
    events = [e for e in events_of(TRACES / f"{SAMPLED}.json.gz") if e["cat"] == "kernel"]
    kinds: Counter[str] = Counter()
    for event in events:
        kinds[event["name"]] += event["dur"]
    breakdown = run.breakdown
    found: Counter[str] = Counter()
    for row in breakdown.operations():
        if row.processor == "gpu0":
            found[row.name] += row.figure("busy_time").value
    lengths = [step["end_ns"] - step["start_ns"] for step, *_ in steps_of(SAMPLED)]
    # The clean step right after a window only settles.
    expected = 0.8 * np.average(lengths, weights=(CLEAN, CLEAN - 1)) * 1e-9
    assert breakdown.step_time.value == pytest.approx(expected)
    for kernel, total in kinds.items():
        assert found[kernel] == pytest.approx(total * 1e-9 / 2)  # two steps


@pytest.mark.parametrize("cost", [0.0, 0.2])
def test_operations_and_rests_make_the_clean_step(tmp_path: Path, cost: float) -> None:
    run = recorded(tmp_path / "run", SAMPLED, cost)
    document = run.report().to_dict()
    step = document["metrics"]["step_time"]["value"]
    parts = [row["time"]["value"] for row in document["operations"]]
    rests = [row["time"]["value"] for row in document["rests"].values() if "time" in row]
    assert sum(parts) + sum(rests) == pytest.approx(step, rel=1e-6)


@pytest.mark.parametrize("name", TRAINED)
def test_launches_are_the_plain_sums_over_the_file(
    runs: Mapping[str, tuple[Run, Run]], name: str
) -> None:
    run, _ = runs[name]
    events = [
        e
        for step, *_ in steps_of(name)
        for e in of_step(
            events_of(TRACES / f"{name}.json.gz"), step["start_ns"], step["end_ns"] + 1
        )
    ]
    calls = {e["args"]["correlation"]: e for e in events if e["cat"] == "cuda_runtime"}
    work = [e for e in events if e["cat"] in ("kernel", "gpu_memcpy", "gpu_memset")]
    queued = [e["ts"] - calls[e["args"]["correlation"]]["ts"] for e in work]
    used = {e["args"]["correlation"] for e in work}
    (row,) = table(run, "launches")
    assert (row["pieces"], row["calls"], row["unknown"]) == (len(work), len(used), 0)
    assert row["queued"].value == pytest.approx(np.mean(queued) * 1e-9)
    assert row["longest"].value == pytest.approx(max(queued) * 1e-9)
    assert row["total"].value == pytest.approx(sum(calls[c]["dur"] for c in used) * 1e-9)
    idle = table(run, "idle")
    assert {row["stream"] for row in idle} == {int(e["args"]["stream"]) for e in work}


def table(run: Run, name: str) -> list[Row]:
    (section,) = explain(run, ["gpu"])
    (found,) = [one for one in section.tables if one.name == name]
    return list(map(dict, found.rows))


def test_every_section_and_report_tells_of_a_recorded_run_on_a_gpu(
    runs: Mapping[str, tuple[Run, Run]],
) -> None:
    run, _ = runs[SAMPLED]
    told: dict[str, Any] = {one.name: one for one in explain(run)}
    assert told.keys() == set(SECTIONS)
    assert not [one.failure for one in told.values() if one.failure]
    assert "gpu0" in " ".join(told["gpu"].sentences)
    assert "gpu0" in " ".join(told["gaps"].sentences)
    rows = run.report().to_dict()["operations"]
    assert {row.get("processor", "cpu") for row in rows} == {"cpu", "gpu0"}


@pytest.mark.parametrize("name", TRAINED)
def test_energy_of_a_real_trace_goes_by_rail_to_what_it_feeds_and_makes_the_step(
    name: str, tmp_path: Path
) -> None:
    rails = [
        (
            Channel(name=f"rail.{domain}", unit="W", kind="gauge", domain=domain, role=role,
                    source="made", scale=1e-3),
            watts,
        )
        for domain, role, watts in (
            ("gpu", "power_part", 9.0), ("cpu", "power_part", 4.0), ("memory", "power_part", 2.0),
            ("system", "power_total", 15.0),
        )
    ]  # fmt: skip
    run = recorded(tmp_path / "run", name, 0.1, rails)
    document = run.document()
    assert document["failures"] == []
    steps = run.series.steps
    clean = np.flatnonzero(steps.clean)
    rests = [row for key, row in document["rests"].items() if key != "not_resolved"]
    for rail in ("rail.gpu", "rail.cpu", "rail.memory", "rail.system"):
        curve = run.series.rails[rail].curve
        gains, covered = curve.difference(steps.start_ns[clean], steps.end_ns[clean])
        lengths = (steps.end_ns - steps.start_ns)[clean] * 1e-9
        rate = np.nansum(gains) / float((lengths * covered).sum())
        for table in ("operations", "layers", "phases", "kinds"):
            left = document["not_resolved"][table].get("energy_by_rail", {}).get(rail)
            told = sum(r["energy_by_rail"][rail]["value"] or 0.0 for r in document[table] + rests)
            told += left["value"] if left else 0.0
            assert told == pytest.approx(rate * lengths.mean(), rel=1e-6), (rail, table)
    for row in document["operations"]:
        other = "rail.cpu" if row["processor"].startswith("gpu") else "rail.gpu"
        assert row["energy_by_rail"][other]["value"] == 0
