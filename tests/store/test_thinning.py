"""Thinned samples: figures of the whole are those of all samples, and kills lose nothing."""

from __future__ import annotations

import contextlib
import json
import shutil
import signal
import subprocess
import sys
from dataclasses import fields, replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.refusals import refused
from tests.store.conftest import THINNED, Journals, a_planned_read, figures, in_blocks_of

from wattstep.errors import DamagedRunError
from wattstep.live.rows import Rows
from wattstep.record.recorder import Recorder
from wattstep.recorded.curves import curve_of_gauge
from wattstep.recorded.power import EnergySource
from wattstep.recorded.refresh import refresh
from wattstep.recorded.series import NOT_KEPT
from wattstep.recorded.stretches import Stretches, stretches_of
from wattstep.run import load
from wattstep.run.run import Run
from wattstep.schema.channel import Channel
from wattstep.schema.figure import Status
from wattstep.schema.journal import MISSING, SAMPLE_HEADER, Mark, piece_name, segment_name
from wattstep.schema.settings import parse_keep
from wattstep.store import convert as converting
from wattstep.store import journal_rows, pieces, thinned_journal
from wattstep.store.convert import convert
from wattstep.store.files import write_info
from wattstep.store.mark_rows import MARK
from wattstep.store.packing import pack_closed
from wattstep.store.thinning import LEAST_ROWS, Age, SampleJournal, thin

MS = 1_000_000
BEGIN = 1_000_000 * MS
TICKS, SEGMENT = 30_000, 4000  # five minutes, in segments of 40 s
STEP, REST_AT = 50 * MS, (70_000, 131_003, 200_777)  # rests begin, in ms, and last 3 s
WRAP = 500_000
KEEP = "raw=20s"


def a_sampled_channel(name: str, unit: str, kind: str, role: str, **fields: Any) -> Channel:
    return Channel(
        name=name, unit=unit, kind=kind, domain=fields.pop("domain", "system"), role=role,
        source="made", **fields,
    )  # fmt: skip


CHANNELS = (
    a_sampled_channel("board.power", "W", "gauge", "power_total", scale=1e-3),
    a_sampled_channel("zone.temperature", "°C", "gauge", "temperature", scale=0.1),
    a_sampled_channel("rapl.core", "J", "counter", "energy_part", scale=1e-3, wrap=WRAP),
    a_sampled_channel("process.cpu", "s", "counter", "process_cpu_time", scale=1e-9),
    a_sampled_channel("zone.throttled", "1", "counter", "throttle_events"),
)  # fmt: skip
FAILED, PAUSE, GLITCH = slice(9_000, 9_700), 15_000, 21_111


def made_rows() -> np.ndarray[Any, np.dtype[np.int64]]:
    """What the read gave: t_ns, errno, and five values, with a wrap now and then, failures and a pause."""
    rng = np.random.default_rng(5)
    rows = np.zeros((TICKS, 7), np.int64)
    rows[:, 0] = BEGIN + 10 * MS * np.arange(TICKS) + rng.integers(0, MS, TICKS)
    rows[PAUSE:, 0] += 3000 * MS
    rows[:, 2] = 9000 + 3000 * (np.arange(TICKS) % 700 < 250) + rng.integers(-400, 400, TICKS)
    rows[:, 3] = 400 + np.arange(TICKS) // 300 + rng.integers(-2, 3, TICKS)
    rows[:, 4] = np.cumsum(rng.integers(10, 60, TICKS)) % WRAP
    rows[:, 5] = np.cumsum(rng.integers(2, 8, TICKS) * MS)
    rows[:, 6] = np.cumsum(rng.random(TICKS) < 0.0002)
    rows[GLITCH, 2] = 4_000_000
    rows[FAILED, 1], rows[FAILED, 2:] = 5, MISSING
    return rows


ROWS = made_rows()
LATE = np.random.default_rng(6).integers(10, 90, TICKS)


def a_long_run(path: Path, keep: str | None) -> Journals:
    """A run with plain steps and rests, whose samples lie in packed segments but for the last two."""
    journals = Journals(path, [a_planned_read(0, *CHANNELS)], warmup=3)
    journals.info = replace(journals.info, keep=parse_keep(keep))
    write_info(path, journals.info)
    add, code = journals.marks.add, journals.marks.code
    t_ns, end_ns = BEGIN + 100 * MS, int(ROWS[-1, 0]) - 100 * MS
    rng, rests, index = np.random.default_rng(7), list(REST_AT), 0
    while t_ns < end_ns:
        lasting = STEP + int(rng.integers(-4, 5)) * MS
        add(Mark.STEP_START, value=4.0, index=index, t_ns=t_ns)
        add(Mark.STEP_END, value=1.0, index=index, t_ns=t_ns + lasting)
        t_ns, index = t_ns + lasting + MS, index + 1
        if rests and t_ns > BEGIN + rests[0] * MS:
            add(Mark.REST_START, code("rest", "evaluation"), t_ns=t_ns)
            t_ns, _ = t_ns + 3000 * MS, rests.pop(0)
            add(Mark.REST_END, t_ns=t_ns - MS)
    journals.marks.close()
    ticks = np.stack([ROWS[:, 0], LATE, 3 * LATE, LATE > 85], axis=1).astype("<i8")
    for name, rows in (("samples-00.bin", ROWS), ("ticks.bin", ticks)):
        for number, first in enumerate(range(0, TICKS, SEGMENT)):
            part = rows[first : first + SEGMENT].astype("<i8").tobytes()
            (journals.folder / segment_name(name, number)).write_bytes(part)
    return journals


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    """The same run: with all samples; thinned when it is closed; thinned while it recorded, also in blocks."""
    folder = tmp_path_factory.mktemp("runs")
    for name, keep in (("whole", None), ("closing", KEEP), ("meanwhile", KEEP), ("blocks", KEEP)):
        journals = a_long_run(folder / name, keep)
        if name in ("meanwhile", "blocks"):
            with in_blocks_of(1500) if name == "blocks" else contextlib.nullcontext():
                pack_closed(journals.path)
        convert(journals.path)
    return {path.name: load(path) for path in folder.iterdir()}


EACH = pytest.mark.parametrize("name", ["whole", "closing", "meanwhile", "blocks"])


def values_of(run: Run) -> dict[str, float]:
    return {
        key: one.value for key, one in figures(dict(run.metrics)).items() if one.value is not None
    }


@THINNED
def test_number_of_samples_that_stay(runs: dict[str, Run], name: str) -> None:
    whole, thinned = (runs[each].tables.count("samples") for each in ("whole", name))
    assert whole == 8 * TICKS
    assert thinned < 0.45 * whole  # of five minutes 40 s at the ends, what failed, and around rests
    reads = sum(each.reads.sum() for each in runs[name].tables.stretches.values())
    assert runs[name].info.keep == {"raw_s": 20.0, "thinned_reads": reads}
    assert thinned + reads == whole
    assert runs["whole"].tables.stretches == {}
    assert not (runs["whole"].path / "thinned.parquet").exists()


@EACH
def test_energy_of_the_clean_steps(runs: dict[str, Run], name: str) -> None:
    """By the trapezoidal rule over all rows that were made, in this test's own way."""
    run = runs[name]
    valid = (ROWS[:, 1] == 0) & (np.arange(TICKS) != GLITCH)
    t_s, power = (ROWS[:, 0] - BEGIN) * 1e-9, np.where(valid, ROWS[:, 2] * 1e-3, np.nan)
    energy = 0.0
    for begin, end in (run.series.steps.stretches() - BEGIN) * 1e-9:
        first, last = np.searchsorted(t_s, [begin, end])
        for k in range(first - 1, last):
            lasting, mean = t_s[k + 1] - t_s[k], (power[k] + power[k + 1]) / 2
            if lasting < 0.2 and np.isfinite(mean):  # else a pause, or a failed read
                energy += mean * (min(end, t_s[k + 1]) - max(begin, t_s[k]))
    source = run.series.energy
    gains, _ = source.curve.gains(run.series.steps.stretches())  # type: ignore[union-attr]
    assert float(gains.sum()) == pytest.approx(energy, rel=1e-9)


def trapezoids_j(rows: np.ndarray[Any, np.dtype[np.int64]]) -> float:
    """Energy of all that was read, by the trapezoidal rule; across failed reads and pauses none."""
    good = (rows[:, 1] == 0) & (rows[:, 2] < 1_000_000)
    lasting, power = np.diff(rows[:, 0]) * 1e-9, rows[:, 2] * 1e-3
    whole = good[1:] & good[:-1] & (lasting < 0.2)
    return float(((power[1:] + power[:-1]) / 2 * lasting)[whole].sum())


@pytest.mark.parametrize("meanwhile", ["packer thins", "sampler goes on"])
def test_journals_that_change_while_tables_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, meanwhile: str
) -> None:
    """Energy and reads are those of all rows, whatever comes after the samples were looked at."""
    for module in (journal_rows, pieces):
        monkeypatch.setattr(module, "BLOCK", 1000)
    journals = a_long_run(tmp_path / "run", KEEP)
    with monkeypatch.context() as patched:
        patched.setattr(thinned_journal, "thin_pieces", lambda *_: None)
        pack_closed(journals.path)
    later = ROWS[-SEGMENT:].copy()
    later[:, 0] += ROWS[-1, 0] - ROWS[-SEGMENT, 0] + 10 * MS

    def write(folder: Any, name: str, schema: Any, batches: Any) -> None:
        write_table(folder, name, schema, batches)
        if not name.startswith("samples"):
            return
        if meanwhile == "packer thins":
            pack_closed(journals.path)
        else:
            with (journals.folder / segment_name("samples-00.bin", 7)).open("ab") as file:
                file.write(later.astype("<i8").tobytes())

    write_table = converting.write_table
    monkeypatch.setattr(converting, "write_table", write)
    convert(journals.path)
    run = load(journals.path)
    assert run.tables.stretches
    assert run.series.curve(CHANNELS[0]).total[-1] == pytest.approx(trapezoids_j(ROWS), rel=1e-9)
    totals = run.series.totals("zone.temperature")
    assert totals is not None
    assert totals.reads == TICKS - 700


def test_intervals_of_power(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of power that changes at random every second they are no narrower than with all samples."""
    rng = np.random.default_rng(3)
    rows = ROWS.copy()
    rows[:, 2] = 9000 + np.repeat(rng.integers(-4000, 4000, TICKS // 100), 100)
    rows[FAILED, 2] = MISSING
    monkeypatch.setattr(sys.modules[__name__], "ROWS", rows)
    wide: list[dict[str, float]] = []
    for name, keep in (("whole", None), ("closing", KEEP)):
        journals = a_long_run(tmp_path / name, keep)
        convert(journals.path)
        metrics = load(journals.path).metrics
        figures = {each: metrics[each] for each in ("mean_power", "energy_per_step")}
        wide.append({each: one.high - one.low for each, one in figures.items()})
    # Beside an end of steps a thinned stretch may have been at its highest all along.
    assert 0.98 * wide[0]["mean_power"] < wide[1]["mean_power"] < 1.6 * wide[0]["mean_power"]
    assert wide[0]["energy_per_step"] < wide[1]["energy_per_step"]  # gaps lie in each stretch


@THINNED
def test_note_that_samples_were_thinned(runs: dict[str, Run], name: str) -> None:
    """Values of all channels, and for how long of the power."""
    run = runs[name]
    (note,) = (each for each in run.report().notes if "were thinned" in each)
    values = sum(int(each.reads.sum()) for each in run.tables.stretches.values())
    assert values > TICKS
    assert note.startswith(f"{values:,} values ")
    assert "in all of board.power:" in note


def test_incomplete_copy(tmp_path: Path, runs: dict[str, Run]) -> None:
    copy = shutil.copytree(runs["closing"].path, tmp_path / "run")
    (copy / "thinned.parquet").unlink()
    with refused("missing-table", "thinned.parquet"):
        _ = load(copy).metrics


def changed(copy: Path, name: str, change: Any) -> Path:
    """A copy of a run, a table of which was changed by hand."""
    table = pq.read_table(copy / f"{name}.parquet")
    pq.write_table(change(table).cast(table.schema), copy / f"{name}.parquet")
    return copy


def test_sample_within_a_stretch(tmp_path: Path, runs: dict[str, Run]) -> None:
    copy = shutil.copytree(runs["closing"].path, tmp_path / "run")
    stretches = runs["closing"].tables.stretches["board.power"]

    def with_one_more(table: pa.Table) -> pa.Table:
        one = {
            "t_ns": [int(stretches.middle_ns[0])],
            "channel": ["board.power"],
            "value": [9.0],
            "errno": [0],
        }
        row = pa.table({**one, "channel": pa.array(one["channel"]).dictionary_encode()})
        return pa.concat_tables([table, row.cast(table.schema)]).unify_dictionaries()

    with refused("damaged-table", "board.power"):
        _ = load(changed(copy, "samples", with_one_more)).metrics


@pytest.mark.parametrize("reads", [0, 1 << 61])
def test_impossible_numbers_of_reads(tmp_path: Path, runs: dict[str, Run], reads: int) -> None:
    copy = shutil.copytree(runs["closing"].path, tmp_path / "run")

    def with_reads(table: pa.Table) -> pa.Table:
        at = table.schema.get_field_index("reads")
        values = pa.array([reads, *table["reads"].to_pylist()[1:]])
        return table.set_column(at, "reads", values)

    with refused("damaged-table", "thinned.parquet"):
        _ = load(changed(copy, "thinned", with_reads)).metrics


def test_stretches_of_many_names() -> None:
    """Each name has its own rows, in order of time, though rows are mixed."""
    count, names = 3000, 1000
    begin = 100 * np.random.default_rng(1).permutation(count)
    ones = dict.fromkeys(["first", "last", "least", "most", "sum", "integral"], np.ones(count))
    channel = pa.array([f"c{each % names}" for each in range(count)]).dictionary_encode()
    table = pa.table(
        {"begin_ns": begin, "end_ns": begin + 50, "channel": channel, "reads": np.ones(count, int),
         "errno": np.zeros(count, np.int16), **ones}
    )  # fmt: skip
    found, wrong = stretches_of(table)
    assert (len(found), wrong) == (names, "")
    for number in range(names):
        np.testing.assert_array_equal(found[f"c{number}"].begin_ns, np.sort(begin[number::names]))


def test_nothing_old_enough(tmp_path: Path) -> None:
    """A closed run has no empty table, and each wattstep reads it."""
    journals = a_long_run(tmp_path / "run", "raw=1h")
    convert(journals.path)
    document = json.loads((journals.path / "run.json").read_text())
    assert document["schema_version"] == 1
    assert document["keep"] == {"raw_s": 3600.0, "thinned_reads": 0}
    assert not (journals.path / "thinned.parquet").exists()
    assert load(journals.path).tables.count("samples") == 8 * TICKS


@EACH
def test_counters(runs: dict[str, Run], name: str) -> None:
    """A wrap is undone, and nothing is known around failed reads alone."""
    good = ROWS[ROWS[:, 1] == 0]
    step = np.diff(good[:, 4])
    step = np.where(step < 0, step + WRAP, step)
    across = np.flatnonzero(np.diff(np.flatnonzero(ROWS[:, 1] == 0)) > 1)
    curve = runs[name].series.curve(CHANNELS[2])
    assert curve.total[-1] == pytest.approx(np.delete(step, across).sum() * 1e-3, rel=1e-12)
    curve = runs[name].series.curve(CHANNELS[3])
    assert curve.total[-1] == pytest.approx(
        np.delete(np.diff(good[:, 5]), across).sum() * 1e-9, rel=1e-12
    )


@EACH
def test_means_extremes_and_numbers_of_reads(runs: dict[str, Run], name: str) -> None:
    good = ROWS[ROWS[:, 1] == 0, 3] * 0.1
    totals = runs[name].series.totals("zone.temperature")
    assert totals is not None
    assert (totals.reads, totals.least, totals.most) == (len(good), good.min(), good.max())
    assert totals.mean == pytest.approx(good.mean(), rel=1e-12)
    lost = runs[name].series.totals("sampler.lost_ticks")
    assert lost is not None
    assert (lost.reads, lost.total) == (TICKS, (LATE > 85).sum())
    row = next(c for c in runs[name].report().channels if c.name == "board.power")
    assert (row.samples, row.failed_reads) == (TICKS - 700, 700)


def one_stretch(most: float) -> Stretches:
    """10 s of 100 reads of 5 W, but for one that was more, from 10 s on."""
    one = {each.name: np.array([5.0]) for each in fields(Stretches)}
    times = {"begin_ns": 10 * 10**9, "end_ns": 20 * 10**9, "reads": 98, "errno": 0}
    return Stretches(
        **(one | {name: np.array([each]) for name, each in times.items()})
        | {"most": np.array([most]), "integral": np.array([50.0]), "total": np.array([490.0])}
    )


def test_highest_power_within_a_stretch() -> None:
    """Samples of 5 W a second before and behind it say nothing of 40 W within."""
    t_ns = np.arange(0, 31, dtype=np.int64) * 10**9
    t_ns = t_ns[(t_ns <= 10 * 10**9) | (t_ns >= 20 * 10**9)]
    watts = np.full(len(t_ns), 5.0)
    stretches = one_stretch(40.0)
    source = EnergySource(
        curve=curve_of_gauge(t_ns, watts), status=Status.MEASURED, source="", gauge=(t_ns, watts),
        thinned=True, stretches=stretches,
    )  # fmt: skip
    near = source.highest_near(np.array([3, 9, 15, 20, 27]) * 10**9, 0.5)
    np.testing.assert_array_equal(near, [5.0, 5.0, 40.0, 40.0, 5.0])


@pytest.mark.parametrize("each", [1, 3])
def test_update_interval_beside_thinned_samples(each: int) -> None:
    """Two or four samples a second apart between stretches of 10 s: those are no intervals of reads."""
    begin = np.arange(40, dtype=np.int64) * (10 + each) * 10**9
    t_ns = np.sort(np.concatenate([begin + (10 + n) * 10**9 for n in range(each + 1)]))
    value = np.arange(len(t_ns)) % 7.0
    found = refresh(t_ns, value, "made", thinned_ns=begin)
    assert found.spacing_s == 1.0
    assert found.interval.missing or (found.interval.high or 0) <= 2.0
    assert not found.slower


@THINNED
def test_every_figure_of_the_whole(runs: dict[str, Run], name: str) -> None:
    """All metrics of the thinned run have the values of the other; those of distributions come near."""
    whole, thinned = (figures(dict(runs[each].metrics)) for each in ("whole", name))
    assert whole.keys() == thinned.keys()
    of_single = "energy_per_step_by_state.throttled"
    assert (whole.pop(of_single).value, thinned.pop(of_single).reason) == (ANY, NOT_KEPT)
    # What lay in a step and what between two is told apart by single samples, and so are minutes.
    within = {"energy_per_step": 1e-4, "cpu_time_per_step": 1e-3, "sustained": 0.02}
    for key, figure in whole.items():
        if figure.value is None:
            assert thinned[key].value is None, key
            continue
        assert thinned[key].status == figure.status
        near = next((rel for name, rel in within.items() if key.startswith(name)), 1e-9)
        assert thinned[key].value == pytest.approx(figure.value, rel=near), key


@THINNED
def test_times_of_throttling(runs: dict[str, Run], name: str) -> None:
    whole, thinned = (runs[each].conditions.throttled for each in ("whole", name))
    assert whole.any()
    np.testing.assert_array_equal(whole, thinned)


def test_rows_around_events() -> None:
    """Both reads beside a failure, a pause, a wrap and a glitch are samples as they were read."""
    journal = SampleJournal(name="samples-00.bin", header=2, channels=CHANNELS)
    rows, stretches = thin(ROWS, journal, ALL_OLD)
    left = set(rows[:, 0].tolist())
    wraps = np.flatnonzero(np.diff(np.where(ROWS[:, 1] == 0, ROWS[:, 4], 1 << 40)) < 0)
    for at in [FAILED.start, FAILED.stop, PAUSE, GLITCH, GLITCH + 1, *(wraps + 1)]:
        assert {int(ROWS[at - 1, 0]), int(ROWS[at, 0])} <= left
    assert len(rows) + len(stretches) < TICKS / 20


ALL_OLD = Age(since_ns=0, until_ns=1 << 62, kept_ns=np.empty((0, 2), np.int64))


def power_alone(power: np.ndarray[Any, np.dtype[np.int64]]) -> tuple[Any, Any, Any]:
    """Rows of one gauge, read every 10 ms, and what is left of them."""
    rows = np.zeros((len(power), 3), np.int64)
    rows[:, 0], rows[:, 2] = BEGIN + 10 * MS * np.arange(len(power)), power
    journal = SampleJournal(name="samples-00.bin", header=2, channels=CHANNELS[:1])
    return rows, *thin(rows, journal, ALL_OLD)


def test_rows_that_change_their_sign_again_and_again() -> None:
    """A rail near 0 W: between two such rows few are left, and all stay where little would go."""
    rng = np.random.default_rng(0)
    rows, as_read, stretches = power_alone(rng.integers(-30, 200, 20_000))
    np.testing.assert_array_equal(as_read, rows)
    assert not len(stretches)
    rows, as_read, stretches = power_alone(rng.integers(-2, 200, 20_000))
    assert len(as_read) < len(rows) / 10
    inside = np.searchsorted(rows[:, 0], stretches[:, 3]) - np.searchsorted(
        rows[:, 0], stretches[:, 0]
    )
    assert inside.min() > LEAST_ROWS


def test_rows_around_a_limit_of_temperature() -> None:
    """The reads above it and those beside them stay, and no stretch has reads on both sides."""
    channel = replace(CHANNELS[1], limit=85.0)
    rows = np.zeros((20_000, 3), np.int64)
    rows[:, 0], rows[:, 2] = BEGIN + 10 * MS * np.arange(len(rows)), 700
    rows[[5555, 5556], 2] = 850  # in 0.1 °C
    rows[12_000:15_000, 2] = 900
    journal = SampleJournal(name="samples-00.bin", header=2, channels=(channel,))
    as_read, stretches = thin(rows, journal, ALL_OLD)
    assert {*rows[5554:5558, 0], *rows[[11_999, 12_000, 14_999, 15_000], 0]} <= {*as_read[:, 0]}
    least, most = stretches[:, 6], stretches[:, 7]
    np.testing.assert_array_equal(least >= 850, most >= 850)
    assert np.count_nonzero(most >= 850) == 3  # 30 s


def test_garbled_piece(tmp_path: Path) -> None:
    """Other journals, and later pieces of its own, are thinned all the same, and it is told."""
    journals = a_long_run(tmp_path / "run", KEEP)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(thinned_journal, "thin_pieces", lambda *_: None)
        pack_closed(journals.path)
    (journals.folder / piece_name("samples-00.bin", 2)).write_bytes(b"no Parquet")
    with refused("damaged-journal", piece_name("samples-00.bin", 2)):
        pack_closed(journals.path)
    for name, words in (("ticks.bin", 4), ("samples-00.bin", SAMPLE_HEADER + len(CHANNELS))):
        later = pq.ParquetFile(journals.folder / piece_name(name, 3))
        assert later.metadata.num_columns > words, name


def test_segment_that_does_not_come_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journals = a_long_run(tmp_path / "run", None)

    def write_piece(journal: Any, piece: str, *args: Any) -> None:
        if piece == piece_name("samples-00.bin", 0):
            raise DamagedRunError("made")
        written(journal, piece, *args)

    written = pieces.write_piece
    monkeypatch.setattr(pieces, "write_piece", write_piece)
    with pytest.raises(DamagedRunError, match="made"):
        pack_closed(journals.path)
    there = {path.name for path in journals.folder.iterdir()}
    assert segment_name("samples-00.bin", 0) in there
    assert {piece_name("samples-00.bin", 3), piece_name("ticks.bin", 0)} <= there


def test_late_follower(tmp_path: Path) -> None:
    journals = a_long_run(tmp_path / "run", KEEP)
    pack_closed(journals.path)
    layout = np.dtype([("t", "<i8"), ("errno", "<i8"), ("value", "<i8", 5)])
    follower = Rows(journals.folder / "samples-00.bin", layout)
    times: list[int] = []
    while len(rows := follower.new()):
        times += rows["t"].tolist()
    assert len(times) < TICKS / 2
    assert times[0] == ROWS[0, 0]
    assert times[-1] == ROWS[-1, 0]
    assert times == sorted(times)


KILLED = """
import os, signal, sys
from pathlib import Path
from wattstep.store import folder, packing, pieces, thinned_journal

def killed(*args, **kwargs):
    os.kill(os.getpid(), signal.SIGKILL)

def begin(*args):
    if sys.argv[2] == "written":
        pieces._holds = killed
    else:
        setattr(folder.Folder, sys.argv[2], killed)
    thin_pieces(*args)

thin_pieces, thinned_journal.thin_pieces = thinned_journal.thin_pieces, begin
packing.pack_closed(Path(sys.argv[1]))
"""


@pytest.mark.parametrize("place", ["written", "rename", "sync"])
def test_kill_during_thinning(tmp_path: Path, runs: dict[str, Run], place: str) -> None:
    journals = a_long_run(tmp_path / "run", KEEP)
    command = [sys.executable, "-c", KILLED, str(journals.path), place]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    convert(journals.path)
    run = load(journals.path)
    assert values_of(run) == pytest.approx(values_of(runs["meanwhile"]), rel=1e-9)
    assert run.series.totals("sampler.lost_ticks") == runs["meanwhile"].series.totals(
        "sampler.lost_ticks"
    )


def test_second_thinning(tmp_path: Path) -> None:
    journals = a_long_run(tmp_path / "run", KEEP)
    pack_closed(journals.path)
    piece = journals.folder / piece_name("samples-00.bin", 2)
    before = piece.read_bytes()
    assert pq.ParquetFile(piece).metadata.num_columns > 7
    pack_closed(journals.path)
    assert piece.read_bytes() == before


def test_pieces_without_keep(tmp_path: Path) -> None:
    journals = a_long_run(tmp_path / "run", None)
    pack_closed(journals.path)
    table = pq.read_table(journals.folder / piece_name("samples-00.bin", 2))
    rows = np.stack([column.to_numpy() for column in table.columns], axis=1)
    np.testing.assert_array_equal(rows, ROWS[2 * SEGMENT : 3 * SEGMENT])


@pytest.mark.parametrize(
    ("text", "error"),
    [("step=7d", "malformed-keep"), ("raw=1h,raw=2h", "malformed-keep"), ("steps=1s", "out-of-range"),
     ("",  "malformed-keep"), ("1h", "malformed-keep"), ("raw=soon", "malformed-duration"),
     ("raw=5s", "out-of-range"), ("raw=-1h", "malformed-duration"), ("steps=1h,raw", "malformed-keep")],
)  # fmt: skip
def test_refusals_of_keep(text: str, error: str) -> None:
    with refused(error):
        Recorder("never", keep=text)


def test_ages() -> None:
    assert parse_keep(None) == {}
    assert parse_keep("raw=1h") == {"raw_s": 3600.0}
    assert parse_keep("raw=2d") == {"raw_s": 172_800.0}
    assert parse_keep("steps=2h, raw=1h") == {"raw_s": 3600.0, "steps_s": 7200.0}


def test_looks_for_marks_when_closing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once for all journals, and only for what the packer has not thinned."""
    journals = a_long_run(tmp_path / "run", KEEP)
    pack_closed(journals.path)
    looked: list[int] = []

    def marks(journal: Any, begin_ns: int, end_ns: int) -> Any:
        looked.append(begin_ns)
        return every_mark(journal, begin_ns, end_ns)

    every_mark = thinned_journal._marks
    monkeypatch.setattr(thinned_journal, "_marks", marks)
    convert(journals.path)
    (begin_ns,) = looked
    # The last two segments are not packed, and the one before is not old enough as a whole.
    assert begin_ns == pytest.approx(ROWS[5 * SEGMENT, 0], abs=61_000 * MS)


def made_marks(kinds: list[Mark]) -> np.ndarray[Any, Any]:
    marks = np.zeros(len(kinds), MARK)
    marks["t"], marks["kind"] = 10 * np.arange(len(kinds)), kinds
    return marks


RESTS = [Mark.REST_START, Mark.REST_END]
STEPS = [Mark.STEP_START, Mark.STEP_END]


@pytest.mark.parametrize("size", [7, 1000])
def test_surroundings_of_rests(size: int) -> None:
    """Two marks before, and the end of the second step behind, in blocks of any size."""
    marks = made_marks(5 * [*4 * STEPS, *RESTS])
    blocks = (marks[at : at + size] for at in range(0, len(marks), size))
    expected = []
    for number in range(5):
        begin = 100 * number + 80
        end = begin + 50 if number < 4 else begin + 10  # the last mark
        expected += [(begin - 20, end, Mark.REST_START), (begin - 10, end, Mark.REST_END)]
    assert list(thinned_journal._around_edges(blocks)) == expected


def test_rests_without_steps() -> None:
    """Each is told before the next block is read, so that none wait; together they cover all."""
    taken = 0

    def blocks() -> Any:
        nonlocal taken
        for _ in range(4):
            taken += 1
            part = made_marks(50 * RESTS)
            part["t"] += 1000 * (taken - 1)
            yield part

    found = []
    for low, high, _ in thinned_journal._around_edges(blocks()):
        found.append((low, high))
        assert low >= 1000 * (taken - 2)
        if len(found) == 1:
            assert taken == 1
    assert len(found) == 400
    assert all(high >= low for (_, high), (low, _) in pairwise(found))
    assert (found[0][0], found[-1][1]) == (0, 3990)
