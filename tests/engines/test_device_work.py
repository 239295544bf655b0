"""Work on a GPU in live traces: real ones played as the profiler's own events become what the importer makes of them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.engines.played_profile import (
    ON_GPU,
    OldEvent,
    PlayedEvent,
    PlayedGpu,
    PlayedProfile,
    PlayedTracer,
    Row,
    allocation,
    events_of,
    operation,
    tree_of,
)
from tests.wording import assert_says

from wattstep.engines.torch.gpu_trace import FIRST_USED, NOT_SEEN
from wattstep.errors import RecordingError
from wattstep.importing.operations import TraceTables, tables_of
from wattstep.importing.traces import read_trace

TRACES = Path(__file__).parent.parent / "fixtures" / "traces"
TRAINED = ("kineto_gpu_sampled_rank0", "kineto_amd_mi250_minitoy_train_rocm62")
PLAYED = (*TRAINED, "kineto_gpu_simple_add", "kineto_triton_example")
WORK = ("kernel", "gpu_memcpy", "gpu_memset")


def imported(name: str) -> TraceTables:
    return tables_of(read_trace(TRACES / f"{name}.json.gz"))


def rows_of(tables: TraceTables) -> list[Row]:
    rows: list[Row] = []
    for batch in tables.operations():
        columns = {
            key: column if isinstance(column, pa.Array) else pa.array(column)
            for key, column in batch.items()
        }
        rows += pa.table(columns).to_pylist()
    return rows


def of_step(events: list[Row], begin: int, end: int) -> list[Row]:
    """The events of a step: those that begin in it, and what they launched."""
    inside = [e for e in events if e["cat"] not in ON_GPU and begin <= e["ts"] < end]
    inside = [e for e in inside if not e["name"].startswith("ProfilerStep#")]
    calls = {e["args"]["correlation"] for e in inside if "correlation" in e["args"]}
    return inside + [
        e for e in events
        if e["cat"] in ON_GPU
        and (e["args"]["correlation"] in calls if "correlation" in e["args"] else begin <= e["ts"] < end)
    ]  # fmt: skip


def played(
    events: list[Row], begin: int, end: int, phases: Any = (), kind: Any = PlayedEvent
) -> Any:
    """Rows of the CPU and of GPUs that the tracer makes of events."""
    tracer = PlayedTracer(PlayedProfile(tree_of(events), list(map(kind, events))), (begin, end))
    return tracer.read(tracer.play(phases))


def steps_of(name: str) -> list[tuple[Row, list[Row], list[Row], list[Row]]]:
    """Each step with the importer's rows, and the tracer's of the CPU and of GPUs."""
    tables, events = imported(name), events_of(TRACES / f"{name}.json.gz")
    of_importer = rows_of(tables)
    found = []
    columns = {
        key: list(map(_plain, tables.steps[key]))
        for key in ("index", "start_ns", "end_ns", "mark_ns", "mark_name")
    }
    for values in zip(*columns.values(), strict=True):
        step = dict(zip(columns, values, strict=True))
        phases = list(zip(step["mark_ns"], step["mark_name"], strict=True))
        mine = of_step(events, step["start_ns"], step["end_ns"] + 1)
        cpu, gpu = played(mine, step["start_ns"], step["end_ns"], phases)
        found.append((step, [r for r in of_importer if r["step"] == step["index"]], cpu, gpu))
    return found


def _plain(value: Any) -> Any:
    return value.as_py() if isinstance(value, pa.Scalar) else int(value)


def described(rows: list[Row], keys: tuple[str, ...]) -> Counter[Any]:
    """How often each row is there; parent and launch are told by their own name and times."""

    def named(at: Any) -> Any:
        return (
            None
            if at is None or at < 0
            else tuple(rows[at][k] for k in ("name", "start_ns", "end_ns"))
        )

    links = {"parent": named, "launch": named}
    return Counter(tuple(links[k](row[k]) if k in links else row[k] for k in keys) for row in rows)


def joined(cpu: list[Row], gpu: list[Row]) -> list[Row]:
    """As conversion puts them together."""
    return [{**row, "processor": "cpu", "launch": None} for row in cpu] + gpu


@pytest.mark.parametrize("name", PLAYED)
def test_rows_of_a_real_trace_are_those_of_the_importer(name: str) -> None:
    keys = ("name", "kind", "processor", "start_ns", "end_ns", "parent", "launch")
    for _, of_importer, cpu, gpu in steps_of(name):
        assert described(joined(cpu, gpu), keys) == described(of_importer, keys)
        outermost = {
            (r["name"], r["start_ns"], r["end_ns"]): bool(r["outermost"]) for r in joined(cpu, gpu)
        }
        assert outermost == {
            (r["name"], r["start_ns"], r["end_ns"]): r["outermost"] for r in of_importer
        }
        streams = described(gpu, ("thread", "start_ns", "processor"))
        on_gpu = [r for r in of_importer if r["processor"] != "cpu"]
        assert streams == described(on_gpu, ("thread", "start_ns", "processor"))


@pytest.mark.parametrize("name", TRAINED)
def test_phases_of_kernels_are_those_of_what_launched_them_as_the_importer_has_them(
    name: str,
) -> None:
    for _, of_importer, cpu, gpu in steps_of(name):
        keys = ("name", "processor", "start_ns", "phase")
        assert described(joined(cpu, gpu), keys) == described(of_importer, keys)
        assert {row["phase"] for row in gpu} >= {"forward", "backward", "optimizer"}


@pytest.mark.parametrize("name", PLAYED)
def test_work_of_a_real_trace_adds_up_to_the_plain_sums_over_its_file(name: str) -> None:
    events = [e for e in events_of(TRACES / f"{name}.json.gz") if e["cat"] in WORK]
    found = [row for _, _, _, gpu in steps_of(name) for row in gpu]
    assert len(found) == len(events) > 0
    sums: Counter[Any] = Counter()
    for event in events:
        sums[event["name"], f"gpu{event['args']['device']}"] += event["dur"]
    ours: Counter[Any] = Counter()
    for row in found:
        ours[row["name"], row["processor"]] += row["end_ns"] - row["start_ns"]
    assert ours == sums
    moved = sum(int(e["args"].get("bytes", 0)) for e in events if e["cat"] != "kernel")
    assert sum(max(row["bytes"], 0) for row in found) == moved


def test_older_releases_that_do_not_tell_what_an_event_is_give_the_same_rows() -> None:
    for name in PLAYED:
        tables, events = imported(name), events_of(TRACES / f"{name}.json.gz")
        begin = _plain(tables.steps["start_ns"][0])
        end = _plain(tables.steps["end_ns"][0])
        mine = of_step(events, begin, end + 1)
        new, old = (played(mine, begin, end, kind=kind) for kind in (PlayedEvent, OldEvent))
        keys = ("name", "start_ns", "end_ns", "thread", "phase")
        assert [described(rows, keys) for rows in old] == [described(rows, keys) for rows in new]


# --- made by hand --------------------------------------------------------------------------------

MAIN, AUTOGRAD = 100, 200


def call(name: str, start: int, end: int, tid: int, correlation: int, asker: int = 0) -> Row:
    args = {"correlation": correlation, **({"External id": asker} if asker else {})}
    return {
        "cat": "cuda_runtime",
        "name": name,
        "pid": 1,
        "tid": tid,
        "ts": start,
        "dur": end - start,
        "args": args,
    }


def work(
    name: str,
    start: int,
    end: int,
    correlation: int,
    asker: int = 0,
    stream: int = 7,
    cat: str = "kernel",
    **args: Any,
) -> Row:
    args |= {"correlation": correlation, "device": 0, "stream": stream}
    args |= {"External id": asker} if asker else {}
    return {
        "cat": cat,
        "name": name,
        "pid": 0,
        "tid": stream,
        "ts": start,
        "dur": end - start,
        "args": args,
    }


def cpu_event(name: str, tid: int) -> Row:
    """What torch's flat list has of an operation, by which threads are told apart."""
    return {"cat": "cpu_op", "name": name, "pid": 1, "tid": tid, "ts": 0, "dur": 0, "args": {}}


def traced(tree: list[Any], events: list[Row], phases: Any = (), **fields: Any) -> Any:
    gpu = fields.pop("gpu", None)
    tracer = PlayedTracer(PlayedProfile(tree, list(map(PlayedEvent, events))), (100, 900), gpu)
    found = tracer.play(phases)
    return tracer, found, *tracer.read(found)


def test_kernels_of_two_streams_have_the_operation_and_layer_that_launched_each() -> None:
    tracer = PlayedTracer(PlayedProfile([], []), (100, 900))
    tracer._layers.paths = lambda: {"wattstep.layer:0": "conv1"}  # type: ignore[method-assign]
    tracer._played.tree += [
        operation("wattstep.layer:0", 100, 300, MAIN),
        operation("aten::conv2d", 110, 290, MAIN, 1),
        operation("aten::relu", 310, 390, MAIN, 2),
    ]
    tracer._played.flat += map(
        PlayedEvent,
        [
            call("cudaLaunchKernel", 120, 130, MAIN, 51, 1),
            call("cudaLaunchKernel", 140, 150, MAIN, 52, 1),
            call("cudaLaunchKernel", 320, 330, MAIN, 53, 2),
            work("implicit_gemm", 200, 500, 51, 1, stream=7),
            work("bias", 210, 260, 52, 1, stream=13),
            work("relu_kernel", 500, 600, 53, 2, stream=7),
        ],
    )
    cpu, gpu = tracer.read(tracer.play())
    assert [row["name"] for row in cpu] == [
        "module code", "aten::conv2d", "cudaLaunchKernel", "cudaLaunchKernel", "aten::relu", "cudaLaunchKernel",
    ]  # fmt: skip
    assert [row["parent"] for row in cpu] == [-1, 0, 1, 1, -1, 4]
    assert [row["outermost"] for row in cpu] == [0, 1, 0, 0, 1, 0]
    assert [row["layer"] for row in cpu] == ["conv1"] * 4 + ["(outside modules)"] * 2
    assert [(r["name"], r["launch"], r["layer"], r["kind"]) for r in gpu] == [
        ("implicit_gemm", 2, "conv1", "convolution"),
        ("bias", 3, "conv1", "convolution"),
        ("relu_kernel", 5, "(outside modules)", "activation"),
    ]
    first, second, third = (row["thread"] for row in gpu)
    assert first == third != second
    assert {row["rows"] for row in gpu} == {3}
    assert {row["processor"] for row in gpu} == {"gpu0"}


def test_all_kernels_of_a_graph_have_its_launch() -> None:
    tree = [operation("aten::graph", 110, 200, MAIN, 1)]
    events = [
        call("cudaGraphLaunch", 120, 180, MAIN, 60, 1),
        *(work(f"kernel {n}", 200 + 50 * n, 240 + 50 * n, 60, 1) for n in range(5)),
    ]
    _, _, cpu, gpu = traced(tree, events)
    assert [cpu[row["launch"]]["name"] for row in gpu] == ["cudaGraphLaunch"] * 5


def test_backward_kernels_have_the_layer_of_their_forward_operation_though_another_thread_launched_them() -> (
    None
):
    tracer = PlayedTracer(PlayedProfile([], []), (100, 900))
    tracer._layers.paths = lambda: {"wattstep.layer:0": "fc"}  # type: ignore[method-assign]
    forward = operation("wattstep.layer:0", 100, 200, MAIN)
    node = operation(
        "autograd::engine::evaluate_function: AddmmBackward0", 400, 480, AUTOGRAD, 3, 77
    )
    # torch hangs it below what the forward thread has open, and behind a kernel that it nests there.
    strange = operation("long kernel", 210, 700, MAIN)
    strange.tag = None
    strange.children = [operation("aten::mse_loss", 220, 240, MAIN, 2, 78), node]
    node.children = [operation("aten::mm", 410, 470, AUTOGRAD, 4)]
    tracer._played.tree += [forward, operation("aten::addmm", 110, 190, MAIN, 1, 77), strange]
    tracer._played.flat += map(
        PlayedEvent,
        [
            cpu_event("aten::mm", AUTOGRAD),
            call("cudaLaunchKernel", 120, 130, MAIN, 51, 1),
            call("cudaLaunchKernel", 420, 430, AUTOGRAD, 52, 4),
            work("forward gemm", 210, 700, 51, 1),
            work("backward gemm", 700, 800, 52, 4),
        ],
    )
    cpu, gpu = tracer.read(tracer.play([(99, "forward"), (390, "backward")]))
    told = {row["name"]: (row["layer"], row["phase"], row["parent"]) for row in cpu}
    assert told["aten::mse_loss"] == ("(outside modules)", "forward", -1)
    assert told["aten::mm"] == ("fc", "backward", [r["name"] for r in cpu].index("AddmmBackward0"))
    assert [(row["name"], row["layer"], row["phase"]) for row in gpu] == [
        ("forward gemm", "fc", "forward"),
        ("backward gemm", "fc", "backward"),
    ]


def test_a_kernel_of_unknown_launch_has_no_layer_phase_or_launch_and_waits_are_no_work() -> None:
    events = [
        work("lost", 200, 300, 99),
        work("Stream Sync", 300, 400, 98, cat="cuda_sync"),
        work("step", 200, 400, 0, cat="gpu_user_annotation"),
        work("Memcpy HtoD (Pageable -> Device)", 400, 450, 97, cat="gpu_memcpy", bytes=4096),
        work("Memset (Device)", 450, 460, 96, cat="gpu_memset", bytes=64),
        call("cudaMemsetAsync", 150, 160, MAIN, 96),
    ]
    _, _, cpu, gpu = traced([], events)
    assert [
        (r["name"], r["layer"], r["phase"], r["launch"], r["kind"], r["bytes"]) for r in gpu
    ] == [
        ("lost", None, None, -1, "other", -1),
        ("Memcpy HtoD (Pageable -> Device)", None, None, -1, "data movement", 4096),
        ("Memset (Device)", "(outside modules)", "forward", 0, "data movement", 64),
    ]
    assert [(row["name"], row["kind"]) for row in cpu] == [("cudaMemsetAsync", "runtime call")]


def test_our_own_waiting_at_the_end_is_no_part_of_the_step() -> None:
    gpu = PlayedGpu()
    tree = [operation("aten::add", 110, 200, MAIN, 1)]
    events = [
        call("cudaLaunchKernel", 120, 130, MAIN, 51, 1),
        call("cudaDeviceSynchronize", 905, 2000, MAIN, 52),
        work("add", 300, 1990, 51, 1),
    ]
    tracer, _, cpu, found = traced(tree, events, gpu=gpu)
    assert tracer._played.options["use_device"] == "cuda"
    assert gpu.waits == 2  # before the window and after the step, never in between
    assert [row["name"] for row in cpu] == ["aten::add", "cudaLaunchKernel"]
    assert [row["end_ns"] for row in found] == [1990]  # what the step asked for is all of it there


def test_where_no_gpu_was_used_it_is_neither_waited_for_nor_traced() -> None:
    gpu = PlayedGpu(used=False)
    tracer, found, cpu, _ = traced([operation("aten::add", 110, 200, MAIN, 1)], [], gpu=gpu)
    assert tracer._played.options["use_device"] is None
    assert (gpu.waits, found.device_rows, found.notes, len(cpu)) == (0, b"", (), 1)


def test_a_window_in_which_the_gpu_did_nothing_says_so() -> None:
    _, found, _, gpu = traced([operation("aten::add", 110, 200, MAIN, 1)], [])
    assert len(found.device_rows) > 0
    assert (gpu, found.notes) == ([], ())


def test_without_the_privilege_operations_are_of_the_cpu_alone_and_that_is_said_once() -> None:
    gpu = PlayedGpu(refused="CUPTI needs root on Tegra with CUDA 12.6")
    tracer, found, cpu, _ = traced([operation("aten::add", 110, 200, MAIN, 1)], [], gpu=gpu)
    assert tracer._played.options["use_device"] is None
    assert (gpu.waits, found.device_rows, len(cpu)) == (0, b"", 1)
    (note,) = found.notes
    assert_says(note, "CPU alone", "CUPTI needs root", "CUDA 12.6")
    tracer._played.tree = [operation("aten::add", 110, 200, MAIN, 1)]
    assert tracer.play().notes == ()


def test_where_the_profiler_may_crash_no_window_is_opened() -> None:
    tracer = PlayedTracer(
        PlayedProfile([], []), (100, 900), PlayedGpu(danger="/dev/nvidia0 must be readable")
    )
    with pytest.raises(RecordingError, match="nvidia0"):
        tracer.start()
    assert tracer._played.options == {}
    assert not tracer.active


def test_a_step_that_is_traced_and_first_uses_the_gpu_says_so_and_the_next_sees_it() -> None:
    gpu = PlayedGpu(used=False)
    profile = PlayedProfile([operation("aten::to", 110, 200, MAIN, 1)], [])
    tracer = PlayedTracer(profile, (100, 900), gpu)
    tracer.start()
    gpu.there = True  # the script moves its model within the step
    tracer.finish()
    assert tracer.rows(0, 0, ()).notes == (FIRST_USED,)
    profile.tree = [operation("aten::add", 110, 200, MAIN, 1)]
    again = tracer.play()
    assert (again.notes, profile.options["use_device"]) == ((), "cuda")


def test_a_gpu_that_worked_unseen_is_said_once_and_left_alone_from_then_on() -> None:
    def tree() -> list[Any]:
        return [operation("aten::add", 110, 200, MAIN, 1), allocation(120, MAIN, "cuda")]

    tracer, found, cpu, _ = traced(tree(), [])
    (note,) = found.notes
    assert_says(note, "CPU alone", NOT_SEEN)
    assert (found.device_rows, len(cpu)) == (b"", 1)
    tracer._played.tree = tree()
    again = tracer.play()
    assert (again.notes, tracer._played.options["use_device"]) == ((), None)


def test_a_profiler_that_loses_kernels_is_not_believed() -> None:
    def events(kernels: int, *more: Row) -> list[Row]:
        calls = [call("cudaLaunchKernel", 120 + n, 121 + n, MAIN, 50 + n, 1) for n in range(4)]
        works = [work("gemm", 200 + 10 * n, 209 + 10 * n, 50 + n, 1) for n in range(4)]
        return [*calls, *more, *works[4 - kernels :]]

    def tree() -> list[Any]:
        return [operation("aten::mm", 110, 190, MAIN, 1)]

    _, found, cpu, gpu = traced(tree(), events(4))
    assert (found.notes, len(gpu)) == ((), 4)
    # The first of a session are lost: what is left would be too little for the step.
    _, found, cpu, _ = traced(tree(), events(2))
    (note,) = found.notes
    assert "2 of 4 launches" in note
    assert (found.device_rows, [row["name"] for row in cpu]) == (b"", ["aten::mm"])
    # While a graph is captured, launches start nothing.
    capture = call("cudaStreamBeginCapture", 115, 116, MAIN, 40, 1)
    _, found, _, gpu = traced(tree(), events(2, capture))
    assert (found.notes, len(gpu)) == ((), 2)


def test_what_profilers_of_each_release_take_is_found_by_their_signature() -> None:
    from wattstep.engines.torch.gpu_trace import profiler

    class Of23:  # takes the argument, for other devices alone
        def __init__(self, use_cuda: bool = False, use_device: str | None = None) -> None:
            self.use_cuda, self.use_device = use_cuda, None

    class Of20:
        def __init__(self, use_cuda: bool = False) -> None:
            self.use_cuda = use_cuda

    assert profiler(Of23, True).use_cuda
    assert profiler(Of20, True).use_cuda
    assert not profiler(Of20, False).use_cuda
