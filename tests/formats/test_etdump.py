"""ETDumps of ExecuTorch: every event of the runtime comes out, and no damage leads astray."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Callable, Sequence
from pathlib import Path

import flatbuffers
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.refusals import refused
from tests.wording import saying

from wattstep.errors import InvalidValueError
from wattstep.formats.etdump import parse, read
from wattstep.formats.recording import FormatError
from wattstep.formats.trace import Trace

EXAMPLES = 100_000 if settings.default.max_examples > 1000 else 300
RECORDED = Path(__file__).parents[1] / "fixtures" / "traces" / "executorch_tutorial_etdump.etdp"

# What the Inspector of executorch 1.5.1 tells of the recorded file: each event's name and its time in ns
# (the Inspector's figures are ms, `perf_data.raw`), in its order.
INSPECTED = (
    ("Method::init", 22484), ("Program::load_method", 24857),
    ("native_call_convolution.out", 544783), ("OPERATOR_CALL", 546816),
    ("native_call_relu.out", 8394), ("OPERATOR_CALL", 8855),
    ("native_call_max_pool2d_with_indices.out", 50326), ("OPERATOR_CALL", 51197),
    ("native_call_convolution.out", 1031719), ("OPERATOR_CALL", 1032230),
    ("native_call_relu.out", 971), ("OPERATOR_CALL", 1152),
    ("native_call_max_pool2d_with_indices.out", 14081), ("OPERATOR_CALL", 14291),
    ("native_call_permute_copy.out", 153501), ("OPERATOR_CALL", 154003),
    ("native_call_addmm.out", 40962), ("OPERATOR_CALL", 41973),
    ("native_call_relu.out", 151), ("OPERATOR_CALL", 351),
    ("native_call_permute_copy.out", 32911), ("OPERATOR_CALL", 33281),
    ("native_call_addmm.out", 7191), ("OPERATOR_CALL", 7351),
    ("native_call_relu.out", 100), ("OPERATOR_CALL", 260),
    ("native_call_permute_copy.out", 3305), ("OPERATOR_CALL", 3475),
    ("native_call_addmm.out", 691), ("OPERATOR_CALL", 841),
    ("Method::execute", 1898821),
)  # fmt: skip


def told(trace: Trace) -> list[tuple[str, str, int, int]]:
    """Name, category, begin and length of each event."""
    events = trace.events
    if events is None:
        return []
    return [
        (trace.names[name], trace.names[category], int(start), int(end - start))
        for name, category, start, end in zip(
            events.name, events.category, events.start_ns, events.end_ns, strict=True
        )
    ]


Made = Callable[[flatbuffers.Builder], int]


def profile(name: str, start: int, end: int, delegate: str = "", number: int = -1) -> Made:
    """An event of profiling, laid out as the schema orders its fields."""

    def make(builder: flatbuffers.Builder) -> int:
        at = builder.CreateString(name) if name else 0
        said = builder.CreateString(delegate) if delegate else 0
        builder.StartObject(8)
        if at:
            builder.PrependUOffsetTRelativeSlot(0, at, 0)
        builder.PrependInt32Slot(3, number, -1)
        if said:
            builder.PrependUOffsetTRelativeSlot(4, said, 0)
        builder.PrependUint64Slot(6, start, 0)
        builder.PrependUint64Slot(7, end, 0)
        return wrapped(builder, 0, builder.EndObject())

    return make


def allocation(number: int, size: int) -> Made:
    def make(builder: flatbuffers.Builder) -> int:
        builder.StartObject(2)
        builder.PrependInt32Slot(0, number, 0)
        builder.PrependUint64Slot(1, size, 0)
        return wrapped(builder, 1, builder.EndObject())

    return make


def debugged(builder: flatbuffers.Builder) -> int:
    builder.StartObject(6)
    return wrapped(builder, 2, builder.EndObject())


def empty(builder: flatbuffers.Builder) -> int:
    builder.StartObject(3)
    return int(builder.EndObject())


def wrapped(builder: flatbuffers.Builder, slot: int, inner: int) -> int:
    builder.StartObject(3)
    builder.PrependUOffsetTRelativeSlot(slot, inner, 0)
    return int(builder.EndObject())


def vector(builder: flatbuffers.Builder, parts: Sequence[int]) -> int:
    builder.StartVector(4, len(parts), 4)
    for part in reversed(parts):
        builder.PrependUOffsetTRelative(part)
    return int(builder.EndVector())


def dump(*runs: tuple[str, Sequence[str], Sequence[Made]], version: int = 0) -> bytes:
    """A file of these blocks: name, allocators, events."""
    builder = flatbuffers.Builder(256)
    made = []
    for name, allocators, events in runs:
        parts = vector(builder, [event(builder) for event in events])
        names = [builder.CreateString(each) for each in allocators]
        tables = []
        for at in names:
            builder.StartObject(1)
            builder.PrependUOffsetTRelativeSlot(0, at, 0)
            tables.append(builder.EndObject())
        listed, called = vector(builder, tables), builder.CreateString(name)
        builder.StartObject(4)
        builder.PrependUOffsetTRelativeSlot(0, called, 0)
        builder.PrependUOffsetTRelativeSlot(2, listed, 0)
        builder.PrependUOffsetTRelativeSlot(3, parts, 0)
        made.append(builder.EndObject())
    listed = vector(builder, made)
    builder.StartObject(2)
    builder.PrependUint32Slot(0, version, 0)
    builder.PrependUOffsetTRelativeSlot(1, listed, 0)
    builder.Finish(builder.EndObject(), file_identifier=b"ED00")
    return bytes(builder.Output())


def test_every_event_of_the_recorded_file_is_what_executorch_s_inspector_says() -> None:
    trace = read(RECORDED)
    assert [(name, length) for name, _, _, length in told(trace)] == list(INSPECTED)
    assert not trace.ignored
    assert trace.device == {"blocks": {"Default": 1, "Execute": 1}}


def test_operators_lie_within_their_instructions_and_those_within_the_step() -> None:
    by_category: dict[str, list[tuple[int, int]]] = {}
    for name, category, start, length in told(read(RECORDED)):
        if "load" not in name and "init" not in name:
            by_category.setdefault(category, []).append((start, start + length))
    operators, calls, (step,) = (by_category[key] for key in ("operation", "runtime", "step"))
    assert len(operators) == len(calls) == 14
    for (start, end), (call_start, call_end) in zip(operators, calls, strict=True):
        assert step[0] <= call_start <= start <= end <= call_end <= step[1]
    # The fourteen operators' times of the Inspector, added by hand.
    assert sum(end - start for start, end in operators) == 1_889_086


def test_the_first_times_of_the_recorded_file_stand_there_as_they_are_read() -> None:
    data = RECORDED.read_bytes()
    # Method::init begins at 399054 and ends 22484 ns later, as two 64-bit numbers in a row.
    assert struct.pack("<QQ", 0x616CE, 0x66EA2) in data
    assert told(parse(data))[0] == ("Method::init", "runtime", 0x616CE, 0x66EA2 - 0x616CE)


def test_several_executions_are_several_steps() -> None:
    runs = [("Execute", (), (profile("Method::execute", at, at + 90),)) for at in (100, 200, 300)]
    trace = parse(dump(*runs))
    assert told(trace) == [("Method::execute", "step", at, 90) for at in (100, 200, 300)]
    assert trace.device == {"blocks": {"Execute": 3}}
    assert any("one step" in note for note in trace.notes)


def test_allocations_and_values_for_debugging_are_counted() -> None:
    events = (
        allocation(1, 100),
        allocation(2, 7),
        allocation(1, 20),
        allocation(9, 1),
        debugged,
        empty,
    )
    trace = parse(dump(("Execute", ("planned", "method"), events)))
    assert trace.events is None
    assert dict(trace.ignored) == {
        "allocation, without a time": 4,
        "values of tensors, kept for debugging": 1,
        "event without contents": 1,
    }
    assert saying(trace.notes, "allocator planned", "2 allocations", "120 B")
    assert saying(trace.notes, "allocator number 9", "1 allocations", "1 B")


def test_events_of_delegates_count_where_their_times_can_be_the_runtime_s() -> None:
    events = (
        profile("DELEGATE_CALL", 1000, 2000),
        profile("", 1100, 1200, delegate="conv_block"),
        profile("", 1300, 1400, number=7),
        profile("", 5, 9, delegate="on_its_own_clock"),
    )
    trace = parse(dump(("Execute", (), events)))
    assert told(trace) == [
        ("DELEGATE_CALL", "runtime", 1000, 1000),
        ("conv_block", "operation", 1100, 100),
        ("delegate event 7", "operation", 1300, 100),
    ]
    assert dict(trace.ignored) == {"event of a delegate, in a clock of its own": 1}


def test_events_that_end_before_they_begin_are_counted() -> None:
    trace = parse(dump(("x", (), (profile("a", 9, 8), profile("b", 0, 2**63)))))
    assert dict(trace.ignored) == {"event that ends before it begins, or beyond 146 years": 2}


def test_what_the_times_count_is_said(tmp_path: Path) -> None:
    packed = tmp_path / "packed.etdp"
    packed.write_bytes(gzip.compress(RECORDED.read_bytes()))
    trace = read(packed)
    assert trace.clock == "unknown"
    assert any("may count cycles" in note for note in trace.notes)
    assert told(trace) == told(read(RECORDED))


@pytest.mark.parametrize(
    ("data", "id", "named"),
    [
        (b"", "no-identifier", "an empty file"),
        (b'{"traceEvents": [', "no-identifier", "JSON"),
        (b"\x1f\x8b" + bytes(20), "no-identifier", "gzip"),
        (b"\x08\0\0\0ED00\xff\xff\xff\xff", "outside-of-file", ""),
        (b"\xff\xff\xff\xffED00", "outside-of-file", ""),
    ],
)
def test_what_is_wrong_is_said(data: bytes, id: str, named: str) -> None:
    with refused(id, named):
        parse(data)


def test_a_file_that_is_cut_anywhere_is_refused() -> None:
    data = RECORDED.read_bytes()
    for length in range(0, len(data) - 600, 50):
        with pytest.raises(FormatError):
            parse(data[:length])


def test_tables_that_are_laid_over_one_another_are_refused() -> None:
    # A vector of 5000 blocks that are all the same block of 300 events would be 1.5 million.
    builder = flatbuffers.Builder(256)
    events = vector(builder, [profile("a", 1, 2)(builder)] * 300)
    builder.StartObject(4)
    builder.PrependUOffsetTRelativeSlot(3, events, 0)
    runs = vector(builder, [int(builder.EndObject())] * 5000)
    builder.StartObject(2)
    builder.PrependUOffsetTRelativeSlot(1, runs, 0)
    builder.Finish(builder.EndObject(), file_identifier=b"ED00")
    with refused("overlapping-tables"):
        parse(bytes(builder.Output()))


@settings(max_examples=EXAMPLES)
@given(
    st.lists(st.tuples(st.integers(0, 2319), st.binary(min_size=1, max_size=8)), max_size=6),
    st.integers(0, 2320),
)
def test_any_damage_gives_a_trace_or_a_clear_error(
    damage: list[tuple[int, bytes]], keep: int
) -> None:
    data = bytearray(RECORDED.read_bytes())
    for at, put in damage:
        data[at : at + len(put)] = put
    try:
        trace = parse(bytes(data[:keep] if keep < 2000 else data))
    except InvalidValueError:
        return
    if trace.events is not None:
        assert (trace.events.start_ns <= trace.events.end_ns).all()
        assert len(trace.events) + sum(trace.ignored.values()) <= len(data)
