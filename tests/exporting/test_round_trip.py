"""A run that is exported and imported again has the figures that it had, through Perfetto and through Chrome.

Stated tolerance: times of steps to 1e-9 of themselves, those of operations to a nanosecond (times are
whole nanoseconds in both formats; figures are means of them).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.run.imported.made import both
from tests.run.made import Sampled, Worked, import_made, make_run, power

from wattstep.importing.importer import ImportSettings, import_run
from wattstep.report.export.export import export_run
from wattstep.report.export.labels import label
from wattstep.run import Run, load
from wattstep.schema.figure import Figure
from wattstep.schema.journal import Mark

FIXTURES = Path(__file__).parents[1] / "fixtures"
FORMATS = {"chrome": "trace.json.gz", "perfetto": "run.perfetto-trace"}
NS = 1e-9


def live(folder: Path) -> Path:
    """Sixty steps, every sixth traced, with warm-up, phases, a window after each traced one."""
    sampled = [Sampled(channel=power(), raw=lambda t_ns: 5000)]
    return make_run(
        folder / "live", sampled, idle_ns=(10**9, 10**9), slow=lambda n: n % 5 * 10**5
    ).path


def recorded(folder: Path) -> Path:
    """By an earlier version, on a real machine."""
    return FIXTURES / "runs/schema-1"


def on_a_gpu(folder: Path) -> Path:
    """Steps of 100 ms with a kernel of 30 ms that a convolution launched."""
    return both(folder).path


def on_an_accelerator(folder: Path) -> Path:
    """One that is no GPU."""
    operations = [
        row
        for n in range(5)
        for row in (
            Worked(name="aten::mm", step=n, start=n * 100 + 10, end=n * 100 + 40, layer="fc"),
            Worked(
                name="gemm", step=n, start=n * 100 + 20, end=n * 100 + 90, processor="hpu1",
                thread=7, layer="fc", kind="matrix product",
            ),
        )
    ]  # fmt: skip
    imported = {"trace": {"file": "t.json", "format": "Kineto trace", "steps": "marked"}}
    steps = [(n * 100.0, n * 100.0 + 100) for n in range(5)]
    return import_made(folder / "hpu", imported, steps=steps, operations=operations)


def from_rocm(folder: Path) -> Path:
    """PyTorch's own trace of an AMD MI250."""
    trace = FIXTURES / "traces/kineto_amd_mi250_minitoy_train_rocm62.json.gz"
    return import_run(ImportSettings(trace=trace), folder / "rocm")


def from_cuda(folder: Path) -> Path:
    trace = FIXTURES / "traces/kineto_gpu_sampled_rank0.json.gz"
    return import_run(ImportSettings(trace=trace), folder / "cuda")


def with_turns(folder: Path) -> Path:
    """Two networks that take turns within steps: updates, marks of one moment, waits, shapes in words."""
    marked = live(folder)
    table = pq.read_table(marked / "steps.parquet").drop_columns(
        ["mark_ns", "mark_kind", "mark_name", "waited_ns"]
    )
    begins = table["start_ns"].to_pylist()
    kinds = [Mark.PHASE, Mark.PHASE, Mark.LAYER_START, Mark.LAYER_END, Mark.UPDATE,
             Mark.PHASE, Mark.PHASE, Mark.UPDATE]  # fmt: skip
    names = ["data", "forward", "fc", "fc", "critic", "forward", "optimizer", "generator"]
    # The second forward phase takes no time, and an update stands before the phase of its moment.
    after = [0, 0, 10**6, 4 * 10**6, 5 * 10**6, 5 * 10**6, 5 * 10**6, 9 * 10**6]
    traced = table["traced"].to_pylist()
    # One of ten waited for a core, and is left out.
    waited = [
        (9 * 10**6 if n == 11 else 0) if is_traced else None for n, is_traced in enumerate(traced)
    ]
    columns = {
        "mark_ns": pa.array([[t + n for n in after] for t in begins], pa.list_(pa.int64())),
        "mark_kind": pa.array([[int(k) for k in kinds]] * len(begins), pa.list_(pa.int8())),
        "mark_name": pa.array([names] * len(begins), pa.list_(pa.string())),
        "waited_ns": pa.array(waited, pa.int64()),
    }
    for name, column in columns.items():
        table = table.append_column(name, column)
    pq.write_table(table, marked / "steps.parquet")
    operations = pq.read_table(marked / "operations.parquet")
    shapes = pa.array([("8x3;scalar", "8x3;;3", "scalar", "2;3", "2x3,2", None)[n % 6] for n in range(len(operations))])  # fmt: skip
    at = operations.column_names.index("shapes")
    pq.write_table(operations.set_column(at, "shapes", shapes), marked / "operations.parquet")
    return marked


RUNS: tuple[Callable[[Path], Path], ...] = (
    live, with_turns, recorded, on_a_gpu, on_an_accelerator, from_rocm, from_cuda,
)  # fmt: skip


@pytest.fixture(scope="module", params=RUNS, ids=lambda make: make.__name__)
def original(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return load(request.param(tmp_path_factory.mktemp("original")))


@pytest.fixture(params=FORMATS)
def back(request: pytest.FixtureRequest, original: Run, tmp_path: Path) -> Run:
    file = tmp_path / FORMATS[request.param]
    export_run(original.path, request.param, file)
    return load(import_run(ImportSettings(trace=file), tmp_path / "back"))


def operations(run: Run) -> dict[tuple[Any, ...], dict[str, Any]]:
    keys = ("name", "layer", "phase", "kind", "processor")
    return {tuple(row.get(key) for key in keys): row for row in run.operations()}


def near(value: float | None, rel: float) -> Any:
    """As `approx`, which takes no missing value."""
    return None if value is None else pytest.approx(value, rel=rel, abs=NS)


def test_a_round_trip_keeps_steps_phases_operations_and_time_on_gpus(
    original: Run, back: Run
) -> None:
    steps, again = original.series.steps, back.series.steps
    assert again.index.tolist() == steps.index.tolist()
    for name in ("warmup", "traced", "clean"):
        assert getattr(again, name).tolist() == getattr(steps, name).tolist()
    assert np.diff(again.start_ns).tolist() == np.diff(steps.start_ns).tolist()
    assert (again.end_ns - again.start_ns).tolist() == (steps.end_ns - steps.start_ns).tolist()
    assert np.array_equal(again.loss, steps.loss, equal_nan=True)
    first, second = original.metrics(), back.metrics()
    for name in ("step_time", "throughput", "gpu_time"):
        assert (name in first) == (name in second)
        if name in first:
            assert second[name].value == near(first[name].value, rel=1e-9)
    # Names of more than 1,000 characters are cut in timelines.
    expected = {(label(key[0]), *key[1:]): row for key, row in operations(original).items()}
    found = operations(back)
    assert found.keys() == expected.keys()
    for key, row in expected.items():
        for name in ("time", "busy_time", "calls", "flops", "memory"):
            assert found[key][name].value == near(row[name].value, rel=1e-9), (key, name)
    phases = {row.phase: row.figure("time").value for row in original.breakdown.phases()}
    assert {
        row.phase: row.figure("time").value for row in back.breakdown.phases()
    } == pytest.approx(phases, rel=1e-9, abs=NS)
    # Energy does not come back, nor does the row that tells nothing else.
    told = original.breakdown.unattributed()
    assert "not_resolved" not in told or told.pop("not_resolved")["time"].value == 0
    rests = {name: row["time"].value for name, row in told.items()}
    assert {
        n: row["time"].value for n, row in back.breakdown.unattributed().items()
    } == pytest.approx(rests, rel=1e-9, abs=NS)


def test_a_round_trip_keeps_marks_updates_waits_kinds_of_steps_and_what_is_left_out(
    original: Run, back: Run
) -> None:
    marks, again = original.tables.marks, back.tables.marks
    moved = int(back.series.steps.start_ns[0] - original.series.steps.start_ns[0])
    assert (again.t_ns - moved).tolist() == marks.t_ns.tolist()
    for name in ("step", "kind", "name"):
        assert getattr(again, name).tolist() == getattr(marks, name).tolist()
    waited, still = (
        np.full(len(run.series.steps.index), np.nan) if each is None else each
        for run in (original, back)
        for each in (run.series.steps.waited_s,)
    )
    assert np.array_equal(still, waited, equal_nan=True)
    first, second = original.breakdown, back.breakdown
    assert second.operations_notes == first.operations_notes
    assert [row.labels for row in second.updates()] == [row.labels for row in first.updates()]
    assert [(row.kind, row.share.value) for row in second.kinds_of_steps()] == [
        (row.kind, row.share.value) for row in first.kinds_of_steps()
    ]


# Figures of a run, and of an operation, as docs/exporting.md lists them.
COMES_BACK = frozenset(
    {
        "step_time",
        "throughput",
        "gpu_time",
        "trace_inflation",
        "correction_residual",
        "operations_share",
        "compute_share",
        "data_movement_share",
        "launch_share",
    }
)
STAYS = frozenset(
    {"mean_power", "energy_per_step", "energy_per_sample", "recorded_energy",
     "energy_per_step_above_idle", "idle_power", "machine_mean_power", "machine_energy_per_step",
     "cpu_time_per_step", "cpu_utilization", "cpu_core_utilization", "idle_state_ratio",
     "process_cpu_cores", "steal", "peak_memory", "system_peak_memory", "tracing_memory",
     "memory_breakdown", "recording_overhead"}
)  # fmt: skip
OPERATION_COMES_BACK = frozenset(
    {"time", "busy_time", "share", "calls", "flops", "bytes", "memory"}
)
OPERATION_STAYS = frozenset({"energy", "power", "cpu_utilization"})


def figures(thing: Any) -> list[Figure]:
    """All with a value, of a figure, or of a mapping or sequence of some."""
    if isinstance(thing, Figure):
        return [] if thing.missing else [thing]
    parts = thing.values() if isinstance(thing, Mapping) else thing
    return [figure for part in parts for figure in figures(part)]


def told(run: Run) -> dict[str, list[float | None]]:
    found = {name: figures(thing) for name, thing in run.metrics().items()}
    return {name: [figure.value for figure in some] for name, some in found.items() if some}


def told_of_operations(run: Run) -> set[str]:
    rows = run.operations()
    return {
        name
        for row in rows
        for name, value in row.items()
        if isinstance(value, Figure) and not value.missing
    }


def test_a_round_trip_keeps_the_figures_that_are_documented_and_no_other(
    original: Run, back: Run
) -> None:
    before, after = told(original), told(back)
    assert before.keys() <= COMES_BACK | STAYS
    assert after.keys() == before.keys() & COMES_BACK
    for name, values in after.items():
        assert values == [near(value, rel=1e-9) for value in before[name]], name
    columns = told_of_operations(original)
    assert columns <= OPERATION_COMES_BACK | OPERATION_STAYS
    assert told_of_operations(back) == columns & OPERATION_COMES_BACK


def test_the_document_lists_what_comes_back_and_what_does_not() -> None:
    page = (Path(__file__).parents[2] / "docs/exporting.md").read_text()
    there_and_back = page.partition("## There and back")[2].partition("\n## ")[0]
    rows = [line.split("|") for line in there_and_back.splitlines() if line.startswith("|")][2:]
    listed = [
        tuple(set(re.findall(r"`(\w+)`", cell)) for cell in (comes, stays))
        for _, _, comes, stays, _ in rows
    ]
    assert listed == [(COMES_BACK, STAYS), (OPERATION_COMES_BACK, OPERATION_STAYS)]


def test_a_round_trip_of_a_run_of_our_own_keeps_all_shapes(tmp_path: Path) -> None:
    run = load(with_turns(tmp_path))
    expected = [text or "" for text in run.tables.table("operations")["shapes"].to_pylist()]
    for name, file in FORMATS.items():
        export_run(run.path, name, tmp_path / file)
        back = load(import_run(ImportSettings(trace=tmp_path / file), tmp_path / f"back-{name}"))
        found = back.tables.table("operations")["shapes"].to_pylist()
        assert [text or "" for text in found] == expected


def test_a_round_trip_adds_no_note_and_leaves_no_operation_out(original: Run, back: Run) -> None:
    assert back.info.notes == ()
    assert back.tables.count("operations") == original.tables.count("operations")


def test_the_name_of_its_steps_may_be_given(tmp_path: Path) -> None:
    """As documents said before exports were known by themselves."""
    path = live(tmp_path)
    export_run(path, "perfetto", tmp_path / "p.perfetto-trace")
    settings = ImportSettings(trace=tmp_path / "p.perfetto-trace", step_name=r"^step \d+")
    run = load(import_run(settings, tmp_path / "back"))
    assert len(run.series.steps.index) == 60
    assert run.metrics()["step_time"].value == pytest.approx(
        load(path).metrics()["step_time"].value, rel=1e-9
    )
