"""CSV of nsys stats: every row of a report comes out or is counted, under old and new headings."""

from __future__ import annotations

import csv

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.refusals import refused
from tests.wording import saying

from wattstep.errors import InvalidValueError
from wattstep.formats.nsys import parse
from wattstep.formats.recording import FormatError
from wattstep.formats.trace import Trace

EXAMPLES = 100_000 if settings.default.max_examples > 1000 else 200

# recordings/nvidia/nsys_cuda_gpu_kern_sum.csv: facts quoted from public text.
KERNELS = """\
Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name
62.7,1802181977,26265,68615.3,68768.0,67200,72672,594.8,"void at::native::vectorized_elementwise_kernel<(int)4, ...>"
13.1,377211583,33117,11390.3,6688.0,1920,134208,19091.4,_layer_norm_fwd_1pass_kernel
5.4,156564829,72,2174511.5,2174544.0,2172704,2177408,898.4,sm80_xmma_gemm_…
"""
# Headings of nsys 2023 to 2026; the rows are ours.
WORK = """\
NOTICE: Existing SQLite export found: report1.sqlite

Processing [report1.sqlite] with [cuda_gpu_trace.py]...
Start (ns),Duration (ns),CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Reg/Trd,StcSMem (MB),DymSMem (MB),Bytes (MB),Throughput (MB/s),SrcMemKd,DstMemKd,Device,Ctx,GreenCtx,Strm,Name
14533415915,85411644,107,,,,,,,,,,805.306,8858.370,Pageable,Device,NVIDIA GeForce RTX 3060 (0),1,,7,[CUDA memcpy Host-to-Device]
14618912140,1500,108,,,,,,,,,,0.004,2.6,Device,,NVIDIA GeForce RTX 3060 (0),1,,7,[CUDA memset]
14619000000,75200,109,148,1,1,256,1,1,36,0.000,0.214,,,,,NVIDIA GeForce RTX 3060 (1),1,,13,"void k<int, 4>(int *, float)"
"""
CALLS = """\
Start (ns),Duration (ns),Name,Result,CorrID,Pid,Tid,T-Pri,Thread Name
456173024,2155,cuModuleGetLoadingMode,0,1,811552,811552,20,saxpy
14533400000,9000,cudaMemcpy,0,107,811552,811553,20,saxpy
14618990000,4000,cudaLaunchKernel,0,109,811552,811553,20,saxpy
"""
RANGES = """\
Start (ns),End (ns),Duration (ns),DurChild (ns),DurNonChild (ns),Name,PID,TID,Lvl,NumChild,RangeId,ParentId,RangeStack,NameTree
129466419083,129469614334,3195251,0,3195251,"step:#1,fast",2286673,2286674,0,0,125597,,:125597,"step:#1,fast"
"""
PROJECTIONS = """\
Name,Projected Start (ns),Projected Duration (ns),Orig Start (ns),Orig Duration (ns),Style,PID,TID,NumGPUOps,Lvl,NumChild,RangeId,ParentId,RangeStack
,10758298,33981358,,,,295239,295239,164,,0,,,
forward,14739612,1031280,14108904,3554743,PushPop,295239,295240,2,0,0,2,,:2
loader,,,8450530,5597874,PushPop,295239,295240,0,0,0,1,,:1
"""
EXECUTIONS = """\
API Start (ns),API Dur (ns),Queue Start (ns),Queue Dur (ns),Kernel Start (ns),Kernel Dur (ns),Total Dur (ns),PID,TID,DevId,API Function,GridXYZ,BlockXYZ,Kernel Name
43703966,78512,,,43769847,75200,141081,1,2,3,cuLaunchKernelEx, 148    1    1, 256    1    1,gemm
"""
SIZES = """\
Total (MB),Count,Avg (MB),Med (MB),Min (MB),Max (MB),StdDev (MB),Operation
29.360,7,4.194,4.194,4.194,4.194,0.000,[CUDA memcpy Host-to-Device]
"""


def column(trace: Trace, key: str) -> list[str]:
    return [trace.names[code] for code in getattr(trace.events, key)]


def lengths(trace: Trace) -> list[int]:
    assert trace.events is not None
    found: list[int] = (trace.events.end_ns - trace.events.start_ns).tolist()
    return found


def test_every_value_of_the_recorded_summary_comes_out() -> None:
    trace = parse(KERNELS.encode())
    rows = list(csv.reader(KERNELS.splitlines()))[1:]
    assert len(trace.summaries) == len(rows) == 3
    assert not trace.ignored
    for row, found in zip(rows, trace.summaries, strict=True):
        assert (found.name, found.calls, found.category) == (row[8], int(row[2]), "kernel")
        times = (found.total_s, found.mean_s, found.median_s, found.least_s, found.most_s)
        wanted = [int(float(row[at]) * 10) / 1e10 for at in (1, 3, 4, 5, 6)]
        assert times == pytest.approx(wanted, rel=1e-9)
        assert found.deviation_s == pytest.approx(float(row[7]) / 1e9, rel=1e-12)
    # 1802181977 + 377211583 + 156564829 ns, added by hand
    assert sum(s.total_s for s in trace.summaries) == pytest.approx(2.335958389, rel=1e-12)
    assert sum(s.calls for s in trace.summaries) == 59454


def test_work_on_the_gpu_has_its_device_stream_bytes_and_correlation() -> None:
    trace = parse(WORK.encode())
    events = trace.events
    assert events is not None
    assert column(trace, "category") == ["copy", "set", "kernel"]
    assert column(trace, "processor") == ["gpu0", "gpu0", "gpu1"]
    assert events.start_ns.tolist() == [14_533_415_915, 14_618_912_140, 14_619_000_000]
    assert lengths(trace) == [85_411_644, 1500, 75_200]
    assert events.bytes.tolist() == [805_306_000, 4000, -1]  # of 805306368 B: three decimals of MB
    assert events.thread.tolist() == [7, 7, 13]
    assert events.correlation.tolist() == [107, 108, 109]
    assert trace.device == {"gpus": ["NVIDIA GeForce RTX 3060"] * 2}
    assert saying(trace.notes, "bytes of copies", "rounded")
    assert dict(trace.ignored) == {"line that is no row of a report": 2}


def test_calls_and_work_of_one_file_are_tied_by_correlation() -> None:
    trace = parse(f"{CALLS}\n{WORK}".encode())
    events = trace.events
    assert events is not None
    assert column(trace, "category") == ["runtime"] * 3 + ["copy", "set", "kernel"]
    by_id = dict(zip(events.correlation.tolist()[3:], column(trace, "name")[3:], strict=True))
    assert by_id[107] == "[CUDA memcpy Host-to-Device]"
    assert column(trace, "name")[1] == "cudaMemcpy"
    assert events.process.tolist()[:3] == [811552] * 3
    assert events.thread.tolist()[:3] == [811552, 811553, 811553]


def test_ranges_of_nvtx_are_annotations_on_their_thread() -> None:
    trace = parse(RANGES.encode())
    assert trace.events is not None
    assert (column(trace, "name"), lengths(trace)) == (["step:#1,fast"], [3_195_251])
    assert (column(trace, "category"), trace.events.thread.tolist()) == (["annotation"], [2286674])


def test_a_projection_is_the_range_and_where_its_work_ran() -> None:
    trace = parse(PROJECTIONS.encode())
    assert column(trace, "name") == ["forward", "forward", "loader"]
    assert column(trace, "category") == ["annotation", "gpu_annotation", "annotation"]
    assert lengths(trace) == [3_554_743, 1_031_280, 5_597_874]
    assert dict(trace.ignored) == {"projection of the whole recording": 1}


def test_a_kernel_execution_is_a_call_and_its_kernel() -> None:
    trace = parse(EXECUTIONS.encode())
    events = trace.events
    assert events is not None
    assert column(trace, "name") == ["cuLaunchKernelEx", "gemm"]
    assert column(trace, "processor") == ["cpu", "gpu3"]
    assert lengths(trace) == [78_512, 75_200]
    assert events.correlation[0] == events.correlation[1] != -1


def test_kernels_that_two_reports_tell_come_out_once() -> None:
    trace = parse(f"{WORK}\n{EXECUTIONS}".encode())
    assert trace.events is not None
    assert len(trace.events) == 3
    assert trace.ignored["kernel that the trace of the GPU has as well"] == 1


def test_sizes_are_no_times() -> None:
    trace = parse(SIZES.encode())
    assert not trace.summaries
    assert dict(trace.ignored) == {"row of sizes, which are no times": 1}
    assert trace.notes


@pytest.mark.parametrize(
    ("heading", "name", "category", "processor"),
    [
        ("Time (%),Total Time (ns),Count,Avg (ns),Operation", "[CUDA memcpy DtoH]", "copy", "gpu0"),
        ("Time (%),Total Time (ns),Num Calls,Avg (ns),Name", "cudaMalloc", "runtime", "cpu"),
        ("Time (%),Total Time (ns),Instances,Avg (ns),Range", ":forward", "annotation", "cpu"),
        ("Time(%),Total Time (ns),Instances,Average (ns),Name", "gemm", "kernel", "gpu0"),
        ("Time(%),Total Time,Calls,Average,Name", "gemm", "kernel", "gpu0"),
        (
            "Range,Total Proj Time (ns),Range Instances,Proj Avg (ns),Style",
            "forward",
            "gpu_annotation",
            "gpu0",
        ),
    ],
)
def test_summaries_under_new_and_old_headings(
    heading: str, name: str, category: str, processor: str
) -> None:
    first, *_ = heading.split(",")
    cells = [name, "4000", "4", "1000.5", "PushPop"] if first == "Range" else None
    row = ",".join(cells or ["100.0", "4000", "4", "1000.5", name])
    (found,) = parse(f"{heading}\n{row}\n".encode()).summaries
    assert (found.name, found.category, found.processor) == (name, category, processor)
    assert (found.calls, found.total_s, found.mean_s) == (4, 4e-6, 1.0005e-6)


@pytest.mark.parametrize(
    ("unit", "length_ns"), [("ns", 3), ("us", 3000), ("ms", 3_000_000), ("sec", 3_000_000_000)]
)
def test_units_stand_in_the_headings(unit: str, length_ns: int) -> None:
    text = f"Start({unit}),Duration({unit}),CorrId,Device,Strm,Name\n1,3,1,A (0),7,k\n"
    assert lengths(parse(text.encode())) == [length_ns]


def test_functions_of_the_operating_system_are_no_calls_of_cuda() -> None:
    head = "Time (%),Total Time (ns),Num Calls,Avg (ns),Name\n"
    text = f" ** OS Runtime Summary (osrt_sum):\n\n{head}60,6,1,6,poll\n\n{head}40,4,1,4,cuInit\n"
    assert [s.category for s in parse(text.encode()).summaries] == ["operating system", "runtime"]


def test_a_name_with_commas_but_without_quotes_stays_whole() -> None:
    text = "Start (ns),Duration (ns),CorrId,Device,Strm,Name\n1,2,3,A (0),7,void k<int, 4>(int)\n"
    assert column(parse(text.encode()), "name") == ["void k<int, 4>(int)"]


def test_a_range_may_be_called_like_a_message() -> None:
    text = PROJECTIONS.replace("loader", "Processing [1]")
    assert column(parse(text.encode()), "name")[2] == "Processing [1]"


def test_rows_that_are_cut_or_of_other_reports_are_counted() -> None:
    other = "Start (ns),Duration (ns),Context,Pages\n1,2,3,4\n\n"
    trace = parse((other + WORK).encode()[:-40])
    assert trace.events is not None
    assert len(trace.events) == 2
    assert dict(trace.ignored) == {
        "row of a report that is not read (start, duration, context)": 1,
        "line that is no row of a report": 3,
    }
    assert saying(trace.notes, "1 lines", "(10)")


def test_a_row_that_ends_before_it_begins_is_counted() -> None:
    trace = parse(CALLS.replace(",2155,", ",-2155,").encode())
    assert trace.ignored["operation that ends before it begins"] == 1


@pytest.mark.parametrize(
    ("text", "line", "id", "named"),
    [
        ("", 1, "no-table", "an empty file"),
        ("SQLite format 3\0" + "x" * 50, 1, "no-table", "nsys stats"),
        ('{"traceEvents": []}', 1, "no-table", "JSON"),
        ("==1== NVPROF is profiling process 1\n", 1, "no-table", "CSV of nvprof"),
        ("2024/01/01 RAM 100/200MB (lfb 1x1MB)", 1, "no-table", "tegrastats"),
        (CALLS.replace("456173024", "noon"), 2, "malformed-cell", "'noon'"),
        (
            PROJECTIONS.replace("Orig Duration (ns)", "Orig Duration (x)"),
            3,
            "malformed-cell",
            "'x'",
        ),
        (KERNELS.replace("33117", "many"), 3, "malformed-cell", "'many'"),
        (CALLS.replace("14533400000", "1e99999"), 3, "malformed-cell", ""),
        (CALLS.replace("14533400000", "9" * 18 + "e9"), 3, "malformed-cell", ""),
    ],
)
def test_what_is_wrong_is_said_with_its_line(text: str, line: int, id: str, named: str) -> None:
    with refused(id, named) as caught:
        parse(text.encode())
    assert isinstance(caught.value, FormatError)
    assert caught.value.line == line


@settings(max_examples=EXAMPLES)
@given(
    st.sampled_from([KERNELS, WORK, CALLS, RANGES, PROJECTIONS, EXECUTIONS, SIZES]),
    st.lists(st.tuples(st.integers(0, 600), st.integers(0, 5), st.binary(max_size=6)), max_size=4),
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
