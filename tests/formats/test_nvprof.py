"""CSV of nvprof: every row comes out or is counted, with its units."""

from __future__ import annotations

import csv

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.refusals import refused
from tests.wording import assert_says, saying

from wattstep.errors import InvalidValueError
from wattstep.formats.nvprof import parse
from wattstep.formats.recording import FormatError
from wattstep.formats.trace import Trace

EXAMPLES = 100_000 if settings.default.max_examples > 1000 else 200

# recordings/nvidia/nvprof_gpu_trace_old.csv: facts quoted from public text.
OLD = """\
==9630== NVPROF is profiling process 9630, command: ./h2d 1 0 1
==9630== Profiling application: ./h2d 1 0 1
==9630== Profiling result:
"Time(%)","Time","Calls","Avg","Min","Max","Name"
%,us,,us,us,us,
100.000000,3.840000,2,1.920000,1.504000,2.336000,"[CUDA memcpy HtoD]"
==9708== NVPROF is profiling process 9708, command: ./h2d 1 0 1
==9708== Profiling application: ./h2d 1 0 1
==9708== Profiling result:
"Time(%)","Time","Calls","Avg","Min","Max","Name"
%,us,,us,us,us,
100.000000,3.968000,2,1.984000,1.632000,2.336000,"[CUDA memcpy HtoD]"
"""
# recordings/nvidia/nvprof_summary_typed.csv: facts quoted from public text.
TYPED = """\
======== Profiling result:
"Type","Time(%)","Time","Calls","Avg","Min","Max","Name"
,%,us,,us,us,us,
"API calls",78.020031,7570567.921000,11,688233.447000,684120.984000,693194.046000,"cudaMemcpyAsync"
"API calls",15.389094,1493259.895000,8,186657.486000,1.313000,1493246.020000,"cudaStreamCreateWithFlags"
"API calls",3.686877,357751.097000,4,89437.774000,0.541000,357741.117000,"cudaFree"
"API calls",1.904952,184844.416000,1,184844.416000,184844.416000,184844.416000,"cuDevicePrimaryCtxRetain"
"""
# Headings, units and the first row of a trace as public repositories quote them (an RTX 2080 Ti).
HEADINGS = (
    '"Start","Duration","Grid X","Grid Y","Grid Z","Block X","Block Y","Block Z",'
    '"Registers Per Thread","Static SMem","Dynamic SMem","Size","Throughput","SrcMemType",'
    '"DstMemType","Device","Context","Stream","Name","Correlation_ID"\n'
)
GPU = (
    "==77== Profiling result:\n" + HEADINGS + "us,us,,,,,,,,KB,KB,KB,GB/s,,,,,,,\n"
    '0.000000,1.568000,,,,,,,,,,1.003906,0.610586,"Device",,"GeForce RTX 2080 Ti (0)","1","7",'
    '"[CUDA memset]",274\n'
    '4643.346000,1.536000,,,,,,,,,,0.125000,0.077610,"Pinned","Device","GeForce RTX 2080 Ti (0)",'
    '"1","22","[CUDA memcpy HtoD]",316\n'
    "5000.500000,250.000000,64,1,1,256,1,1,32,0.000000,0.000000,,,,,"
    '"GeForce RTX 2080 Ti (1)","2","7","void add<float, int>(float*, int) [318]",318\n'
)


def column(trace: Trace, key: str) -> list[str]:
    return [trace.names[code] for code in getattr(trace.events, key)]


@pytest.mark.parametrize("text", [OLD, TYPED])
def test_every_value_of_both_recorded_summaries_comes_out(text: str) -> None:
    trace = parse(text.encode())
    rows = [row for row in csv.reader(text.splitlines()) if len(row) >= 7 and "Name" not in row]
    rows = [row for row in rows if "us" not in row]  # the line of units
    assert len(rows) == len(trace.summaries) == (2 if text is OLD else 4)
    for row, found in zip(rows, trace.summaries, strict=True):
        total, calls, mean, least, most, name = row[-6:]
        assert (found.name, found.calls) == (name, int(calls))
        times = (found.total_s, found.mean_s, found.least_s, found.most_s)
        assert times == pytest.approx(
            [float(t) / 1e6 for t in (total, mean, least, most)], rel=1e-12
        )
    messages = sum(line.startswith("==") for line in text.splitlines())
    assert dict(trace.ignored) == {"message of nvprof": messages}


def test_the_sums_of_both_recorded_summaries() -> None:
    old, typed = parse(OLD.encode()), parse(TYPED.encode())
    assert sum(s.total_s for s in old.summaries) == pytest.approx(7.808e-6, rel=1e-12)
    assert {(s.category, s.processor) for s in old.summaries} == {("copy", "gpu0")}
    # 7.570567921 + 1.493259895 + 0.357751097 + 0.184844416, added by hand
    assert sum(s.total_s for s in typed.summaries) == pytest.approx(9.606423329, rel=1e-12)
    assert sum(s.calls for s in typed.summaries) == 24
    assert {(s.category, s.processor) for s in typed.summaries} == {("runtime", "cpu")}


def test_a_gpu_trace_has_each_operation_to_the_nanosecond_with_its_bytes() -> None:
    trace = parse(GPU.encode())
    events = trace.events
    assert events is not None
    assert events.start_ns.tolist() == [0, 4_643_346, 5_000_500]
    assert (events.end_ns - events.start_ns).tolist() == [1568, 1536, 250_000]
    assert events.bytes.tolist() == [1028, 128, -1]  # KB of 1024: 1028 B in 1.568 us is 0.6106 GB/s
    assert column(trace, "category") == ["set", "copy", "kernel"]
    assert column(trace, "processor") == ["gpu0", "gpu0", "gpu1"]
    assert events.thread.tolist() == [7, 22, 7]
    assert events.correlation.tolist() == [274, 316, 318]
    assert events.process.tolist() == [77, 77, 77]
    assert column(trace, "name")[2] == "void add<float, int>(float*, int) [318]"
    assert trace.device == {"gpus": ["GeForce RTX 2080 Ti", "GeForce RTX 2080 Ti"]}
    assert dict(trace.ignored) == {"message of nvprof": 1}


@pytest.mark.parametrize(
    ("unit", "length_ns"), [("s", 2_500_000_000), ("ms", 2_500_000), ("us", 2500), ("ns", 2)]
)
def test_units_stand_in_the_second_line(unit: str, length_ns: int) -> None:
    # Half a nanosecond is rounded to the even one.
    trace = parse(f'"Start","Duration","Name"\n{unit},{unit},\n1,2.5,"cudaMalloc"\n'.encode())
    assert trace.events is not None
    assert (trace.events.end_ns - trace.events.start_ns).tolist() == [length_ns]
    assert column(trace, "processor") == ["cpu"]


def test_times_in_whole_microseconds_are_said_to_be_so() -> None:
    trace = parse(b'"Start","Duration","Name"\ns,us,\n1.000001,2.5,"cudaMalloc"\n')
    (note,) = trace.notes
    assert_says(note, "in s", "6 decimals")


def test_calls_and_kernels_of_an_untyped_summary_are_told_apart_by_their_section() -> None:
    head = '"Time(%)","Time","Calls","Avg","Min","Max","Name"\n%,ms,,ms,ms,ms,\n'
    text = (
        f'==1== Profiling result:\n{head}100,2,4,0.5,0.25,1,"gemm"\n\n'
        f'==1== API calls:\n{head}100,6,2,3,2,4,"vkQueueSubmit"\n'
    )
    trace = parse(text.encode())
    assert [(s.name, s.category, s.processor) for s in trace.summaries] == [
        ("gemm", "kernel", "gpu0"), ("vkQueueSubmit", "runtime", "cpu"),
    ]  # fmt: skip


def test_output_of_the_program_between_rows_is_counted_and_said() -> None:
    lines = GPU.splitlines()
    text = "\n".join(["epoch 1, loss 0.5", *lines[:4], "epoch 2, loss 0.4", *lines[4:]]) + "\n"
    trace = parse(text.encode())
    assert trace.events is not None
    assert len(trace.events) == 3
    assert trace.ignored["line that is no row of a profile (the program's own output)"] == 2
    assert saying(trace.notes, "2 lines", "left out")


def test_marks_rows_without_a_time_and_counters_of_hardware_are_counted() -> None:
    text = (
        '"Start","Duration","Name"\nus,us,\n1,,"[Marker] step"\n2,,"cudaFree"\n3,-1,"cudaFree"\n\n'
        '"Device","Kernel","Invocations","Metric Name","Metric Description","Min","Max","Avg"\n'
        '"A (0)","k",1,"ipc","Executed IPC",1.5,1.5,1.5\n'
    )
    trace = parse(text.encode())
    assert trace.events is None
    assert dict(trace.ignored) == {
        "mark of NVTX, without a duration": 1,
        "row without a time": 1,
        "operation that ends before it begins": 1,
        "value of a hardware counter, which is no time": 1,
    }
    assert "--print-gpu-trace" in trace.notes[-1]


def test_processes_with_a_beginning_each_are_not_to_be_compared() -> None:
    trace = parse((GPU + GPU.replace("==77==", "==78==")).encode())
    assert trace.events is not None
    assert sorted(set(trace.events.process.tolist())) == [77, 78]
    assert saying(trace.notes, "of its own")


def test_a_file_that_is_cut_in_a_row_keeps_the_rows_before() -> None:
    trace = parse(GPU.encode()[:-30])
    assert trace.events is not None
    assert len(trace.events) == 2
    assert sum(trace.ignored.values()) == 2  # the message, and the row that was cut


@pytest.mark.parametrize(
    ("text", "line", "id", "named"),
    [
        ("", 1, "no-table", "an empty file"),
        ("time_s,power_W\n0,1\n", 1, "no-table", "some other text"),
        ('{"traceEvents": []}', 1, "no-table", "JSON"),
        ("Time (%),Total Time (ns),Instances,Name\n1,2,3,k\n", 1, "no-table", "CSV of nsys"),
        ("<!DOCTYPE html><html>", 1, "no-table", "HTML"),
        (OLD.replace("3.968000", "fast"), 12, "malformed-cell", "'fast'"),
        (OLD.replace(",us,,us", ",parsec,,us"), 5, "not-a-unit", "'parsec'"),
        (OLD.replace("3.840000,2", "3.840000,two"), 6, "malformed-cell", "'two'"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(text: str, line: int, id: str, named: str) -> None:
    with refused(id, named) as caught:
        parse(text.encode())
    assert isinstance(caught.value, FormatError)
    assert caught.value.line == line


@settings(max_examples=EXAMPLES)
@given(
    st.sampled_from([OLD, TYPED, GPU]),
    st.lists(st.tuples(st.integers(0, 900), st.integers(0, 5), st.binary(max_size=6)), max_size=4),
)
def test_any_damage_gives_a_trace_or_a_clear_error(
    text: str, damage: list[tuple[int, int, bytes]]
) -> None:
    data = bytearray(text.encode())
    for at, length, put in damage:
        data[at : at + length] = put
    try:
        trace = parse(bytes(data))
    except InvalidValueError:
        return
    if trace.events is not None:
        assert (trace.events.start_ns <= trace.events.end_ns).all()
    assert all(summary.total_s >= 0 for summary in trace.summaries)
