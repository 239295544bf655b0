"""Thinned steps: figures of the whole are those of all steps, and kills lose nothing."""

from __future__ import annotations

import contextlib
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from tests.refusals import refused
from tests.store.conftest import THINNED, Journals, a_planned_read, figures, in_blocks_of
from tests.wording import saying

from wattstep.device.throttling import Stretch
from wattstep.insight.explain.backtest import backtest
from wattstep.insight.explain.gaps import _surroundings as surroundings
from wattstep.insight.explain.level_changes import level_changes
from wattstep.insight.explain.steps import steps as explained_steps
from wattstep.insight.explain.variance import variance
from wattstep.live.journals import JournalNews
from wattstep.live.steps import StepsSoFar
from wattstep.live.tables import news_of_tables
from wattstep.report.export.export import export_run
from wattstep.report.html.lanes import encode
from wattstep.run import load
from wattstep.run.run import Run
from wattstep.run.step_flags import StepFlags
from wattstep.schema.channel import Channel
from wattstep.schema.journal import (
    MARKS,
    OPERATION,
    OPERATION_FIELDS,
    OPERATIONS,
    Mark,
    segment_name,
)
from wattstep.store import pieces
from wattstep.store.convert import convert
from wattstep.store.files import write_info
from wattstep.store.mark_rows import MARK
from wattstep.store.packing import pack_closed

MS = 1_000_000
BEGIN, LASTING_S = 10**12, 240
STEP_NS = 5 * MS
WARMUP, CPU_EVERY, PHASES_EVERY = 3, 7, 31
PAUSES = {9_000: 300 * MS, 20_000: 2_500 * MS}  # before these steps
REST_BEFORE, TRACED = 15_000, range(25_000, 25_010)
DIVERGED = 37_000
ENDS = 20.0  # s at either end that stay


def _channel(name: str, unit: str, kind: str, role: str, scale: float) -> Channel:
    return Channel(
        name=name, unit=unit, kind=kind, domain="system", role=role, source="made", scale=scale
    )


CHANNELS = (
    _channel("board.power", "W", "gauge", "power_total", 1e-3),
    _channel("process.cpu", "s", "counter", "process_cpu_time", 1e-9),
)


def made_steps() -> dict[str, np.ndarray[Any, np.dtype[Any]]]:
    """Begin, end, samples and loss of each step, with a few pauses."""
    rng = np.random.default_rng(3)
    count = 42_000
    lasting = rng.normal(STEP_NS, 0.1 * STEP_NS, count).astype(np.int64)
    lasting[rng.random(count) < 0.002] *= 12
    gaps = rng.integers(20_000, 200_000, count)
    for step, pause in PAUSES.items():
        gaps[step] = pause
    gaps[REST_BEFORE] = 3_000 * MS
    end_ns = BEGIN + 100 * MS + np.cumsum(lasting + gaps)
    loss = rng.lognormal(0.0, 0.3, count)
    loss[DIVERGED:] = np.nan
    samples = np.where(np.arange(count) % 1000 == 999, 5.0, 8.0)
    return {"start": end_ns - lasting, "end": end_ns, "samples": samples, "loss": loss}


STEPS = made_steps()
COUNT = len(STEPS["start"])


def a_run(path: Path, steps_s: float | None, segment: int = 16_000, **described: Any) -> Journals:
    """A run of which marks lie in packed segments but for the last two."""
    journals = Journals(path, [a_planned_read(0, *CHANNELS)], warmup=WARMUP)
    journals.info = replace(
        journals.info,
        keep={} if steps_s is None else {"steps_s": steps_s},
        trace="every:4",
        **described,
    )
    write_info(path, journals.info)
    add, code = journals.marks.add, journals.marks.code
    operations = b""
    for step, (start, end, samples, loss) in enumerate(zip(*STEPS.values(), strict=True)):
        begun, ended = int(start), int(end)
        if step == REST_BEFORE:
            add(Mark.REST_START, code("rest", "evaluation"), t_ns=begun - 2_900 * MS)
            add(Mark.EVALUATION, code("measure", "accuracy"), 0.5, step, t_ns=begun - 200 * MS)
            add(Mark.REST_END, t_ns=begun - 100 * MS)
        if step == TRACED.start:
            add(Mark.WINDOW_START, t_ns=begun - 10_000)
        marked = step % PHASES_EVERY == 0 or step % CPU_EVERY == 0 or step in TRACED
        if marked:
            add(Mark.STEP_START, int(step in TRACED), float(samples), step, t_ns=begun)
            if step % PHASES_EVERY == 0:
                add(Mark.PHASE, code("phase", "forward"), index=step, t_ns=begun + 100)
                add(
                    Mark.PHASE,
                    code("phase", "backward"),
                    index=step,
                    t_ns=begun + (ended - begun) // 3,
                )
            add(Mark.STEP_END, 0, float(loss), step, t_ns=ended)
        else:
            journals.marks.add_step(begun, ended, float(samples), float(loss), step, 0)
        if step in TRACED:
            values = dict.fromkeys(OPERATION_FIELDS, -1) | {
                "step": step, "window": step - TRACED.start, "name": code("operation", "op"),
                "kind": code("kind", "other"), "layer": code("layer", "l"), "outermost": 1,
                "phase": code("phase", "forward"), "shapes": code("shapes", ""), "thread": 1,
                "start_ns": begun + 200_000, "end_ns": ended - 400_000, "allocated": 0,
            }  # fmt: skip
            operations += OPERATION.pack(*(values[name] for name in OPERATION_FIELDS))
        if step == TRACED.stop - 1:
            add(Mark.WINDOW_END, t_ns=ended + 5_000)
    journals.marks.close()
    (journals.folder / OPERATIONS).write_bytes(operations)
    whole = (journals.folder / MARKS).read_bytes()
    for number, first in enumerate(range(0, len(whole), 32 * segment)):
        part = whole[first : first + 32 * segment]
        (journals.folder / segment_name(MARKS, number)).write_bytes(part)
    ticks = np.arange(BEGIN, int(STEPS["end"][-1]) + 100 * MS, 20 * MS)
    rng = np.random.default_rng(4)
    rows = np.zeros((len(ticks), 4), np.int64)
    rows[:, 0] = ticks
    rows[:, 2] = 9000 + 3000 * (ticks // (700 * MS) % 2) + rng.integers(-400, 400, len(ticks))
    rows[:, 3] = np.cumsum(rng.integers(12, 18, len(ticks)) * MS)
    (journals.folder / "samples-00.bin").write_bytes(rows.astype("<i8").tobytes())
    return journals


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    """The same run: with all steps; thinned when it is closed; thinned while it recorded, also in blocks."""
    folder = tmp_path_factory.mktemp("runs")
    for name, steps_s in (
        ("whole", None),
        ("closing", ENDS),
        ("meanwhile", ENDS),
        ("blocks", ENDS),
    ):
        journals = a_run(folder / name, steps_s)
        if name in ("meanwhile", "blocks"):
            with in_blocks_of(7000) if name == "blocks" else contextlib.nullcontext():
                pack_closed(journals.path)
        convert(journals.path)
    return {path.name: load(path) for path in folder.iterdir()}


@THINNED
def test_number_of_steps_that_stay(runs: dict[str, Run], name: str) -> None:
    steps = runs[name].series.steps
    assert steps.thinned is not None
    assert len(steps.index) < 0.35 * COUNT
    assert steps.recorded == COUNT
    assert runs[name].info.keep == {"steps_s": ENDS, "thinned_steps": COUNT - len(steps.index)}
    numbers = np.concatenate(
        [
            steps.index,
            *(
                np.arange(a, b + 1)
                for a, b in zip(steps.thinned.index, steps.thinned.last, strict=True)
            ),
        ]
    )
    np.testing.assert_array_equal(np.sort(numbers), np.arange(COUNT))


@THINNED
def test_steps_that_tell_something(runs: dict[str, Run], name: str) -> None:
    """The first and the last, traced ones, those beside a rest or a pause, and where losses end."""
    kept = set(runs[name].series.steps.index.tolist())
    there = [
        *range(100),
        *range(COUNT - 100, COUNT),
        *TRACED,
        *range(REST_BEFORE - 100, REST_BEFORE + 100),
    ]
    assert kept.issuperset(
        [*there, *PAUSES, *(step - 1 for step in PAUSES), DIVERGED, DIVERGED - 1]
    )


@THINNED
def test_totals(runs: dict[str, Run], name: str) -> None:
    """Of all clean steps, worked out from what was made."""
    clean = np.ones(COUNT, bool)
    clean[[*range(WARMUP), *TRACED, TRACED.stop]] = False
    seconds = (STEPS["end"] - STEPS["start"]) * 1e-9
    gaps = np.append(0, STEPS["start"][1:] - STEPS["end"][:-1]) * 1e-9
    follows = clean & np.append(False, clean[:-1]) & (np.arange(COUNT) != REST_BEFORE)
    run = runs[name]
    metrics = run.metrics
    assert metrics["step_time"].value == pytest.approx(seconds[clean].mean(), rel=1e-13)
    assert metrics["step_time"].n == clean.sum()
    periods = seconds[clean].sum() + gaps[follows].sum()
    assert metrics["throughput"].value == pytest.approx(
        STEPS["samples"][clean].sum() / periods, rel=1e-12
    )
    counts = run.report().steps
    assert (counts.recorded, counts.clean, counts.warmup) == (COUNT, clean.sum(), WARMUP)
    np.testing.assert_array_equal(
        run.series.steps.stretches(), runs["whole"].series.steps.stretches()
    )


@THINNED
def test_figures_beside_those_of_all_steps(runs: dict[str, Run], name: str) -> None:
    whole, thinned = (figures(dict(runs[each].metrics)) for each in ("whole", name))
    assert whole.keys() == thinned.keys()
    off = {}
    for key, figure in whole.items():
        assert (figure.value is None) == (thinned[key].value is None), key
        if figure.value and thinned[key].value is not None:
            off[key] = abs(thinned[key].value / figure.value - 1)
    print({key: each for key, each in off.items() if each > 1e-9})
    assert max(off.values()) < 2e-3
    for key in ("step_time", "throughput", "mean_power"):
        wide = [one[key].high - one[key].low for one in (whole, thinned)]
        assert 0.5 < wide[1] / wide[0] < 2.5, key


@THINNED
def test_note_that_steps_were_thinned(runs: dict[str, Run], name: str) -> None:
    (note,) = (each for each in runs[name].report().notes if "steps were thinned" in each)
    thinned = runs[name].info.keep["thinned_steps"]
    assert note.startswith(f"{thinned:,} of {COUNT:,} steps ")


def test_incomplete_copy(tmp_path: Path, runs: dict[str, Run]) -> None:
    copy = shutil.copytree(runs["closing"].path, tmp_path / "run")
    (copy / "thinned_steps.parquet").unlink()
    with refused("missing-table", "thinned_steps.parquet"):
        _ = load(copy).metrics


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("steps", 0),
        ("steps", 1 << 60),
        ("index", 5),
        ("sum_ns", -1),
        ("begin_ns", 0),
        ("losses", 1),
    ],
)
def test_stretches_that_cannot_be(
    tmp_path: Path, runs: dict[str, Run], column: str, value: int
) -> None:
    copy = shutil.copytree(runs["closing"].path, tmp_path / "run")
    table = pq.read_table(copy / "thinned_steps.parquet")
    values = [value, *table[column].to_pylist()[1:]]
    at = table.schema.get_field_index(column)
    changed = table.set_column(at, table.schema.field(at), [values])
    pq.write_table(changed, copy / "thinned_steps.parquet")
    with refused("damaged-table", "thinned_steps.parquet"):
        _ = load(copy).metrics


def test_a_stretch_that_is_gone(tmp_path: Path, runs: dict[str, Run]) -> None:
    copy = shutil.copytree(runs["closing"].path, tmp_path / "run")
    table = pq.read_table(copy / "thinned_steps.parquet")
    pq.write_table(table.slice(1), copy / "thinned_steps.parquet")
    with refused("damaged-table", "thinned_steps.parquet", "run.json"):
        _ = load(copy).metrics


def test_killed_while_thinning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before a piece takes the other's place nothing is lost, and after it nothing is twice."""
    journals = a_run(tmp_path / "run", ENDS)
    with monkeypatch.context() as patched:
        written: list[str] = []

        def die(journal: Any, piece: str, *args: Any) -> None:
            if written:
                raise OSError("killed")
            written.append(piece)
            write(journal, piece, *args)

        from wattstep.store import thinned_marks

        write = pieces.write_piece
        patched.setattr(thinned_marks, "write_piece", die)
        with pytest.raises(OSError, match="killed"):
            pack_closed(journals.path)
    assert len(written) == 1
    convert(journals.path)
    steps = load(journals.path).series.steps
    assert steps.recorded == COUNT


@pytest.mark.parametrize("closed", [False, True])
def test_follower_of_thinned_steps(tmp_path: Path, closed: bool) -> None:
    journals = a_run(tmp_path / "run", ENDS)
    pack_closed(journals.path)
    so_far = StepsSoFar(warmup=WARMUP)
    if closed:
        convert(journals.path)
        news = list(news_of_tables(journals.path, {}))
    else:
        news = list(JournalNews(journals.path, journals.info, {}).look())
    last = BEGIN
    for each in news:
        for start, end in each.rests:
            so_far.rest(start, end)
        for rows in each.steps:
            assert (np.diff(rows.start_ns, prepend=last) >= 0).all()
            last = int(rows.start_ns[-1])
            so_far.add(rows)
    assert so_far.done == COUNT
    assert so_far.clean == COUNT - WARMUP - len(TRACED) - 1
    trained = (STEPS["end"][-1] - STEPS["end"][WARMUP - 1]) * 1e-9
    values = so_far.stretches.values
    assert len(values) > 10
    assert np.mean(values) == pytest.approx(trained / COUNT, rel=0.05)


@THINNED
def test_operations_of_the_mean_step(runs: dict[str, Run], name: str) -> None:
    """With the rests they make the mean of all steps; their energy is what all steps tell."""
    reports = [runs[each].report() for each in ("whole", name)]
    for report in reports:
        parts = [row.figures["time"].value for row in report.operations]
        parts += [figures["time"].value for figures in report.unattributed.values()]
        whole = report.metrics["step_time"].value
        assert sum(part for part in parts if part is not None) == pytest.approx(whole, rel=1e-12)
    energies = [report.operations[0].figures["energy"] for report in reports]
    assert energies[1].value == pytest.approx(energies[0].value, rel=0.02)
    assert energies[1].low <= energies[0].value <= energies[1].high


@THINNED
def test_timeline_without_a_pause(runs: dict[str, Run], name: str) -> None:
    """Stretches lie among the steps; the steps that are shown singly follow each other."""
    whole, thinned = (runs[each].timeline() for each in ("whole", name))
    lane = thinned.steps
    gaps = np.flatnonzero(lane.start_ns[1:] - lane.end_ns[:-1] > 50 * MS)
    others = np.flatnonzero(whole.steps.start_ns[1:] - whole.steps.end_ns[:-1] > 50 * MS)
    np.testing.assert_array_equal(lane.end_ns[gaps], whole.steps.end_ns[others])
    shown = [step.index for step in thinned.three_steps.steps]
    assert np.diff(shown).tolist() == [1, 1]
    assert any("steps were thinned" in note for note in thinned.notes)
    encoded = encode(thinned)
    assert encoded.document["steps"]["flags"][-1] == "thinned"


@THINNED
def test_explanations(runs: dict[str, Run], name: str) -> None:
    """What needs every step says so, and nothing takes a stretch for a pause."""
    run = runs[name]
    for part in (level_changes(run), backtest(run)):
        assert [sentence for sentence in part.sentences if "not kept (--keep)" in sentence]
    slow = variance(run).figures["slow_step_share"]
    assert slow.missing
    assert saying([slow.reason or ""], "steps were thinned")
    between = [surroundings(each)["between_steps_time"].value for each in (runs["whole"], run)]
    assert between[1] == pytest.approx(between[0], rel=1e-9)


def test_median_period_beside_thinned_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where most steps took three times as long as those that were kept, they are not called a few."""
    first, last = BEGIN + 25_000 * MS, int(STEPS["end"][-1]) - 25_000 * MS
    at = [BEGIN, first, last, last + 60_000 * MS]
    longer = 3 * (last - first)
    to = [BEGIN, first, first + longer, first + longer + 60_000 * MS]
    slower = {key: np.interp(STEPS[key], at, to).astype(np.int64) for key in ("start", "end")}
    monkeypatch.setitem(STEPS, "start", slower["start"])
    monkeypatch.setitem(STEPS, "end", slower["end"])
    section = explained_steps(load(_converted(a_run(tmp_path / "run", ENDS))))
    period = section.figures["step_period_by_marks"].value
    lasting = (STEPS["end"] - STEPS["start"])[WARMUP:] * 1e-9
    assert period is not None
    assert saying([section.figures["step_period_by_marks"].reason or ""], "steps were thinned")
    assert period < 0.5 * float(np.median(lasting))
    assert "steps were thinned (--keep)" in section.sentences[0]
    assert not [sentence for sentence in section.sentences if "a few steps" in sentence]


def test_throttled_steps(tmp_path: Path) -> None:
    """Their number is missing where stretches hold any, and their share is that of the time."""
    steps = load(_converted(a_run(tmp_path / "run", ENDS))).series.steps
    assert steps.thinned is not None
    stretch = int(np.argmax(steps.thinned.steps))
    begin, end = int(steps.thinned.begin_ns[stretch]), int(steps.thinned.end_ns[stretch])
    none = np.zeros(len(steps.index), bool)
    flags = StepFlags(
        throttled=none, disturbed=none, notes=(), watched=(),
        stretches=[
            Stretch(start_ns=begin, end_ns=(begin + end) // 2, uncertain_s=0.0, kind="throttled", cause="", evidence="")
        ],
    )  # fmt: skip
    assert flags.count(steps.counted, "throttled") is None
    assert flags.count(steps.counted, "disturbed") == 0
    expected = 0.5 * steps.thinned.steps[stretch] / steps.counted.count
    assert flags.share(steps.counted, "throttled") == pytest.approx(expected, rel=0.01)


def test_steps_beside_a_device(tmp_path: Path) -> None:
    """Of a timeline of a device no steps are thinned, and its pieces stay as they were packed."""
    journals = a_run(tmp_path / "run", ENDS)
    for path in journals.folder.glob("marks*.bin"):
        marks = np.fromfile(path, MARK)
        marks["kind"][len(marks) // 2] = Mark.DEVICE_COST
        marks.tofile(path)
    with in_blocks_of(3000):
        pack_closed(journals.path)
    packed = journals.folder.glob("marks.*.parquet")
    columns = {pq.ParquetFile(path).metadata.num_columns for path in packed}
    assert columns == {4}


@pytest.mark.parametrize(
    "described",
    [{"options": {"exclude": ["throttled"]}}, {"conditions": {"governor": {"name": "energy"}}}],
)
def test_steps_that_figures_leave_out(tmp_path: Path, described: dict[str, Any]) -> None:
    """Where single steps are left out, none is thinned."""
    path = _converted(a_run(tmp_path / "run", ENDS, **described))
    assert not (path / "thinned_steps.parquet").exists()


def _converted(journals: Journals) -> Path:
    pack_closed(journals.path)
    convert(journals.path)
    return journals.path


@pytest.mark.parametrize("form", ["perfetto", "chrome", "csv"])
def test_exports(tmp_path: Path, runs: dict[str, Run], form: str) -> None:
    counts = export_run(runs["closing"].path, form, tmp_path / "out").written.counts
    assert runs["closing"].series.steps.thinned is not None
    if form != "csv":
        assert counts["thinned_steps"] == len(runs["closing"].series.steps.thinned.steps)
        return
    rows = (tmp_path / "out" / "thinned_steps.csv").read_text().splitlines()
    assert len(rows) == 1 + len(runs["closing"].series.steps.thinned.steps)
