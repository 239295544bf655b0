"""Traces of PyTorch's profiler: every event in is an interval, a value, or counted with a reason."""

from __future__ import annotations

import gzip
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.refusals import refused
from tests.wording import assert_says

from wattstep.errors import InvalidValueError
from wattstep.formats import kineto
from wattstep.formats.kineto import decoding
from wattstep.formats.kineto.cutting import Cutter
from wattstep.formats.kineto.numbers import nanoseconds
from wattstep.formats.trace import NONE, Trace

LONG = settings.default.max_examples > 1000
EXAMPLES = 100_000 if LONG else 40
# How long it takes to make an example says nothing of the code, and varies with the machine's load.
FUZZED = settings(max_examples=EXAMPLES, suppress_health_check=[HealthCheck.too_slow])
FILES = sorted((Path(__file__).parent.parent / "fixtures/traces").glob("kineto_*.json.gz"))
SMALL = next(path for path in FILES if "triton" in path.name)
# What the words of these six files are, as the headings of their rows in a viewer say.
WORDS = {
    "cpu_op": "operation", "user_annotation": "annotation", "cuda_runtime": "runtime",
    "cuda_driver": "runtime", "kernel": "kernel", "gpu_memcpy": "copy", "gpu_memset": "set",
    "gpu_user_annotation": "gpu_annotation", "cuda_sync": "wait",
}  # fmt: skip
NS = Decimal(1000)
EPOCH_US = 1_710_000_000_000_000
TORCH = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1, "dur": 1}


def plain(path: Path) -> dict[str, Any]:
    """The whole file by the standard library; numbers with a point as they are written."""
    return dict(json.loads(gzip.decompress(path.read_bytes()), parse_float=Decimal))


def work(whole: dict[str, Any]) -> list[dict[str, Any]]:
    """Its intervals, without the span of the profiler."""
    return [e for e in whole["traceEvents"] if e["ph"] == "X" and e["cat"] != "Trace"]


def begin_ns(event: dict[str, Any], whole: dict[str, Any]) -> int:
    return int(event["ts"] * NS) + whole.get("baseTimeNanoseconds", 0)


def said(trace: Trace, column: str) -> list[str]:
    assert trace.events is not None
    return ["" if code < 0 else trace.names[code] for code in getattr(trace.events, column)]


def values(trace: Trace, column: str) -> list[int]:
    assert trace.events is not None
    return [int(value) for value in getattr(trace.events, column)]


def count(trace: Trace) -> int:
    """Events that are accounted for, where there are no counters."""
    return (0 if trace.events is None else len(trace.events)) + sum(trace.ignored.values())


def written(folder: Path, content: bytes | str | list[Any] | dict[str, Any]) -> Path:
    path = folder / "trace.json"
    if isinstance(content, (list, dict)):
        content = json.dumps(content)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


# --- recordings ---------------------------------------------------------------------------------


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_event_of_a_recording_is_an_interval_or_is_counted(path: Path) -> None:
    whole, trace = plain(path), kineto.read(path)
    assert count(trace) == len(whole["traceEvents"])
    expected = [
        (e["name"], e["tid"], begin_ns(e, whole), begin_ns(e, whole) + int(e["dur"] * NS))
        for e in work(whole)
    ]
    columns = (values(trace, key) for key in ("thread", "start_ns", "end_ns"))
    assert list(zip(said(trace, "name"), *columns, strict=True)) == expected
    assert trace.clock == "wall"
    assert trace.notes == ()
    kinds = Counter(e["ph"] for e in whole["traceEvents"])
    others = {reason: n for reason, n in trace.ignored.items() if reason != kineto.columns.SPAN}
    assert sum(n for reason, n in others.items() if "metadata" in reason) == kinds["M"]
    assert sum(n for reason, n in others.items() if "flow" in reason) == kinds["s"] + kinds["f"]
    assert sum(n for reason, n in others.items() if "instant" in reason) == kinds["i"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_times_of_categories_and_processors_are_those_of_the_file(path: Path) -> None:
    whole, trace = plain(path), kineto.read(path)
    expected: defaultdict[tuple[str, str], int] = defaultdict(int)
    for event in work(whole):
        kind = WORDS[event["cat"]]
        if kind == "annotation" and event["name"].startswith("ProfilerStep#"):
            kind = "step"
        on_gpu = kind in ("kernel", "copy", "set", "wait", "gpu_annotation")
        where = f"gpu{event['args'].get('device', event['pid'])}" if on_gpu else "cpu"
        expected[kind, where] += int(event["dur"] * NS)
    found: defaultdict[tuple[str, str], int] = defaultdict(int)
    times = zip(values(trace, "start_ns"), values(trace, "end_ns"), strict=True)
    rows = zip(said(trace, "category"), said(trace, "processor"), times, strict=True)
    for kind, where, (start, end) in rows:
        found[kind, where] += end - start
    assert found == expected


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_what_ties_events_together_is_that_of_the_file(path: Path) -> None:
    events, trace = work(plain(path)), kineto.read(path)
    keys = {
        "correlation": "correlation", "external": "External id", "sequence": "Sequence number",
        "forward_thread": "Fwd thread id",
    }  # fmt: skip
    for column, key in keys.items():
        assert values(trace, column) == [e["args"].get(key, NONE) for e in events], column
    on_cpu = [where == "cpu" for where in said(trace, "processor")]
    processes = {e["pid"] for e, cpu in zip(events, on_cpu, strict=True) if cpu}
    several = len(processes) > 1  # numbers of the only process say nothing
    assert values(trace, "process") == [
        e["pid"] if cpu and several else NONE for e, cpu in zip(events, on_cpu, strict=True)
    ]


def test_bytes_of_copies_are_those_of_the_file() -> None:
    path = next(path for path in FILES if "sampled" in path.name)
    events, trace = work(plain(path)), kineto.read(path)
    copied = sum(e["args"]["bytes"] for e in events if e["cat"] in ("gpu_memcpy", "gpu_memset"))
    assert sum(size for size in values(trace, "bytes") if size != NONE) == copied
    assert values(trace, "bytes") == [e["args"].get("bytes", NONE) for e in events]


def test_rocm_says_the_bytes_at_the_call_that_copies() -> None:
    path = next(path for path in FILES if "mi250" in path.name)
    events, trace = work(plain(path)), kineto.read(path)
    called = {e["args"]["correlation"]: e["args"]["size"] for e in events if "size" in e["args"]}
    copies = [e["args"]["correlation"] for e in events if e["cat"] == "gpu_memcpy"]
    assert len(copies) == 2
    found = zip(said(trace, "category"), values(trace, "bytes"), strict=True)
    assert [size for kind, size in found if kind == "copy"] == [int(called[c]) for c in copies]


def test_shapes_leave_out_what_has_none() -> None:
    path = next(path for path in FILES if "mi250" in path.name)
    events, trace = work(plain(path)), kineto.read(path)
    expected = [
        ",".join("x".join(map(str, one)) for one in e["args"].get("Input Dims", []) if one)
        for e in events
    ]
    flat = [not any(isinstance(n, list) for one in e["args"].get("Input Dims", []) for n in one)
            for e in events]  # fmt: skip
    pairs = zip(said(trace, "shapes"), expected, flat, strict=True)
    assert all(shapes == wanted for shapes, wanted, is_flat in pairs if is_flat)
    assert sum(map(bool, expected)) > 30


def test_gpus_and_ranks_are_told_and_nothing_of_whose_machine_it_is() -> None:
    device = {path.name: kineto.read(path).device for path in FILES}
    assert device[SMALL.name]["gpus"] == ["NVIDIA A100-PG509-200"] * 8
    assert device["kineto_cpu_only_rank34.json.gz"] == {"rank": 34, "world_size": 300}


# --- words --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("event", "category", "processor"),
    [
        ({"cat": "Operator"}, "operation", "cpu"),  # torch 1.8
        ({"cat": "Kernel", "pid": 1, "tid": "stream 7"}, "kernel", "gpu1"),
        ({"cat": "Memcpy", "pid": 0}, "copy", "gpu0"),
        ({"cat": "Memset", "pid": 3}, "set", "gpu3"),
        ({"cat": "Runtime"}, "runtime", "cpu"),
        ({"cat": "overhead", "pid": -1}, "overhead", "cpu"),
        ({"cat": "user_annotation", "name": "ProfilerStep#3"}, "step", "cpu"),
        ({"cat": "cpu_op", "name": "ProfilerStep*"}, "step", "cpu"),  # torch 1.8: "ProfilerStep*"
        ({"cat": "gpu_user_annotation", "name": "ProfilerStep#3"}, "gpu_annotation", "gpu1"),
        ({"cat": "python_function", "name": "nn.Module: Linear_0"}, "module", "cpu"),
        ({"cat": "python_function", "name": "train.py(3): main"}, "python", "cpu"),
        ({"cat": "cuda_profiler_range", "pid": 3}, "cuda_profiler_range", "cpu"),
        ({"cat": "mtia_insight"}, "mtia_insight", "cpu"),
        ({"cat": "mtia_runtime"}, "runtime", "cpu"),
        ({"cat": "mtia_ccp_events", "pid": 4}, "kernel", "mtia4"),
        ({"cat": "hpu_op", "args": {"device": 2}}, "kernel", "hpu2"),
        ({"cat": "hpu_op", "pid": 481234}, "kernel", "hpu0"),  # the number of a process
        ({"cat": "cuda_event", "pid": 2}, "wait", "gpu2"),
        ({"cat": "", "pid": "CPU functions"}, "operation", "cpu"),  # without Kineto
        ({"cat": "", "pid": "CUDA functions"}, "kernel", "gpu0"),
    ],
)
def test_words_of_all_versions(
    tmp_path: Path, event: dict[str, Any], category: str, processor: str
) -> None:
    trace = kineto.read(written(tmp_path, [{**TORCH, **event}]))
    assert said(trace, "category") == [category]
    assert said(trace, "processor") == [processor]


def test_names_of_arguments_of_old_versions(tmp_path: Path) -> None:
    args = {"external id": 5, "Input dims": [[8, 3], [], [4]]}
    lists = {"External id": 6, "Input Dims": [[[2, 2], [3]], 1, [0]]}
    events = [{**TORCH, "args": args, "tid": "stream 7"}, {**TORCH, "args": lists, "tid": "main"}]
    trace = kineto.read(written(tmp_path, events))
    assert values(trace, "external") == [5, 6]
    assert said(trace, "shapes") == ["8x3,4", "[2x2,3],0"]
    assert values(trace, "thread") == [7, -2]
    assert any("-2 'main'" in note for note in trace.notes)


def test_processes_are_numbered_where_there_are_several(tmp_path: Path) -> None:
    gpu = {**TORCH, "cat": "kernel", "pid": 0}
    trace = kineto.read(written(tmp_path, [TORCH, {**TORCH, "pid": 77}, gpu]))
    assert values(trace, "process") == [1, 77, NONE]


# --- time ---------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 4_000_000_000_000_000_000), min_size=1, max_size=20), st.booleans())
def test_times_come_out_to_the_nanosecond(times: list[int], shortened: bool) -> None:
    texts = [f"{t // 1000}.{t % 1000:03d}" for t in times]
    if shortened:  # as Python writes them again
        texts = [text.rstrip("0").rstrip(".") for text in texts]
    found, known = nanoseconds([text.encode() for text in texts])
    assert found.tolist() == times
    assert known.all()


@given(st.decimals(-(10**15), 10**15, allow_nan=False), st.sampled_from(["", "E", '"']))
def test_times_in_any_notation(value: Decimal, form: str) -> None:
    text = f"{value:E}" if form == "E" else f"{form}{value:f}{form}"
    found, known = nanoseconds([text.encode(), b"7"])
    if known[0]:
        assert abs(Decimal(int(found[0])) - value * 1000) <= Decimal("0.5")
    else:  # more digits than a clock has
        assert len(text) > 40
    assert found[1] == 7000


@pytest.mark.parametrize("text", ["", "x", "null", "[1]", "NaN", "1e400", "9" * 30, "1.2.3", "--1"])
def test_what_is_no_time_is_said_to_be_none(text: str) -> None:
    found, known = nanoseconds([b"5.001", text.encode()])
    assert found[0] == 5001
    assert known.tolist() == [True, False]


def test_the_clock_is_the_one_that_the_file_names(tmp_path: Path) -> None:
    event = {**TORCH, "ts": 4203669603018.756, "dur": 0.001}
    base = 1735632360000000000
    named = kineto.read(
        written(tmp_path, {"traceEvents": [event], "baseTimeNanoseconds": base})
    )  # it may stand behind the events, too
    assert (named.clock, values(named, "start_ns")) == ("wall", [base + 4203669603018756])
    assert values(named, "end_ns") == [base + 4203669603018757]
    alone = kineto.read(written(tmp_path, [event]))
    assert (alone.clock, values(alone, "start_ns")) == ("unknown", [4203669603018756])
    text = json.dumps([TORCH]).replace('"ts": 1', f'"ts": {EPOCH_US}.123')
    since = kineto.read(written(tmp_path, text))
    assert (since.clock, values(since, "start_ns")) == ("wall", [EPOCH_US * 1000 + 123])


@pytest.mark.parametrize("base", ["nonsense", -5, 1e300, 9 * 10**18, 0, True])
def test_a_base_that_is_no_date_is_left_out(tmp_path: Path, base: object) -> None:
    trace = kineto.read(written(tmp_path, {"baseTimeNanoseconds": base, "traceEvents": [TORCH]}))
    assert (trace.clock, values(trace, "start_ns")) == ("unknown", [1000])
    assert any("baseTimeNanoseconds" in note for note in trace.notes)


# --- counters -----------------------------------------------------------------------------------

# From a trace of torch 2.13, without what is not read.
MEMORY = [
    (4452437927995.67, 128, 128, -1, 0), (4452437928000.001, 128, 256, -1, 0),
    (4452437928001.5, -128, 128, -1, 0), (4452437928002.25, -128, 0, -1, 0),
]  # fmt: skip


def memory_event(
    t: float, amount: int, total: int | None, number: int, kind: int
) -> dict[str, Any]:
    args: dict[str, Any] = {"Bytes": amount, "Device Id": number, "Device Type": kind, "Addr": 9}
    if total is not None:
        args |= {"Total Allocated": total, "Total Reserved": 2 * total}
    where = {"pid": 7, "tid": 7, "s": "t", "cat": "cpu_instant_event"}
    return {"ph": "i", "name": "[memory]", "ts": t, "args": args, **where}


def test_memory_of_tensors_is_a_channel_of_each_device(tmp_path: Path) -> None:
    gpu = [(t, amount, 4 * total, 1, 1) for t, amount, total, _, _ in MEMORY]
    events = [memory_event(*row) for row in [*MEMORY, *gpu]]
    trace = kineto.read(written(tmp_path, [TORCH, *events]))
    assert trace.counters is not None
    assert {name: found.tolist() for name, found in trace.counters.value.items()} == {
        "memory.cpu": [128, 256, 128, 0],
        "memory.gpu1": [512, 1024, 512, 0],
        "memory_reserved.gpu1": [1024, 2048, 1024, 0],
    }
    assert trace.counters.t_ns["memory.cpu"].tolist() == [
        4452437927995670, 4452437928000001, 4452437928001500, 4452437928002250,
    ]  # fmt: skip
    assert {channel.unit for channel in trace.counters.channels} == {"B"}
    assert trace.counters.notes == ()


def test_memory_without_totals_is_summed_in_the_order_of_time_and_said_to_be(
    tmp_path: Path,
) -> None:
    events = [memory_event(t, amount, None, -1, 0) for t, amount, *_ in reversed(MEMORY)]
    events.append({**events[0], "args": {}})
    trace = kineto.read(written(tmp_path, [TORCH, *events]))
    assert trace.counters is not None
    assert trace.counters.value["memory.cpu"].tolist() == [128, 256, 128, 0]
    assert "sum" in trace.counters.notes[0]
    assert trace.ignored == {"a memory event without bytes": 1}


def test_of_values_of_one_nanosecond_the_last_counts(tmp_path: Path) -> None:
    events = [memory_event(5.5, 1, total, -1, 0) for total in (10, 20, 30)]
    trace = kineto.read(written(tmp_path, [TORCH, *events]))
    assert trace.counters is not None
    assert trace.counters.value["memory.cpu"].tolist() == [30]
    assert sum(trace.ignored.values()) == 2


def test_counter_events_are_channels(tmp_path: Path) -> None:
    power = [
        {"ph": "C", "name": "power", "ts": t, "args": {"W": t * 2.5, "mode": "x"}} for t in (4, 2)
    ]
    empty = {"ph": "C", "name": "power", "ts": 9, "args": {"W": None}}
    trace = kineto.read(written(tmp_path, [TORCH, *power, empty]))
    assert trace.counters is not None
    assert trace.counters.t_ns["counter.power.W"].tolist() == [2000, 4000]
    assert trace.counters.value["counter.power.W"].tolist() == [5, 10]
    assert trace.ignored == {"a counter without a number": 1}


# --- begin and end ------------------------------------------------------------------------------


def test_begins_and_ends_are_joined_by_thread(tmp_path: Path) -> None:
    steps = [("B", "a", 1, 10), ("B", "b", 1, 11.5), ("B", "c", 2, 12), ("E", "", 1, 13.25),
             ("E", "", 2, 14), ("E", "", 1, 20), ("E", "", 1, 21), ("B", "d", 1, 22)]  # fmt: skip
    events = [
        {"ph": ph, "cat": "cpu_op", "name": name, "pid": 1, "tid": tid, "ts": ts}
        for ph, name, tid, ts in steps
    ]
    trace = kineto.read(written(tmp_path, events))
    rows = zip(*(values(trace, key) for key in ("thread", "start_ns", "end_ns")), strict=True)
    assert dict(zip(said(trace, "name"), rows, strict=True)) == {
        "b": (1, 11500, 13250), "c": (2, 12000, 14000), "a": (1, 10000, 20000),
    }  # fmt: skip
    assert count(trace) == len(steps)
    assert trace.ignored[kineto.columns.NO_BEGIN] == trace.ignored[kineto.columns.NO_END] == 1


# --- cutting ------------------------------------------------------------------------------------

NASTY = st.text(alphabet='{}[],":\\ x\n"é', max_size=30)
ANY = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | NASTY,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NASTY, inner, max_size=4),
    max_leaves=6,
)
EVENT = st.fixed_dictionaries(
    {"ph": st.just("X"), "name": NASTY, "ts": st.integers(0, 10**16), "dur": st.just(1)},
    optional={"args": st.dictionaries(NASTY, ANY, max_size=4), "extra": ANY},
)


def cut(text: bytes, piece: int, block: int) -> tuple[list[Any], Cutter[decoding.Block]]:
    pieces = (text[at : at + piece] for at in range(0, len(text), piece))
    cutter = Cutter(pieces, decoding.decode, decoding.decode_each, kineto.KEYS, block=block)
    return [(e.name, int(bytes(e.ts))) for b in cutter.blocks() for e in b.events], cutter


@FUZZED
@given(
    st.lists(EVENT, max_size=12),
    st.dictionaries(NASTY, ANY, max_size=3),
    st.dictionaries(NASTY, ANY, max_size=3),
    st.sampled_from([None, 1]),
    st.integers(1, 300),
    st.integers(1, 300),
)
def test_events_are_those_of_the_standard_library_wherever_blocks_end(
    events: list[dict[str, Any]], before: dict[str, Any], after: dict[str, Any],
    indent: int | None, piece: int, block: int,
) -> None:  # fmt: skip
    whole = {**before, "traceEvents": events, **after, "traceName": "}, {"}
    expected = [(e["name"], e["ts"]) for e in json.loads(json.dumps(whole))["traceEvents"]]
    for document in (whole, events):
        text = json.dumps(document, indent=indent, ensure_ascii=False).encode()
        found, cutter = cut(text, piece, block)
        assert found == expected
        assert cutter.around.ended
        assert (cutter.around.cut, cutter.around.skipped) == (0, [])


def test_a_cut_file_gives_every_whole_event(tmp_path: Path) -> None:
    args = {"s": '},{ \\" ]', "list": [{"a": 1}, {"b": [2]}]}
    texts = [json.dumps({**TORCH, "name": f"é{n}", "args": args}) for n in range(3)]
    for head in ('{"schemaVersion": 1, "traceEvents": [', "["):
        text, ends = head, []
        for one in texts:
            text += one
            ends.append(len(text.encode()))
            text += ", "
        data = text.encode()
        for size in range(len(head), len(data), 3):
            trace = kineto.read(written(tmp_path, data[:size]))
            whole = sum(end <= size for end in ends)
            assert len(said(trace, "name")) == whole
            rest = data[ends[whole - 1] if whole else len(head) : size].strip(b", ")
            assert any("in the middle" in n for n in trace.notes) == bool(rest)
            assert trace.ignored == ({"unfinished event at the end of the file": 1} if rest else {})


def test_a_list_needs_no_end_but_an_object_does(tmp_path: Path) -> None:
    open_list = "[" + json.dumps(TORCH) + ",\n"
    assert kineto.read(written(tmp_path, open_list)).notes == ()
    trace = kineto.read(written(tmp_path, '{"traceEvents": ' + open_list))
    (note,) = trace.notes
    assert_says(note, "1 whole events")


def test_reading_goes_on_behind_a_damaged_event(tmp_path: Path) -> None:
    good = json.dumps(TORCH)
    lost = '{"ph": "X", "name": "quote lost, "args": {"a": [1, 2]}}'
    trace = kineto.read(written(tmp_path, f"[{good}, {lost}, {good}, {good}]"))
    assert len(said(trace, "name")) == 3
    assert any("damaged" in note for note in trace.notes)
    wrong = kineto.read(written(tmp_path, f'[{good}, {{"ph": X}}, 5, [], {good}]'))
    assert len(said(wrong, "name")) == 2
    assert wrong.ignored == {kineto.columns.DAMAGED: 3}


# --- what is no trace, and what is damaged --------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "id", "named"),
    [
        (b"", "not-a-trace", "empty"), (b" \n ", "not-a-trace", "empty"), (b"<!DOCTYPE html><html>", "not-a-trace", "web page"),
        (b"\n\x9a\x01\x08\x07P\x01\0\0", "not-a-trace", "Perfetto"), (b"hello", "not-a-trace", '"{"'),
        (b'{"a": 1}', "no-trace-events", "traceEvents"), (b'{"traceEvents": 5}', "events-not-a-list", "traceEvents"),
        (b"{", "no-trace-events", "traceEvents"), (b'{"a": [1, 2', "no-trace-events", "traceEvents"),
    ],
)  # fmt: skip
def test_what_is_no_trace_is_refused_with_what_it_is(
    tmp_path: Path, data: bytes, id: str, named: str
) -> None:
    for content in (data, gzip.compress(data)):
        with refused(id, named):
            kineto.read(written(tmp_path, content))


def test_a_missing_file_is_said_to_be_so(tmp_path: Path) -> None:
    with refused("unreadable-file", "none.json"):
        kineto.read(tmp_path / "none.json")


def test_the_trace_of_a_browser_is_read_and_said_to_be_none_of_torch(tmp_path: Path) -> None:
    event = {**TORCH, "cat": "blink,devtools.timeline", "tdur": 5, "tts": 6}
    trace = kineto.read(written(tmp_path, {"traceEvents": [event], "metadata": {"os": "x"}}))
    assert said(trace, "category") == ["blink,devtools.timeline"]
    assert any("no operation of PyTorch" in note for note in trace.notes)
    assert kineto.read(written(tmp_path, {"traceEvents": []})).notes == (kineto.NO_EVENTS,)


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("ts", '"soon"', "its time is no number"), ("ts", "null", "its time is no number"),
        ("ts", "1e300", "its time is no number"), ("ts", "NaN", "its time is no number"),
        ("dur", "-1", "its duration is negative"), ("dur", "-0.001", "its duration is negative"),
        ("dur", "{}", "its duration is no number"), ("dur", "9" * 40, "its duration is no number"),
    ],
)  # fmt: skip
def test_events_without_usable_times_are_counted(
    tmp_path: Path, field: str, value: str, reason: str
) -> None:
    odd = json.dumps({**TORCH, field: 0}).replace(f'"{field}": 0', f'"{field}": {value}')
    trace = kineto.read(written(tmp_path, f"[{json.dumps(TORCH)}, {odd}]"))
    assert len(said(trace, "name")) == 1
    assert trace.ignored == {reason: 1}


def test_negative_and_repeated_times_are_kept(tmp_path: Path) -> None:
    trace = kineto.read(written(tmp_path, [{**TORCH, "ts": ts} for ts in (-5, 3, 3, -5.5)]))
    assert values(trace, "start_ns") == [-5000, 3000, 3000, -5500]


@pytest.mark.parametrize(
    ("odd", "name"),
    [
        (b'"name": "caf\xff"', "caf\N{REPLACEMENT CHARACTER}"), (b'"name": "\\ud800x"', "?x"),
        (b'"name": "a", "name": "b"', "b"), (b'"name": 5', "5"), (b'"name": null', ""),
        (b'"name": "n", "args": 7', "n"), (b'"name": "n", "args": {"correlation": 1e2}', "n"),
        (b'"name": "n", "args": {"correlation": 99999999999999999999}', "n"),
        (b'"name": "n", "pid": 99999999999999999999', "n"),
        (b'"name": "n", "args": {"correlation": NaN, "x": -Infinity}', "n"),
        (b'"name": "n", "tid": null, "pid": [1]', "n"),
    ],
)  # fmt: skip
def test_fields_of_unusual_types_cost_no_event(tmp_path: Path, odd: bytes, name: str) -> None:
    text = json.dumps(TORCH).encode()
    data = b"[%b, %b]" % (text, text.replace(b'"name": "aten::mm"', odd))
    trace = kineto.read(written(tmp_path, data))
    assert said(trace, "name") == ["aten::mm", name]
    assert trace.ignored == {}


def test_deep_nesting_costs_one_event_at_most(tmp_path: Path) -> None:
    deep = json.dumps(TORCH)[:-1] + ', "args": {"x": ' + "[" * 100_000 + "]" * 100_000 + "}}"
    trace = kineto.read(written(tmp_path, f"[{json.dumps(TORCH)}, {deep}, {json.dumps(TORCH)}]"))
    assert count(trace) == 3
    assert len(said(trace, "name")) >= 2


# --- packing ------------------------------------------------------------------------------------


def test_packing_is_told_by_content_and_may_have_members(tmp_path: Path) -> None:
    text = gzip.decompress(SMALL.read_bytes())
    whole = kineto.read(SMALL)
    halves = gzip.compress(text[:5000]) + gzip.compress(text[5000:])
    for content in (text, b"\xef\xbb\xbf" + text, halves, halves + b"\0" * 512):
        trace = kineto.read(written(tmp_path, content))
        assert said(trace, "name") == said(whole, "name")
        assert (trace.ignored, trace.notes) == (whole.ignored, ())


def test_a_cut_or_damaged_packing_gives_what_could_be_unpacked(tmp_path: Path) -> None:
    path = next(path for path in FILES if "non_gpu" in path.name)
    packed = path.read_bytes()
    trace = kineto.read(written(tmp_path, packed[: len(packed) // 2]))
    assert 0 < len(said(trace, "name")) < len(work(plain(path)))
    assert said(trace, "name") == [e["name"] for e in work(plain(path))][: len(said(trace, "name"))]
    assert any("packing is cut" in note for note in trace.notes)
    broken = bytearray(packed)
    broken[len(packed) // 2 : len(packed) // 2 + 50] = b"\xff" * 50
    trace = kineto.read(written(tmp_path, bytes(broken)))
    assert any("packing is damaged" in note for note in trace.notes)


def test_what_unpacks_to_far_more_than_a_trace_does_is_refused(tmp_path: Path) -> None:
    bomb = gzip.compress(b"[" + b" " * (70 << 20), compresslevel=9)
    assert len(bomb) < 200_000
    with refused("unpacks-too-large", "500 times"):
        kineto.read(written(tmp_path, bomb))


def test_progress_ends_at_the_whole() -> None:
    told: list[float] = []
    kineto.read(FILES[0], told.append)
    assert told
    assert told[-1] == 1.0
    assert told == sorted(told)


def test_without_msgspec_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "msgspec", None)
    monkeypatch.delitem(sys.modules, "wattstep.formats.kineto.decoding")
    with refused("missing-extra", "wattstep[traces]"):
        kineto.read(SMALL)


# --- fuzzing ------------------------------------------------------------------------------------


def check(path: Path) -> Trace | None:
    """Either it is refused in our own words (None), or what comes out is sound."""
    try:
        trace = kineto.read(path)
    except InvalidValueError:
        return None
    events = trace.events
    assert events is not None
    assert (events.end_ns >= events.start_ns).all()
    assert all(n > 0 for n in trace.ignored.values())
    for name in ("name", "category", "processor", "shapes"):
        codes = getattr(events, name)
        assert codes.dtype == np.int32
        assert len(codes) == len(events)
        assert not len(codes) or codes.max() < len(trace.names)
    "".join(trace.names).encode()
    if trace.counters:
        for name, times in trace.counters.t_ns.items():
            assert (np.diff(times) > 0).all()
            assert np.isfinite(trace.counters.value[name]).all()
    return trace


def excerpts() -> Iterator[bytes]:
    """The begin, the end and some events of every recording, small enough to be read often."""
    for path in FILES:
        whole = plain(path)
        events = whole["traceEvents"]
        few = [*events[:6], *events[:: max(len(events) // 6, 1)], *events[-4:]]
        head = {"baseTimeNanoseconds": whole.get("baseTimeNanoseconds", 0)}
        yield json.dumps({**head, "traceEvents": few, "traceName": "x"}, default=float).encode()
    memory = [memory_event(*row) for row in MEMORY]
    pair = [{**TORCH, "ph": "B"}, {**TORCH, "ph": "E"}, {**TORCH, "ph": "C", "args": {"a": 1}}]
    yield json.dumps([TORCH, *memory, *pair]).encode()


EXCERPTS = list(excerpts())
CHANGE = st.tuples(
    st.integers(0, 10**6),
    st.integers(0, 12),
    st.sampled_from([b"", b'"', b"{", b"}", b"[", b"]", b",", b"\\", b"\0", b"-", b"e9", b"null"])
    | st.binary(max_size=4),
)


@FUZZED
@given(st.sampled_from(EXCERPTS), st.lists(CHANGE, min_size=1, max_size=4), st.booleans())
def test_changed_files_are_refused_or_read_soundly(
    tmp_path_factory: pytest.TempPathFactory,
    data: bytes, changes: list[tuple[int, int, bytes]], pack: bool,
) -> None:  # fmt: skip
    content = bytearray(gzip.compress(data, mtime=0) if pack else data)
    for at, length, new in changes:
        at %= len(content) + 1
        content[at : at + length] = new
    path = tmp_path_factory.getbasetemp() / "changed.json"
    path.write_bytes(content)
    check(path)


@FUZZED
@given(st.lists(st.dictionaries(
    st.sampled_from(["ph", "cat", "name", "pid", "tid", "ts", "dur", "args", "id"]),
    st.sampled_from(["X", "B", "E", "C", "i", "M", "[memory]", "kernel", "cpu_op", "Trace"])
    | st.floats() | st.integers() | ANY
    | st.dictionaries(st.sampled_from(["Bytes", "Device Id", "Total Allocated", "correlation",
                                       "Input Dims", "size", "device"]), st.integers() | ANY),
), max_size=8))  # fmt: skip
def test_json_of_any_kind_is_accounted_for(
    tmp_path_factory: pytest.TempPathFactory, events: list[dict[str, Any]]
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.json"
    path.write_text(json.dumps(events), encoding="utf-8")
    trace = check(path)
    assert trace is not None
    if trace.counters is None:
        assert count(trace) == len(events)
