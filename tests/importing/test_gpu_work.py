"""The GPU work of real traces: the answers that HolisticTraceAnalysis gives, and bad input.

Its answers (0.5.0) are in tests/fixtures/gpu_breakdown/hta.json.gz, made in tests/fixtures/traces by
`PYTHON ../../../benchmarks/hta_answers.py kineto*.json.gz | gzip -9n`.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from tests.refusals import refused

from wattstep.attribution.gpu_breakdown import Occupancy
from wattstep.importing.gpu_work import gpu_breakdown_of_trace

FIXTURES = Path(__file__).parent.parent / "fixtures"
TRACES = FIXTURES / "traces"
ANSWERS: dict[str, Any] = json.loads(
    gzip.decompress((FIXTURES / "gpu_breakdown/hta.json.gz").read_bytes())
)
ANSWERED = sorted(name for name, one in ANSWERS.items() if "time_us" in one["work_only"])
# As it is, it counts waiting, and operations of the CPU that name a stream, as work of the GPU.
SAME_AS_IT_IS = [name for name in ANSWERED if "simple_add" not in name and "triton" not in name]
FLOAT_US = 0.5  # the peer holds dates in µs as floats, which are off by up to a quarter


def time_us(one: Occupancy) -> dict[str, float]:
    """As the peer calls it."""
    parts = {"idle": one.idle_ns, "compute": one.compute_ns, "non_compute": one.other_ns}
    return {key: ns / 1e3 for key, ns in {**parts, "kernel": one.total_ns}.items()}


def test_of_the_six_recordings_the_peer_answers_for_four_and_fails_for_those_of_a_cpu() -> None:
    assert len(ANSWERS) == 6
    assert len(ANSWERED) == 4
    for name in ANSWERS.keys() - set(ANSWERED):
        assert "IndexError" in ANSWERS[name]["work_only"]["error"]
        found = gpu_breakdown_of_trace(TRACES / name)
        assert (found.occupancies, found.kernels, found.idle) == ((), (), ())


@pytest.mark.parametrize(
    ("name", "form"),
    [*((name, "work_only") for name in ANSWERED), *((name, "as_is") for name in SAME_AS_IT_IS)],
)
def test_idle_compute_and_other_time_are_the_peers(name: str, form: str) -> None:
    (one,) = gpu_breakdown_of_trace(TRACES / name).occupancies
    assert time_us(one) == pytest.approx(ANSWERS[name][form]["time_us"], abs=FLOAT_US)


@pytest.mark.parametrize("name", ANSWERED)
def test_overlaps_of_kinds_are_the_peers_but_for_what_it_cuts_to_whole_microseconds(
    name: str,
) -> None:
    (one,) = gpu_breakdown_of_trace(TRACES / name).occupancies
    ours = {" overlapping ".join(map(str.upper, k)): ns / 1e3 for k, ns in one.together_ns.items()}
    theirs = ANSWERS[name]["work_only"]["kinds_us"]
    assert ours.keys() == theirs.keys()
    for kinds, us in ours.items():
        cut = 0 if float(us).is_integer() else one.pieces
        assert 0 <= us - theirs[kinds] <= cut


@pytest.mark.parametrize("name", ANSWERED)
def test_every_kernel_has_the_peers_sum_longest_shortest_deviation_and_mean(name: str) -> None:
    ours = {
        (one.kind.upper(), one.name): one for one in gpu_breakdown_of_trace(TRACES / name).kernels
    }
    theirs = {(kind, kernel): each for kind, kernel, *each in ANSWERS[name]["work_only"]["kernels"]}
    assert ours.keys() == theirs.keys()
    for key, one in ours.items():
        found = (one.total_ns, one.most_ns, one.least_ns, one.deviation_ns or 0.0, one.mean_ns)
        assert [ns / 1e3 for ns in found] == pytest.approx(theirs[key], rel=1e-9, abs=FLOAT_US)


@pytest.mark.parametrize("name", ANSWERED)
def test_idle_time_of_streams_has_the_peers_causes(name: str) -> None:
    ours = {
        (one.stream, cause): us / 1e3
        for one in gpu_breakdown_of_trace(TRACES / name).idle
        for cause, us in {
            "host_wait": one.host_ns + one.sync_ns, "kernel_wait": one.launch_ns,
            "other": one.copy_ns + one.other_ns,
        }.items()
        if us
    }  # fmt: skip
    theirs = {
        (stream, cause): us
        for stream, cause, us in ANSWERS[name]["work_only"]["idle_us"]
        if us
    }  # fmt: skip
    assert ours == pytest.approx(theirs, abs=FLOAT_US)


def trace_of(path: Path, events: list[dict[str, Any]]) -> Path:
    """A Kineto trace with these, and one operation of the CPU."""
    first = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 0, "dur": 5}
    path.write_text(json.dumps({"traceEvents": [first, *events]}))
    return path


def kernel(
    start: float, length: float, gpu: int = 0, stream: int = 7, **more: Any
) -> dict[str, Any]:
    """One of these times in µs."""
    return {
        "ph": "X", "cat": "kernel", "name": "gemm", "pid": gpu, "tid": stream, "ts": start,
        "dur": length, "args": {"device": gpu, "stream": stream}, **more,
    }  # fmt: skip


def test_kernels_whose_duration_is_negative_are_left_out(tmp_path: Path) -> None:
    trace = trace_of(tmp_path / "t.json", [kernel(10, 5), kernel(12, -3), kernel(20, 1)])
    (one,) = gpu_breakdown_of_trace(trace).occupancies
    assert (one.pieces, one.total_ns, one.busy_ns) == (2, 11_000, 6_000)


def test_several_gpus_of_a_trace_are_told_apart(tmp_path: Path) -> None:
    events = [kernel(10, 5), kernel(20, 5), kernel(100, 2, gpu=1), kernel(101, 5, gpu=1, stream=8)]
    found = gpu_breakdown_of_trace(trace_of(tmp_path / "t.json", events))
    assert [(one.processor, one.total_ns, one.idle_ns) for one in found.occupancies] == [
        ("gpu0", 15_000, 5_000), ("gpu1", 6_000, 0),
    ]  # fmt: skip
    assert [(one.processor, one.stream) for one in found.idle] == [
        ("gpu0", 7), ("gpu1", 7), ("gpu1", 8),
    ]  # fmt: skip


def test_waiting_and_shadows_of_annotations_are_no_work(tmp_path: Path) -> None:
    events = [
        kernel(10, 5),
        kernel(15, 80, cat="cuda_sync", name="Stream Sync"),
        kernel(0, 99, cat="gpu_user_annotation", name="forward"),
    ]
    (one,) = gpu_breakdown_of_trace(trace_of(tmp_path / "t.json", events)).occupancies
    assert (one.pieces, one.total_ns, one.busy_ns) == (1, 5_000, 5_000)


def test_copies_are_memory_whatever_they_are_called(tmp_path: Path) -> None:
    events = [kernel(10, 5, cat="gpu_memcpy", name="strange"), kernel(20, 5, cat="gpu_memset")]
    (one,) = gpu_breakdown_of_trace(trace_of(tmp_path / "t.json", events)).occupancies
    assert one.together_ns == {("memory",): 10_000}


def test_a_file_that_is_no_trace_is_refused_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text("no trace")
    with refused("unknown-trace-format"):
        gpu_breakdown_of_trace(path)
