"""What --align says, and what comes of it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest
from tests.refusals import refused
from tests.wording import assert_says, saying

from wattstep.formats.recording import Recording
from wattstep.importing.aligning import Alignment, align, parse_alignment, read_marks
from wattstep.importing.telemetry import Telemetry
from wattstep.schema.channel import Channel

SECOND = 10**9
EPOCH = 1_790_000_000 * SECOND
POWER = Channel(
    name="power", unit="W", kind="gauge", domain="system", role="power_total", source="test"
)


@dataclass
class Traced:
    clock: str = "wall"


@dataclass
class Tables:
    busy: dict[str, np.ndarray] = field(default_factory=dict)
    busy_by: dict[str, tuple[np.ndarray, ...]] = field(default_factory=dict)


def recordings(ahead_s: float = 0.0, clock: str = "wall") -> tuple[Traced, Tables, Telemetry]:
    """A trace of 30 s, and power at 100 Hz whose clock is behind by so much."""
    random = np.random.default_rng(4)
    lengths = random.uniform(0.05, 0.6, 90)
    edges = np.rint(np.cumsum(lengths) * SECOND).astype(np.int64)
    busy = np.column_stack([edges[0:-1:2], edges[1::2]])
    t = np.arange(0, int(edges[-1]), SECOND // 100)
    on = np.searchsorted(edges, t, side="right") % 2
    watts = 3 + 2 * on + random.normal(0, 0.2, len(t))
    recording = Recording(
        format="test", channels=(POWER,), clock=clock, value={"power": watts},
        t_ns={"power": EPOCH + t - round(ahead_s * 1e9)},
    )  # fmt: skip
    return Traced(), Tables({"all": EPOCH + busy}), Telemetry(file="a.csv", recording=recording)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("auto", Alignment()),
        ("load", Alignment(way="load")),
        ("marks:x.csv", Alignment(way="marks", marks=Path("x.csv"))),
        ("offset:-3.25", Alignment(way="offset", offset_s=-3.25, uncertainty_s=0.005)),
        ("offset:12,rate=1.00002", Alignment(way="offset", offset_s=12, uncertainty_s=0.5, rate=1.00002)),
    ],
)  # fmt: skip
def test_the_ways_to_align(text: str, expected: Alignment) -> None:
    assert parse_alignment(text) == expected


@pytest.mark.parametrize(
    ("text", "id"),
    [
        ("", "unknown-alignment"), ("loud", "unknown-alignment"), ("marks", "unknown-alignment"),
        ("marks:", "unknown-alignment"), ("offset:", "unknown-alignment"),
        ("offset:x", "malformed-offset"), ("offset:nan", "out-of-range"),
        ("offset:1,rate=5", "out-of-range"),
    ],
)  # fmt: skip
def test_what_is_no_way_is_refused(text: str, id: str) -> None:
    with refused(id):
        parse_alignment(text)


def test_wall_clocks_that_agree_with_the_load_are_known_as_well_as_the_load_allows() -> None:
    trace, tables, log = recordings()
    found = align(parse_alignment("auto"), trace, tables, [log])
    (document,) = found.documents
    assert document["file"] == "a.csv"
    assert_says(document["method"], "wall clocks")
    assert document["offset_s"] == 0
    assert 0 < document["uncertainty_s"] <= 0.02
    assert found.logs[0].recording.t_ns["power"].tolist() == log.recording.t_ns["power"].tolist()
    json.dumps(document)


@pytest.mark.parametrize("ahead_s", [0.08, 2.0])
def test_wall_clocks_that_the_load_contradicts_give_way_to_it(ahead_s: float) -> None:
    trace, tables, log = recordings(ahead_s=ahead_s)
    found = align(parse_alignment("auto"), trace, tables, [log])
    assert found.documents[0]["method"] == "by load"
    assert found.documents[0]["offset_s"] == pytest.approx(ahead_s, abs=0.02)
    assert found.documents[0]["uncertainty_s"] <= 0.02
    assert saying(found.notes, "disagree", "the load")
    assert not any("agrees" in note for note in found.notes)


def test_a_wall_clock_that_nothing_checks_is_warned_of() -> None:
    trace, tables, log = recordings()
    flat = constant(log)
    found = align(parse_alignment("auto"), trace, tables, [flat])
    assert found.documents[0]["uncertainty_s"] == 0.1
    assert saying(found.notes, "warning:", "wall clocks", "flat.csv", "power does not")


def test_a_log_that_covers_little_of_its_trace_may_be_misdated() -> None:
    trace, tables, log = recordings()
    flat = constant(log)
    (busy,) = tables.busy.values()
    begin, end = int(busy[0, 0]), int(busy[-1, 1])
    until = flat.recording.t_ns["power"] <= begin + 0.7 * (end - begin)
    recording = replace(
        flat.recording,
        t_ns={"power": flat.recording.t_ns["power"][until]},
        value={"power": flat.recording.value["power"][until]},
    )
    found = align(parse_alignment("wall"), trace, tables, [replace(flat, recording=recording)])
    assert saying(found.notes, "70 %")
    whole = align(parse_alignment("wall"), trace, tables, [flat])
    assert not any("covers" in note for note in whole.notes)


def test_a_log_without_load_borrows_a_clock_with_what_two_wall_clocks_differ_by() -> None:
    trace, tables, log = recordings()
    trace.clock = "counted"
    found = align(parse_alignment("load"), trace, tables, [log, constant(log)])
    own, borrowed = found.documents
    assert (own["method"], borrowed["method"]) == ("by load", "by load of a.csv")
    assert borrowed["uncertainty_s"] == pytest.approx(own["uncertainty_s"] + 0.1, abs=1e-6)


def test_kinds_of_work_of_different_power_do_not_mislead() -> None:
    """Steps of four operations at 10, 20, 15 and 5 W over 2 W; the log is 3.2 s behind."""
    random = np.random.default_rng(0)
    begin, kinds = 2.0, list[list[tuple[float, float]]]([[], [], [], []])
    for _ in range(40):
        stretch, at = 1 + 0.08 * random.standard_normal(), begin
        for kind, seconds in zip(kinds, (0.1, 0.05, 0.15, 0.05), strict=True):
            kind.append((at, at + seconds * stretch))
            at += (seconds + 0.005) * stretch
        begin += 0.5 * stretch + 0.03 * random.random()
    t = np.arange(0, begin + 2, 0.002)
    watts = np.full(len(t), 2.0) + random.normal(0, 0.05, len(t))
    for kind, power in zip(kinds, (10, 20, 15, 5), strict=True):
        for start, end in kind:
            watts[(t >= start) & (t < end)] += power - 2
    by_name = tuple(EPOCH + np.rint(np.array(kind) * 1e9).astype(np.int64) for kind in kinds)
    every = np.concatenate(by_name)
    busy = every[np.argsort(every[:, 0])]
    recording = Recording(
        format="test", channels=(POWER,), clock="wall", value={"power": watts},
        t_ns={"power": EPOCH + np.rint((t - 3.2) * 1e9).astype(np.int64)},
    )  # fmt: skip
    log = Telemetry(file="a.csv", recording=recording)
    tables = Tables(busy={"all": busy}, busy_by={"all": by_name})
    found = align(parse_alignment("load"), Traced(), tables, [log])
    (document,) = found.documents
    assert document["offset_s"] == pytest.approx(3.2, abs=0.002)
    assert document["uncertainty_s"] <= 0.02


def constant(log: Telemetry) -> Telemetry:
    """A log at the same moments whose power does not move."""
    value = {"power": np.full(len(log.recording.value["power"]), 3.0)}
    return Telemetry(file="flat.csv", recording=replace(log.recording, value=value))


def test_wall_clocks_that_the_load_contradicts_are_warned_of() -> None:
    trace, tables, log = recordings(ahead_s=2.0)
    found = align(parse_alignment("wall"), trace, tables, [log])
    assert saying(found.notes, "2 s from where", "--align load")
    assert found.documents[0]["uncertainty_s"] >= 2.0


@pytest.mark.parametrize("clock", ["counted", "wall"])
def test_clocks_that_share_nothing_are_brought_together_by_load(clock: str) -> None:
    ahead = EPOCH * 1e-9 if clock == "counted" else 7200.0
    trace, tables, log = recordings(ahead_s=ahead, clock=clock)
    found = align(parse_alignment("auto"), trace, tables, [log])
    assert found.documents[0]["method"] == "by load"
    assert found.documents[0]["offset_s"] == pytest.approx(ahead, abs=0.02)
    assert found.documents[0]["uncertainty_s"] <= 0.02


def test_an_offset_is_taken_as_stated() -> None:
    trace, tables, log = recordings(ahead_s=3.5)
    found = align(parse_alignment("offset:3.50"), trace, tables, [log])
    assert found.logs[0].recording.t_ns["power"][0] == EPOCH
    # Half of its last digit, and 100 ppm of at most 32 s, as no rate was stated.
    assert 0.005 <= found.documents[0]["uncertainty_s"] <= 0.005 + 0.0032


def test_marks_come_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "marks.csv"
    path.write_text("telemetry,trace,uncertainty\n1.5,3.5,0.001\n101.5,103.505,0.001\n")
    assert read_marks(path).tolist() == [
        [1_500_000_000, 3_500_000_000, 1_000_000],
        [101_500_000_000, 103_505_000_000, 1_000_000],
    ]
    trace, tables, log = recordings()
    found = align(Alignment(way="marks", marks=path), trace, tables, [log])
    assert found.documents[0]["rate"] == pytest.approx(1.00005, abs=1e-9)
    for text, id, named in [
        ("a,b\n1,2\n", "marks-header", "telemetry,trace"),
        ("telemetry,trace\n1,x\n", "malformed-mark", "line 2"),
        ("telemetry,trace\n1\n", "malformed-mark", "line 2"),
    ]:
        path.write_text(text)
        with refused(id, named):
            read_marks(path)


def test_taken_as_they_are_nobody_knows_how_exactly() -> None:
    trace, tables, log = recordings()
    found = align(parse_alignment("none"), trace, tables, [log])
    assert found.documents[0]["uncertainty_s"] is None


def test_what_cannot_be_aligned_says_which_ways_there_are() -> None:
    trace, tables, log = recordings(clock="counted")
    flat = Telemetry(
        file="flat.csv",
        recording=Recording(
            format="test", channels=(POWER,), clock="counted", t_ns=log.recording.t_ns,
            value={"power": np.full(len(log.recording.value["power"]), 3.0)},
        ),
    )  # fmt: skip
    with refused("not-alignable", "flat.csv: ", "offset:SECONDS", "marks:FILE"):
        align(parse_alignment("auto"), trace, tables, [flat])
    with refused("no-wall-clock", "flat.csv"):
        align(parse_alignment("wall"), trace, tables, [flat])
    with refused("needs-trace", "--trace"):
        align(parse_alignment("load"), None, None, [log])
    with refused("no-common-clock", "flat.csv"):
        align(parse_alignment("auto"), None, None, [log, flat])


def test_telemetry_alone_keeps_its_clock() -> None:
    _, _, log = recordings()
    found = align(parse_alignment("auto"), None, None, [log])
    assert found.documents == ()
    assert found.logs[0].recording.t_ns["power"][0] == EPOCH
