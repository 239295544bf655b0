"""Gaps of runs whose timelines are known: causes, and that they add up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.explaining.made import MS, imported, ran_on_gpu, trained, worked
from tests.explaining.test_processors import machine
from tests.wording import assert_says, saying

from wattstep.attribution.gaps import COPY, DISPATCH, LAUNCHED, SYNCHRONISATION, WAITING
from wattstep.insight.advise.facts import Facts
from wattstep.insight.explain.device_gaps import DATA, FRAMEWORK, OPTIMIZER
from wattstep.insight.explain.gaps import KEPT, WORKERS, gaps
from wattstep.insight.explain.operations import work_of
from wattstep.insight.explain.section import Section
from wattstep.run import load
from wattstep.schema.figure import Figure, Missing
from wattstep.schema.operation_kinds import WORKER_WAIT


def value(figure: Figure) -> float:
    assert figure.value is not None, figure.reason
    return figure.value


def times(section: Section, table: str = "causes") -> dict[str, float]:
    rows = next(one.rows for one in section.tables if one.name == table)
    return {row["cause"]: value(row["time"]) for row in rows}


def test_a_step_that_is_all_operations_has_no_gaps(tmp_path: Path) -> None:
    found = gaps(load(trained(tmp_path / "run")))
    assert value(found.figures["idle_time"]) == pytest.approx(0.0, abs=1e-6)


def test_waits_of_a_plans_workers_are_a_cause_of_their_own(tmp_path: Path) -> None:
    # 20 ms. Worker 1 computes 0-8, waits 8-12 for worker 2, which computes 2-11: 11-12 nothing runs and one waits;
    # 12-13 neither; worker 1 computes 13-18, worker 2 waits 12-18 for its end, 18-20 is nobody's.
    rows = [
        worked("aten::mm", 0, 0, 8, thread=1),
        worked("aten::relu", 0, 2, 11, thread=2),
        worked(WORKER_WAIT, 0, 8, 12, thread=1, kind="scope", phase="scheduled"),
        worked(WORKER_WAIT, 0, 12.5, 18, thread=2, kind="scope", phase="scheduled"),
        worked("aten::add_", 0, 13, 18, thread=1),
    ]
    run = load(imported(tmp_path / "run", rows, end=20))
    found = gaps(run)
    assert times(found) == pytest.approx({WORKERS: 0.0015, FRAMEWORK: 0.0025})
    assert value(found.figures["idle_workers"]) == pytest.approx(0.0015)
    operations = sum(value(row["time"]) for row in run.operations())
    assert operations == pytest.approx(0.016)
    [table] = [one for one in found.tables if one.name == "workers"]
    assert [value(row["operations"]) for row in table.rows] == pytest.approx([13 / 20, 9 / 20])
    assert [value(row["waiting"]) for row in table.rows] == pytest.approx([4 / 20, 5.5 / 20])
    assert all(one.name != "modules" for one in found.tables)


def test_causes_add_up_to_what_no_operation_covers(tmp_path: Path) -> None:
    # 30 ms: an operation 5-10, module code 12-16 around another 13-15, the optimizer 20-29 around
    # operations 21-23 and 25-26.
    rows = [
        worked("aten::mm", 0, 5, 10),
        worked("module code", 0, 12, 16, kind="scope", layer="head"),
        worked("aten::relu", 0, 13, 15, layer="head"),
        worked("Optimizer.step#SGD.step", 0, 20, 29, kind="scope", phase="optimizer"),
        worked("aten::add_", 0, 21, 23, phase="optimizer"),
        worked("aten::add_", 0, 25, 26, phase="optimizer"),
    ]
    path = imported(tmp_path / "run", _nested(rows), end=30)
    run = load(path)
    found = gaps(run)
    assert times(found) == pytest.approx({FRAMEWORK: 0.014, OPTIMIZER: 0.006})
    idle = value(found.figures["idle_time"])
    operations = sum(value(row["time"]) for row in run.operations())
    assert idle + operations == pytest.approx(0.030)
    modules = next(table for table in found.tables if table.name == "modules")
    own = {row["layer"]: value(row["time"]) for row in modules.rows}
    assert own["head"] == pytest.approx(0.002)


def _nested(rows: list) -> list:  # type: ignore[type-arg]
    """Rows with the position of the scope that encloses each."""
    from dataclasses import replace

    result = []
    for row in rows:
        around = [
            n for n, other in enumerate(rows)
            if other.kind == "scope" and other is not row and other.start <= row.start < other.end
        ]  # fmt: skip
        result.append(replace(row, inside=around[-1] if around else None))
    return result


def test_what_lies_in_the_phase_of_the_data_is_data_loading(tmp_path: Path) -> None:
    # Of 5 ms in the phase `data`, an operation of the phase covers 2 (see `make_run`).
    path = trained(
        tmp_path / "run", phases=(("data", 2 * MS), ("forward", 8 * MS), ("data", 3 * MS))
    )
    _drop_operations(path, "data-op")
    found = gaps(load(path))
    assert times(found)[DATA] == pytest.approx(0.005, rel=0.05)


def _drop_operations(path: Path, name: str) -> None:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    file = path / "operations.parquet"
    table = pq.read_table(file)
    pq.write_table(table.filter(pc.not_equal(table["name"].cast(pa.string()), name)), file)


def test_a_gpu_waits_for_the_host_and_then_for_the_driver(tmp_path: Path) -> None:
    found = gaps(load(ran_on_gpu(tmp_path / "run")))
    # The GPU has nothing to do 0-40 and 90-100; its kernel was launched at 30.
    assert times(found, "gpu0") == pytest.approx(
        {DATA: 0.020, DISPATCH: 0.010, LAUNCHED: 0.010, FRAMEWORK: 0.010}
    )
    # The host carries out nothing 0-20 (data), 50-60 and 90-100 (code), 60-90 (waits).
    assert times(found, "host") == pytest.approx({DATA: 0.020, FRAMEWORK: 0.020, WAITING: 0.030})
    assert saying(found.sentences, "gpu0", "nothing for 50 %")


def test_a_gpu_waits_for_a_copy_and_for_a_synchronisation(tmp_path: Path) -> None:
    """100 ms: a copy 10-40 beside which a kernel runs from 30, to 60; the host waits 20-70, asks at 80."""
    rows = [
        worked("aten::copy_", 0, 0, 8),
        worked("cudaMemcpyAsync", 0, 5, 8, kind="runtime call", inside=0),
        worked("aten::mm", 0, 8, 15, kind="matrix product"),
        worked("cudaLaunchKernel", 0, 10, 12, kind="runtime call", inside=2),
        worked("Memcpy HtoD (Pinned -> Device)", 0, 10, 40, processor="gpu0", thread=20),
        worked("cudaStreamSynchronize", 0, 20, 70, kind="runtime call"),
        worked("gemm", 0, 30, 60, processor="gpu0", thread=7, kind="matrix product"),
        worked("cudaLaunchKernel", 0, 80, 82, kind="runtime call"),
        worked("gemm", 0, 85, 100, processor="gpu0", thread=7, kind="matrix product"),
    ]
    path = imported(tmp_path / "run", rows, end=100, launch={4: 1, 6: 3, 8: 7})
    found = gaps(load(path))
    assert times(found, "gpu0") == pytest.approx(
        {
            COPY: 0.020,  # 10-30
            SYNCHRONISATION: 0.010,  # 60-70
            FRAMEWORK: 0.010,  # 70-80
            LAUNCHED: 0.010,  # 5-10 and 80-85
            DISPATCH: 0.005,  # 0-5
        }
    )


def test_time_in_which_nothing_ran_at_all_is_told_apart_from_waiting(tmp_path: Path) -> None:
    run = load(ran_on_gpu(tmp_path / "run"))
    # Neither host nor GPU does anything 0-20 and 90-100.
    assert value(gaps(run).figures["idle_time"]) == pytest.approx(0.030)


def test_what_keeps_the_training_from_running_is_a_cause_of_its_own(tmp_path: Path) -> None:
    # Every step of 20 ms uses 15 ms of CPU time; half of the step is without operations.
    path = trained(tmp_path / "run", phases=(("forward", 10 * MS), ("backward", 10 * MS)))
    _drop_operations(path, "backward-op")
    _set_cpu(path, 15 * MS)
    found = gaps(load(path))
    # 5 ms of 20 it did not run: of the 10 ms of gaps, 2.5.
    assert value(found.figures["not_running_time"]) == pytest.approx(0.005, rel=0.02)
    assert times(found) == pytest.approx({FRAMEWORK: 0.0075, KEPT: 0.0025}, rel=0.05)


def test_advice_counts_as_code_between_operations_what_the_section_of_gaps_does(
    tmp_path: Path,
) -> None:
    path = trained(tmp_path / "run", phases=(("forward", 10 * MS), ("backward", 10 * MS)))
    _drop_operations(path, "backward-op")
    _set_cpu(path, 15 * MS)
    run = load(path)
    work = work_of(run)
    assert not isinstance(work, Missing)
    assert value(Facts(run, work).time_between) == pytest.approx(0.0075, rel=0.05)


def test_data_that_are_too_short_to_tell_are_taken_to_be_waited_for(tmp_path: Path) -> None:
    # 20 ms: 1 ms of data and 10 ms of backward without operations; it does not run for 3 ms.
    phases = (("data", 1 * MS), ("forward", 9 * MS), ("backward", 10 * MS))
    path = trained(tmp_path / "run", phases=phases)
    _drop_operations(path, "backward-op")
    _drop_operations(path, "data-op")
    _set_cpu(path, 17 * MS)
    # 1 ms of them is the data; the other 2 are spread over 19 ms, of which 10 are a gap.
    kept = 2 * 10 / 19
    expected = {DATA: 0.001, FRAMEWORK: (10 - kept) / 1e3, KEPT: kept / 1e3}
    assert times(gaps(load(path))) == pytest.approx(expected, rel=0.05)


def test_samples_tell_it_where_the_process_read_no_clock(tmp_path: Path) -> None:
    path = trained(tmp_path / "run", sampled=machine(training=0.75, system=1.75), steps=120)
    figure = gaps(load(path)).figures["not_running_time"]
    assert value(figure) == pytest.approx(0.005, rel=0.02)  # a quarter of 20 ms
    assert figure.status.value == "measured"


def test_a_clock_that_was_read_now_and_then_tells_it_of_the_steps_between(tmp_path: Path) -> None:
    path = trained(tmp_path / "run", steps=120, phases=(("forward", 20 * MS),))
    # Three quarters of a core all the while, read at the end of each fifth step.
    ends = pq.read_table(path / "steps.parquet")["end_ns"].to_numpy()
    unread = np.arange(len(ends)) % 5 != 0
    _write_clock(path, np.zeros(len(ends)), (0.75 * ends).astype(np.int64), unread)
    figure = gaps(load(path)).figures["not_running_time"]
    assert value(figure) == pytest.approx(0.005, rel=0.02)
    assert "CPU clock" in (figure.source or "")


def _set_cpu(path: Path, cpu_ns: int) -> None:
    """So much CPU time in each step, read at all begins and ends."""
    begin = np.arange(len(pq.read_table(path / "steps.parquet")), dtype=np.int64) * cpu_ns
    _write_clock(path, begin, begin + cpu_ns, None)


def _write_clock(path: Path, begin: Any, end: Any, unread: Any) -> None:
    """The CPU clock at begins and ends; where a mask says so the ends alone, and not all of them."""
    table = pq.read_table(path / "steps.parquet")
    never = None if unread is None else np.ones(len(table), bool)
    for name, values, mask in (("cpu_start_ns", begin, never), ("cpu_end_ns", end, unread)):
        at = table.schema.get_field_index(name)
        table = table.set_column(at, name, pa.array(values, type=pa.int64(), mask=mask))
    pq.write_table(table, path / "steps.parquet")


def test_several_threads_do_not_tell_which_of_them_waited(tmp_path: Path) -> None:
    found = gaps(load(trained(tmp_path / "run", info={"threads": 4})))
    assert found.figures["not_running_time"].missing
    assert "one thread" in (found.figures["not_running_time"].reason or "")


def test_one_step_gives_times_without_intervals(tmp_path: Path) -> None:
    rows = [worked("aten::mm", 0, 5, 10)]
    path = imported(tmp_path / "run", rows, end=30)
    figure = gaps(load(path)).figures["idle_time"]
    assert value(figure) == pytest.approx(0.025)
    assert figure.low is None
    assert figure.n == 1


def test_a_run_without_operations_says_why(tmp_path: Path) -> None:
    found = gaps(load(trained(tmp_path / "run", trace="none")))
    assert_says(found.reason, "--trace none")
