"""Steps, phases, layers and kinds of traced events, on traces made by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.importing.kineto_by_hand import table, trace_of
from tests.refusals import refused
from tests.wording import saying

from wattstep.formats.trace import CATEGORIES, Summary, Trace
from wattstep.importing.operations import (
    NO_STEP,
    OTHER_PROCESS,
    OUTSIDE,
    SHADOW,
    UNUSED_MARK,
    WAIT,
    LeftOut,
    TraceTables,
    tables_of,
)
from wattstep.store.folder import Folder
from wattstep.store.tables import OPERATIONS_SCHEMA, SPANS, STEPS, SUMMARIES, write_table

Row = dict[str, Any]
ENGINE = "autograd::engine::evaluate_function: "


def event(name: str, start: int, end: int, category: str = "operation", **more: Any) -> Row:
    return {
        "name": name,
        "start_ns": start,
        "end_ns": end,
        "category": category,
        "thread": 1,
    } | more


def kernel(name: str, start: int, end: int, correlation: int, **more: Any) -> Row:
    on_gpu = {"processor": "gpu0", "thread": 7, "correlation": correlation}
    return event(name, start, end, **({"category": "kernel"} | on_gpu | more))


def step_of(number: int, at: int) -> list[Row]:
    """A training step of 1000 ns: a model of two layers, whose backward pass has its own thread."""
    back = {"thread": 2, "forward_thread": 1}
    base = 10 * number  # of sequence numbers and correlations

    def module(name: str, start: int, end: int) -> Row:
        return event(f"nn.Module: {name}", at + start, at + end, "module")

    def launch(start: int, one: int, **more: Any) -> Row:
        return event(
            "launch", at + start, at + start + 5, "runtime", correlation=base + one, **more
        )

    return [
        event(f"ProfilerStep#{number}", at, at + 1000, "step"),
        event("enumerate(DataLoader)#Iter.__next__", at + 10, at + 100, "annotation"),
        event("aten::stack", at + 20, at + 60),
        module("Net_0", 120, 400),
        module("Body_0", 130, 300),
        module("Linear_0", 140, 290),
        event("aten::linear", at + 150, at + 280, sequence=base),
        event("aten::t", at + 160, at + 170, sequence=base),
        event("aten::addmm", at + 200, at + 270, sequence=base + 1),
        launch(210, 1),
        event("aten::sum", at + 310, at + 390, sequence=base + 2),
        launch(320, 2),
        event("aten::ones_like", at + 410, at + 420),
        event(f"{ENGINE}SumBackward0", at + 500, at + 540, sequence=base + 2, **back),
        event("SumBackward0", at + 505, at + 535, sequence=base + 2, **back),
        launch(510, 3, thread=2),
        event(f"{ENGINE}AddmmBackward0", at + 550, at + 600, sequence=base + 1, **back),
        event(f"{ENGINE}torch::autograd::AccumulateGrad", at + 610, at + 640, thread=2),
        event("aten::clip", at + 660, at + 680),
        event("Optimizer.step#SGD.step", at + 700, at + 900, "annotation"),
        event("aten::_foreach_add_", at + 750, at + 800),
        launch(760, 4),
        event("Optimizer.zero_grad#SGD.zero_grad", at + 910, at + 950, "annotation"),
        kernel("gemm", at + 300, at + 450, base + 1),
        kernel("reduce", at + 450, at + 470, base + 2),
        kernel("sum_backward", at + 530, at + 540, base + 3),
        kernel("multi_tensor", at + 990, at + 1200, base + 4),  # ends in the next step
    ]


@pytest.fixture(scope="module")
def training() -> TraceTables:
    """Three steps, numbered from 5, with something before and behind them."""
    rows = [
        event("aten::empty", 0, 40),
        *(row for n in range(3) for row in step_of(5 + n, 100 + 1000 * n)),
    ]
    rows.append(event("cudaDeviceSynchronize", 3150, 3400, "runtime", correlation=999))
    return tables_of(trace_of(rows), warmup=1)


@pytest.fixture(scope="module")
def second(training: TraceTables) -> dict[str, Row]:
    """Rows of the second step by name."""
    return {row["name"]: row for row in table(training) if row["step"] == 6}


def test_steps_are_the_profilers_marks_and_keep_their_numbers(training: TraceTables) -> None:
    assert training.steps["index"].tolist() == [5, 6, 7]
    assert training.steps["start_ns"].tolist() == [100, 1100, 2100]
    assert training.steps["end_ns"].tolist() == [1100, 2100, 3100]
    assert training.steps["warmup"].tolist() == [True, False, False]
    assert training.steps["traced"].all()
    assert training.steps["samples"].null_count == 3
    assert not training.whole


def test_a_trace_that_begins_within_a_step_has_the_steps_behind_it_and_no_work_of_that_one() -> (
    None
):
    """Of the first step there are no mark and no begin; its last kernel runs on within the second."""
    cut = [row for row in step_of(5, 100) if row["start_ns"] >= 650]
    made = tables_of(trace_of([*cut, *step_of(6, 1100), *step_of(7, 2100)]))
    assert made.steps["index"].tolist() == [6, 7]
    rows = table(made)
    assert len(rows) == 2 * 26
    late = [(row["step"], row["start_ns"]) for row in rows if row["name"] == "multi_tensor"]
    assert late == [(6, 2090), (7, 3090)]  # and not that of 1090, which step 5 launched
    assert sum(each.events for each in made.left_out.values()) == len(cut)


def test_every_event_is_a_row_a_mark_or_left_out_for_a_reason(training: TraceTables) -> None:
    assert training.events == 3 * 27 + 2
    assert training.rows == len(table(training)) == 3 * 26
    assert training.marks == 3
    assert training.left_out == {NO_STEP: LeftOut(2, pytest.approx(290e-9))}
    assert training.spans["start_ns"] == [0, 3150]
    assert training.spans["end_ns"] == [40, 3400]
    assert training.spans["name"] == ["outside steps"] * 2


def test_work_on_a_gpu_belongs_to_the_step_that_launched_it(training: TraceTables) -> None:
    late = [row for row in table(training) if row["name"] == "multi_tensor"]
    assert [(row["step"], row["end_ns"]) for row in late] == [(5, 1300), (6, 2300), (7, 3300)]


def test_layers_are_paths_of_modules_without_the_outermost(second: dict[str, Row]) -> None:
    assert second["aten::linear"]["layer"] == "Body_0.Linear_0"
    assert second["aten::sum"]["layer"] == "Net_0"
    assert second["nn.Module: Body_0"]["layer"] == "Body_0"
    assert second["aten::stack"]["layer"] == OUTSIDE
    assert second["enumerate(DataLoader)#Iter.__next__"]["layer"] is None
    assert second["aten::_foreach_add_"]["layer"] is None  # of which layer it cannot be determined


def test_a_call_of_the_runtime_has_the_layer_of_the_operation_around_it(
    training: TraceTables,
) -> None:
    calls = [row for row in table(training) if row["step"] == 6 and row["name"] == "launch"]
    assert [row["layer"] for row in calls] == ["Body_0.Linear_0", "Net_0", "Net_0", None]


def test_backward_operations_have_the_layer_of_their_forward_one(second: dict[str, Row]) -> None:
    assert second["SumBackward0"]["layer"] == "Net_0"
    assert second["AddmmBackward0"]["layer"] == "Body_0.Linear_0"
    assert second["AccumulateGrad"]["layer"] == "Body_0.Linear_0"


def test_phases_follow_from_names_and_else_from_the_marks_of_the_step(
    second: dict[str, Row],
) -> None:
    phases = {name: row["phase"] for name, row in second.items() if name != "launch"}
    assert phases == {
        "enumerate(DataLoader)#Iter.__next__": "data",
        "aten::stack": "data",
        "nn.Module: Net_0": "forward",
        "nn.Module: Body_0": "forward",
        "nn.Module: Linear_0": "forward",
        "aten::linear": "forward",
        "aten::t": "forward",
        "aten::addmm": "forward",
        "aten::sum": "forward",
        "aten::ones_like": "forward",
        "SumBackward0": "backward",
        "AddmmBackward0": "backward",
        "AccumulateGrad": "backward",
        "aten::clip": "backward",
        "Optimizer.step#SGD.step": "optimizer",
        "aten::_foreach_add_": "optimizer",
        "Optimizer.zero_grad#SGD.zero_grad": "optimizer",
        "gemm": "forward",
        "reduce": "forward",
        "sum_backward": "backward",
        "multi_tensor": "optimizer",
    }


def test_phases_are_marked_in_steps_where_they_begin(training: TraceTables) -> None:
    assert (
        training.steps["mark_name"].to_pylist()
        == [["data", "forward", "backward", "optimizer"]] * 3
    )
    # Forward begins where the loading of data ends.
    assert training.steps["mark_ns"].to_pylist()[0] == [100, 200, 600, 800]
    assert training.steps["mark_kind"].to_pylist()[0] == [3, 3, 3, 3]


def test_a_kernel_has_the_layer_and_the_kind_of_what_launched_it(second: dict[str, Row]) -> None:
    assert second["gemm"]["layer"] == "Body_0.Linear_0"
    assert second["gemm"]["kind"] == "matrix product"
    assert second["reduce"]["kind"] == "reduction"
    assert second["sum_backward"]["layer"] == "Net_0"
    assert second["multi_tensor"]["kind"] == "optimizer"
    assert second["gemm"]["processor"] == "gpu0"
    assert second["gemm"]["outermost"]
    assert second["gemm"]["parent"] is None
    assert second["gemm"]["self_ns"] == 150


def test_work_on_a_gpu_names_the_call_that_launched_it(training: TraceTables) -> None:
    rows = [row for row in table(training) if row["step"] == 6]
    asked = {row["name"]: row["launch"] for row in rows}
    for name in ("gemm", "reduce", "sum_backward", "multi_tensor"):
        assert rows[asked[name]]["name"] == "launch"
        assert rows[asked[name]]["start_ns"] <= next(
            row["start_ns"] for row in rows if row["name"] == name
        )
    assert asked["aten::linear"] is None


def test_kinds_of_scopes_and_calls_are_their_own_and_scopes_are_no_operations(
    second: dict[str, Row],
) -> None:
    assert second["launch"]["kind"] == "runtime call"
    assert not second["launch"]["outermost"]
    for name in ("nn.Module: Net_0", "Optimizer.step#SGD.step"):
        assert (second[name]["kind"], second[name]["outermost"]) == ("scope", False)
    assert second["aten::linear"]["outermost"]
    assert not second["aten::addmm"]["outermost"]
    assert second["aten::linear"]["self_ns"] == 130 - 10 - 70


def test_parents_are_positions_within_the_step(training: TraceTables) -> None:
    rows = table(training)
    mine = [row for row in rows if row["step"] == 7]
    assert {row["window"] for row in mine} == {2}
    chain = []
    row = next(row for row in mine if row["name"] == "aten::t")
    while row["parent"] is not None:
        row = mine[row["parent"]]
        chain.append(row["name"])
    assert chain == ["aten::linear", "nn.Module: Linear_0", "nn.Module: Body_0", "nn.Module: Net_0"]


def test_load_is_when_work_runs_by_processor(training: TraceTables) -> None:
    gpu = training.busy["gpu0"]
    assert gpu[:3].tolist() == [[400, 570], [630, 640], [1090, 1300]]
    assert int((gpu[:, 1] - gpu[:, 0]).sum()) == 3 * (150 + 20 + 10 + 210)
    # In a step of the CPU: 40 + 130 + 80 + 10 + 40 + 50 + 30 + 20 + 50 ns.
    cpu = training.busy["cpu"]
    assert int((cpu[:, 1] - cpu[:, 0]).sum()) == 3 * 450 + 40 + 250
    both = {t for part in (cpu, gpu) for start, end in part.tolist() for t in range(start, end)}
    assert both == {t for start, end in training.busy["all"].tolist() for t in range(start, end)}


def test_load_is_also_told_by_the_names_with_most_time() -> None:
    """Eight operations of 80, 70, ... 10 ns, one of them called twice, one within another."""
    rows = [
        event(f"aten::{name}", 100 * place, 100 * place + 80 - 10 * place)
        for place, name in enumerate("abcdefgh")
    ]
    rows += [event("aten::a", 80, 90), event("aten::within", 10, 70), kernel("k", 20, 21, 1)]
    by_name = tables_of(trace_of(rows)).busy_by
    apart = [[[0, 90]], [[100, 170]], [[200, 260]], [[300, 350]], [[400, 440]], [[500, 530]]]
    assert [each.tolist() for each in by_name["cpu"]] == [*apart, [[600, 620], [700, 710]]]
    assert [each.tolist() for each in by_name["gpu0"]] == [[[20, 21]]]
    rest = [[20, 21], [600, 620], [700, 710]]
    assert [each.tolist() for each in by_name["all"]] == [*apart, rest]


def test_what_is_not_said_is_null_and_the_rest_is_kept() -> None:
    rows = [
        event("aten::mm", 0, 10, flops=2000, bytes=96),
        event("aten::add", 20, 30),
    ]
    trace = trace_of(rows)
    assert trace.events is not None
    trace.events.shapes[0] = len(trace.names)
    told = Trace(format="x", names=(*trace.names, "2x5,5x100"), events=trace.events)
    mm, add = table(tables_of(told))
    assert (mm["shapes"], mm["flops"], mm["bytes"], mm["allocated"]) == (
        "2x5,5x100",
        2000,
        96,
        None,
    )
    assert (add["shapes"], add["flops"], add["bytes"]) == (None, None, None)
    assert (add["layer"], add["phase"]) == (None, None)


def test_the_tables_fit_the_schemas_of_a_run(training: TraceTables, tmp_path: Path) -> None:
    for name, schema, batches in (
        ("operations", OPERATIONS_SCHEMA, training.operations()),
        ("steps", STEPS, iter([training.steps])),
        ("spans", SPANS, iter([training.spans])),
        ("summaries", SUMMARIES, iter([training.summaries])),
    ):
        with Folder(tmp_path) as folder:
            write_table(folder, f"{name}.parquet", schema, batches)
        read: pa.Table = pq.read_table(tmp_path / f"{name}.parquet")
        assert read.schema.names == schema.names
        if name == "operations":
            assert read["name"].to_pylist() == [row["name"] for row in table(training)]


# --- steps -------------------------------------------------------------------------------------


def test_without_marks_the_whole_trace_is_one_step_and_says_so() -> None:
    made = tables_of(trace_of([event("a", 5, 10), event("b", 20, 90), kernel("k", 30, 120, 1)]))
    assert made.whole
    assert (made.steps["start_ns"].tolist(), made.steps["end_ns"].tolist()) == ([5], [120])
    assert [row["step"] for row in table(made)] == [0, 0, 0]
    assert saying(made.notes, "no marks")
    assert made.marks == 0


def test_steps_may_be_annotations_of_a_given_name() -> None:
    rows = [
        *(event(f"train batch {n}", 100 * n, 100 * n + 80, "annotation") for n in (3, 4)),
        *(event("aten::mm", 100 * n + 10, 100 * n + 60) for n in (3, 4)),
    ]
    made = tables_of(trace_of(rows), step_name="^train batch")
    assert made.steps["index"].tolist() == [3, 4]
    assert [(row["name"], row["layer"], row["phase"]) for row in table(made)] == [
        ("aten::mm", None, None)
    ] * 2


def test_numbers_that_do_not_rise_are_counted_anew() -> None:
    rows = [event("train", 100 * n, 100 * n + 80, "annotation") for n in range(2)]
    rows += [event("aten::mm", 100 * n + 10, 100 * n + 60) for n in range(2)]
    made = tables_of(trace_of(rows), step_name="train")
    assert made.steps["index"].tolist() == [0, 1]
    assert any("counted from 0" in note for note in made.notes)


def test_a_step_name_that_fits_nothing_says_what_there_is() -> None:
    rows = [event("epoch", 0, 10, "annotation"), event("aten::mm", 1, 2)]
    with refused("no-such-annotation", "'batch'", "epoch"):
        tables_of(trace_of(rows), step_name="batch")
    with refused("not-a-regular-expression"):
        tables_of(trace_of(rows), step_name="(")


def test_a_last_mark_in_which_nothing_ran_is_no_step() -> None:
    rows = [event("ProfilerStep#1", 0, 100, "step"), event("ProfilerStep#2", 100, 105, "step")]
    made = tables_of(trace_of([*rows, event("aten::mm", 10, 20)]))
    assert made.steps["index"].tolist() == [1]
    assert made.left_out == {UNUSED_MARK: LeftOut(1, pytest.approx(5e-9))}
    assert any("holds no work" in note for note in made.notes)


def test_marks_across_others_are_annotations() -> None:
    rows = [
        event("ProfilerStep#1", 0, 100, "step"),
        event("ProfilerStep#9", 50, 150, "step", thread=2),
        event("aten::mm", 10, 20),
    ]
    made = tables_of(trace_of(rows))
    assert made.steps["index"].tolist() == [1]
    assert {row["name"]: row["kind"] for row in table(made)}["ProfilerStep#9"] == "scope"
    assert made.events == made.rows + made.marks


def test_marks_that_reach_into_the_next_by_a_rounding_end_where_it_begins() -> None:
    """Steps of 40.5 µs whose marks were written in whole µs: each second one overlaps by 0.5 µs."""
    begins = [number * 40_500 for number in range(10)]
    rows = [
        row
        for number, begin in enumerate(begins)
        for row in (
            event(
                f"ProfilerStep#{number}", begin, begin + 40_500 + 500 * (number % 2 == 0), "step"
            ),
            event("aten::mm", begin + 1000, begin + 40_000),
        )
    ]
    made = tables_of(trace_of(rows))
    assert made.steps["start_ns"].tolist() == begins
    assert made.steps["end_ns"].tolist() == [begin + 40_500 for begin in begins]
    assert (made.marks, made.rows) == (10, 10)
    assert [row["step"] for row in table(made)] == list(range(10))
    assert saying(made.notes, "5 marks", "reach into")


def test_a_mark_within_another_is_no_step_however_short_it_is() -> None:
    rows = [
        event("ProfilerStep#1", 0, 1_000_000, "step"),
        event("ProfilerStep#2", 500_000, 500_400, "step"),
        event("ProfilerStep#3", 995_000, 2_000_000, "step"),  # 0.5 % of a step
        event("ProfilerStep#4", 1_900_000, 3_000_000, "step"),  # 10 %
        event("aten::mm", 100, 900_000),
        event("aten::mm", 1_000_000, 1_500_000),
    ]
    made = tables_of(trace_of(rows))
    assert made.steps["index"].tolist() == [1, 3]
    assert made.steps["end_ns"].tolist() == [995_000, 2_000_000]
    assert saying(made.notes, "2 marks", "lie across")


def two_ranks() -> list[Row]:
    """Two processes that train beside each other, the second 300 ns later, each on its GPU."""
    rows = []
    for process, late in ((11, 0), (12, 300)):
        for number in range(3):
            begin = 1000 + 10_000 * number + late
            one = 100 * process + number
            rows += [
                event(f"ProfilerStep#{number}", begin, begin + 9900, "step", process=process),
                event("aten::mm", begin + 100, begin + 5000, process=process),
                event(
                    "launch", begin + 200, begin + 300, "runtime",
                    process=process, correlation=one,
                ),
                kernel("gemm", begin + 400, begin + 900 + process, one, process=process - 11),
            ]  # fmt: skip
    return rows


def test_steps_of_two_processes_are_not_mixed_and_one_can_be_chosen() -> None:
    with refused("steps-in-several-processes", "11, 12", "--process"):
        tables_of(trace_of(two_ranks()))
    made = tables_of(trace_of(two_ranks()), process=12)
    assert made.steps["start_ns"].tolist() == [1300, 11_300, 21_300]
    assert [row["name"] for row in table(made)] == ["aten::mm", "launch", "gemm"] * 3
    assert {row["end_ns"] - row["start_ns"] for row in table(made) if row["name"] == "gemm"} == {
        512
    }
    # Three of another process: a mark of 9.9, an operation of 4.9, a call of 0.1, a kernel of 0.511.
    assert made.left_out == {OTHER_PROCESS: LeftOut(12, pytest.approx(3 * 15.411e-6))}
    assert made.events == 24 == made.rows + made.marks + 12


def test_a_process_that_is_not_there_is_said_with_those_that_are() -> None:
    with refused("no-such-process", "--process 7", "11, 12"):
        tables_of(trace_of(two_ranks()), process=7)
    with refused("no-such-process", "--process 7"):
        tables_of(trace_of([event("aten::mm", 0, 5)]), process=7)


def test_an_operation_that_began_in_another_step_is_nobodys_parent_here() -> None:
    rows = [
        event("ProfilerStep#1", 0, 100, "step"),
        event("ProfilerStep#2", 100, 200, "step"),
        event("aten::long", 90, 150, thread=2),
        event("aten::inner", 110, 120, thread=2),
    ]
    made = {row["name"]: row for row in table(tables_of(trace_of(rows)))}
    assert (made["aten::long"]["step"], made["aten::long"]["self_ns"]) == (1, 50)
    inner = made["aten::inner"]
    assert (inner["step"], inner["parent"], inner["outermost"]) == (2, None, True)


# --- layers and phases by other ways -----------------------------------------------------------


def test_without_modules_annotations_are_the_layers_and_phases() -> None:
    rows = [
        event("encoder", 0, 100, "annotation"),
        event("attention", 10, 50, "annotation"),
        event("aten::mm", 20, 30),
        event("aten::add", 60, 70),
        event("## backward ##", 200, 300, "annotation"),
        event("aten::mul", 210, 220),
    ]
    made = {row["name"]: row for row in table(tables_of(trace_of(rows)))}
    assert (made["aten::mm"]["layer"], made["aten::mm"]["phase"]) == ("attention", "forward")
    assert (made["aten::add"]["layer"], made["aten::add"]["phase"]) == ("encoder", "forward")
    assert (made["aten::mul"]["layer"], made["aten::mul"]["phase"]) == (None, "backward")


def test_where_no_phase_can_be_told_the_outermost_annotation_is_it() -> None:
    rows = [
        event("search", 0, 100, "annotation"),
        event("prune", 10, 50, "annotation"),
        event("aten::mm", 20, 30),
        event("aten::add", 110, 120),
    ]
    made = {row["name"]: row["phase"] for row in table(tables_of(trace_of(rows)))}
    assert made == {"search": "search", "prune": "search", "aten::mm": "search", "aten::add": None}


@pytest.mark.parametrize(
    ("name", "phase"),
    [
        ("DistributedDataParallel.forward", "forward"),
        ("## forward:bottom_mlp ##", "forward"),
        ("## backward ##", "backward"),
        ("## optimizer ##", "optimizer"),
        ("Optimizer.step#FusedAdam.step", "optimizer"),
        ("## zero_grad ##", "optimizer"),
        ("## data_load ##", "data"),
        ("## load_batch ##", "data"),
        ("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", "data"),
        ("## all2all_data:init ##", "## all2all_data:init ##"),
        ("straightforward", "straightforward"),
        ("wattstep.clock", None),
    ],
)
def test_annotations_that_name_a_phase_are_understood(name: str, phase: str | None) -> None:
    made = table(tables_of(trace_of([event(name, 0, 10, "annotation"), event("aten::mm", 2, 4)])))
    assert {row["phase"] for row in made} == {phase}


def test_sequence_numbers_of_two_threads_are_told_apart() -> None:
    rows = []
    for thread, (name, forward_thread) in enumerate({"left": 1, "right": 2}.items(), 1):
        at = 100 * thread
        rows += [
            event(name, at, at + 50, "annotation", thread=thread),
            event("aten::mm", at + 5, at + 10, sequence=0, thread=thread),
            event("aten::mul", at + 15, at + 20, sequence=thread, thread=thread),
        ]
        back = {"thread": 9, "forward_thread": forward_thread}
        rows += [
            event(f"{ENGINE}MulBackward0", 400 + at, 410 + at, sequence=thread, **back),
            event(f"{ENGINE}MmBackward0", 420 + at, 430 + at, sequence=0, **back),
        ]
    made = [row for row in table(tables_of(trace_of(rows))) if row["thread"] == 9]
    assert [(row["name"], row["layer"]) for row in made] == [
        ("MulBackward0", "left"),
        ("MmBackward0", "left"),
        ("MulBackward0", "right"),
        ("MmBackward0", "right"),
    ]


def test_layers_that_our_own_tracing_wrote_keep_their_paths() -> None:
    rows = [
        event("wattstep.layer:blocks.0", 0, 100, "annotation"),
        event("wattstep.layer:blocks.0.conv", 10, 50, "annotation"),
        event("aten::conv2d", 20, 30),
    ]
    made = {row["name"]: row for row in table(tables_of(trace_of(rows)))}
    assert made["aten::conv2d"]["layer"] == "blocks.0.conv"


def test_steps_that_differ_in_their_phases_have_no_marks_and_a_note_says_so() -> None:
    rows = step_of(1, 0) + step_of(2, 1000)
    rows = [row for row in rows if not (row["start_ns"] > 1000 and "Optimizer" in row["name"])]
    made = tables_of(trace_of(rows))
    assert made.steps["mark_name"].to_pylist() == [[], []]
    assert saying(made.notes, "order", "phases")


def test_accumulated_gradients_are_phases_that_come_again() -> None:
    rows = [event("ProfilerStep#1", 0, 1000, "step")]
    for at in (0, 400):
        rows += [
            event("aten::mm", at + 10, at + 50, sequence=at),
            event("MmBackward0", at + 200, at + 300, sequence=at, forward_thread=1),
        ]
    rows.append(event("Optimizer.step#SGD.step", 900, 990, "annotation"))
    made = tables_of(trace_of(rows))
    assert made.steps["mark_name"].to_pylist() == [
        ["forward", "backward", "forward", "backward", "optimizer"]
    ]
    assert made.steps["mark_ns"].to_pylist() == [[0, 200, 410, 600, 900]]


# --- work on a GPU -----------------------------------------------------------------------------


def test_without_a_correlation_the_external_number_ties_a_kernel_to_its_operation() -> None:
    rows = [
        event("layer", 0, 50, "annotation"),
        event("aten::mm", 10, 20, external=4),
        event("cudaLaunchKernel", 12, 14, "runtime", external=4, correlation=8, thread=5),
        kernel("by call", 100, 110, 8, external=4),
        kernel("by number", 120, 130, -1, external=4),
        kernel("by neither", 140, 150, 4, external=4),
    ]
    made = tables_of(trace_of(rows))
    layers = {row["name"]: row["layer"] for row in table(made)}
    assert layers["by call"] == layers["by number"] == layers["cudaLaunchKernel"] == "layer"
    assert layers["by neither"] is None  # the external number repeats the correlation
    assert saying(made.notes, "launched 1 pieces")


def test_waits_and_shadows_of_annotations_are_left_out_with_their_time() -> None:
    rows = [
        event("aten::mm", 0, 10),
        kernel("k", 0, 20, 1),
        kernel("Stream Sync", 5, 30, 2, category="wait"),
        kernel("forward", 0, 40, 3, category="gpu_annotation"),
    ]
    made = tables_of(trace_of(rows))
    assert made.left_out == {
        WAIT: LeftOut(1, pytest.approx(25e-9)),
        SHADOW: LeftOut(1, pytest.approx(40e-9)),
    }
    assert made.busy["gpu0"].tolist() == [[0, 20]]


def test_kinds_of_copies_of_generated_kernels_and_of_the_profilers_own_work() -> None:
    rows = [
        kernel("Memcpy HtoD", 0, 5, 1, category="copy"),
        kernel("Memset", 5, 6, 2, category="set"),
        kernel("triton_poi_fused_add_cos_0", 6, 7, 3),
        kernel("void cudnn::convolve", 7, 8, 4),
        event("Buffer Request", 0, 3, "overhead"),
        event("aten::mm", 20, 30),
        event("cudaLaunchKernel", 21, 22, "runtime", correlation=5),
        kernel("ncclKernel_AllReduce_RING_LL_Sum_float", 40, 50, 5),
        event(f"{ENGINE}AddmmBackward0", 60, 70),
    ]
    kinds = {row["name"]: row["kind"] for row in table(tables_of(trace_of(rows)))}
    assert kinds == {
        "Memcpy HtoD": "data movement",
        "Memset": "data movement",
        "triton_poi_fused_add_cos_0": "compiled",
        "void cudnn::convolve": "convolution",
        "Buffer Request": "profiler",
        "aten::mm": "matrix product",
        "cudaLaunchKernel": "runtime call",
        "ncclKernel_AllReduce_RING_LL_Sum_float": "communication",
        "AddmmBackward0": "matrix product",
    }


# --- totals ------------------------------------------------------------------------------------


def test_totals_without_instances_become_summaries() -> None:
    total = Summary(
        name="sgemm", category="kernel", processor="gpu0", calls=4, total_s=0.5, mean_s=0.125
    )
    made = tables_of(Trace(format="nvprof CSV", summaries=(total,)))
    assert made.summaries["name"] == ["sgemm"]
    assert made.summaries["total_s"] == [0.5]
    assert made.summaries["median_s"] == [None]
    assert len(made.steps["index"]) == 0
    assert list(made.operations()) == []
    assert (made.events, made.rows, made.whole) == (0, 0, False)


# --- anything ----------------------------------------------------------------------------------

NAMES = (
    "aten::mm",
    "AddmmBackward0",
    f"{ENGINE}MmBackward0",
    "torch::autograd::AccumulateGrad",
    "ProfilerStep#3",
    "ProfilerStep#4",
    "Optimizer.step#SGD.step",
    "enumerate(DataLoader)#Iter.__next__",
    "## forward ##",
    "nn.Module: Linear_0",
    "wattstep.layer:body.0",
    "",
)
NUMBERS = st.sampled_from([-1, 0, 1, 2, 2**40])


@st.composite
def anything(draw: Any) -> Row:
    """An event that need not make sense."""
    start = draw(st.integers(0, 50))
    return {
        "name": draw(st.sampled_from(NAMES)),
        "category": draw(st.sampled_from([*CATEGORIES, "word"])),
        "processor": draw(st.sampled_from(["cpu", "cpu", "gpu0", "gpu3"])),
        "thread": draw(NUMBERS),
        "process": draw(NUMBERS),
        "start_ns": start,
        "end_ns": start + draw(st.integers(0, 20)),
        **{key: draw(NUMBERS) for key in ("correlation", "external", "sequence", "forward_thread")},
    }


@given(st.lists(anything(), min_size=1, max_size=10))
def test_whatever_a_trace_holds_it_becomes_tables_and_no_event_is_lost(rows: list[Row]) -> None:
    marked = {
        row["process"] for row in rows if row["category"] == "step" and row["processor"] == "cpu"
    }
    process = None
    if all(row["category"] == "word" for row in rows):
        with refused("no-known-events", "word"):
            tables_of(trace_of(rows))
        return
    if len(marked) > 1:
        with refused("steps-in-several-processes", "--process"):
            tables_of(trace_of(rows))
        process = max(marked)
    made = tables_of(trace_of(rows), process=process)
    operations = table(made)
    left = sum(one.events for one in made.left_out.values())
    assert len(rows) == made.events == len(operations) + made.marks + left
    steps = dict(zip(made.steps["index"].tolist(), made.steps["start_ns"].tolist(), strict=True))
    assert {row["step"] for row in operations} <= set(steps)
    assert list(steps.values()) == sorted(steps.values())
    for start, end, marks in zip(
        made.steps["start_ns"], made.steps["end_ns"], made.steps["mark_ns"].to_pylist(), strict=True
    ):
        assert marks == sorted(marks)
        assert all(start <= mark <= end for mark in marks)
    for row in operations:
        siblings = [one for one in operations if one["window"] == row["window"]]
        assert row["parent"] is None or siblings[row["parent"]]["step"] == row["step"]
        assert 0 <= row["self_ns"] <= row["end_ns"] - row["start_ns"]
