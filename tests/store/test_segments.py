"""A recording in segments, packed or not, closes to the tables of one that has none."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.refusals import refused
from tests.store.conftest import Journals, a_channel, table
from tests.store.test_convert import TABLES, a_busy_run

from wattstep.errors import DamagedRunError
from wattstep.live import rows as live_rows
from wattstep.live.rows import MARK, MarkRows, Rows
from wattstep.record.sampling import child, collector_child
from wattstep.record.sampling.sampler import last_sample_ns
from wattstep.recorded.reading import Tables
from wattstep.schema.journal import Mark, piece_name, segment_name
from wattstep.schema.run_info import PlannedRead
from wattstep.store import journal_rows, marks, packing, pieces, tables
from wattstep.store.convert import convert
from wattstep.store.files import read_info, write_whole
from wattstep.store.folder import Folder
from wattstep.store.marks import MarkJournal
from wattstep.store.packing import pack_closed
from wattstep.store.segments import SegmentedFile, packable, segment_bytes
from wattstep.store.without_pandas import without_pandas

ROWS = {"marks.bin": 32, "operations.bin": 120, "samples-00.bin": 32, "ticks.bin": 32}


def cut_into_segments(journals: Journals, name: str, sizes: list[int]) -> int:
    """Spreads a journal over segments of so many rows, and the rest over one more; how many there are."""
    path = journals.folder / name
    data, at = path.read_bytes(), 0
    for number, count in enumerate([*sizes, len(data)]):
        part = data[at : at + count * ROWS[name]]
        at += len(part)
        (journals.folder / segment_name(name, number)).write_bytes(part)
        if at == len(data):
            return number + 1
    raise AssertionError


def packed(journals: Journals, name: str, number: int) -> bool:
    with Folder(journals.folder) as folder:
        return pieces.pack(folder, name, number, ROWS[name] // 8)


def ordered(run: Path, name: str) -> list[dict[str, object]]:
    """Rows of a table; channels of one read take turns, block by block."""
    rows = table(run, name)
    return sorted(rows, key=lambda r: (r["channel"], r["t_ns"])) if name == "samples" else rows


@pytest.fixture(scope="module")
def unsegmented(tmp_path_factory: pytest.TempPathFactory) -> Path:
    journals = a_busy_run(tmp_path_factory.mktemp("whole") / "run")
    convert(journals.path)
    return journals.path


@given(data=st.data())
@settings(max_examples=20)
def test_tables_do_not_depend_on_where_segments_end_nor_on_which_are_packed(
    tmp_path_factory: pytest.TempPathFactory, unsegmented: Path, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("cut")
    journals = a_busy_run(folder / "run")
    for name in ROWS:
        sizes = data.draw(st.lists(st.integers(1, 40), max_size=6), label=name)
        for number in range(cut_into_segments(journals, name, sizes)):
            if data.draw(st.booleans()):
                assert packed(journals, name, number)
                assert not (journals.folder / segment_name(name, number)).exists()
    convert(journals.path)
    for name in TABLES:
        assert ordered(journals.path, name) == ordered(unsegmented, name)
    shutil.rmtree(folder)


def test_the_journal_of_marks_goes_on_in_segments_of_whole_chunks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(marks, "CHUNK", 4096)
    monkeypatch.setattr(marks, "WORDS", 512)
    journal = MarkJournal(tmp_path, segment=5000)  # two chunks: 256 marks
    for number in range(600):
        journal.add(Mark.PHASE, 7, index=number)
    journal.close()
    parts = [np.fromfile(tmp_path / segment_name("marks.bin", n), MARK) for n in range(3)]
    assert [len(part) for part in parts] == [256, 256, 88]
    assert np.concatenate(parts)["index"].tolist() == list(range(600))
    assert len(list(tmp_path.glob("marks*"))) == 3


def test_a_segment_that_cannot_be_begun_leaves_the_journal_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(marks, "CHUNK", 4096)
    monkeypatch.setattr(marks, "WORDS", 512)
    journal = MarkJournal(tmp_path, segment=4096)
    for number in range(128):
        journal.add(Mark.PHASE, index=number)

    def full(*_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "posix_fallocate", full)
        for _ in range(2):
            with pytest.raises(OSError, match="No space"):
                journal.add(Mark.PHASE, index=128)
    assert not (tmp_path / "marks.0001.bin").exists()
    journal.add(Mark.PHASE, index=128)
    journal.close()
    assert np.fromfile(tmp_path / "marks.bin", MARK)["index"].tolist() == list(range(128))
    assert np.fromfile(tmp_path / "marks.0001.bin", MARK)["index"].tolist() == [128]


def of_sampler(path: Path) -> Callable[[int], None]:
    journal = child.Journal(str(path), 3, 240)  # type: ignore[no-untyped-call]

    def write(t_ns: int) -> None:
        journal.rows.append(journal.pack(t_ns, 0, 7))
        journal.flush()

    return write


def of_collector(path: Path) -> Callable[[int], None]:
    journal = collector_child.Journal(path, 1, 240)

    def write(t_ns: int) -> None:
        journal.add(t_ns, 0, (7,))
        journal.flush()

    return write


def of_recorder(path: Path) -> Callable[[int], None]:
    file = SegmentedFile(path, 240)

    def write(t_ns: int) -> None:
        write_whole(file.fd, struct.pack("<3q", t_ns, 0, 7))
        file.go_on()

    return write


@pytest.mark.parametrize("begin", [of_sampler, of_collector, of_recorder])
def test_segments_go_on_where_the_folder_was_moved_and_where_one_could_not_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begin: Callable[[Path], Callable[[int], None]]
) -> None:
    (tmp_path / "run").mkdir()
    write = begin(tmp_path / "run" / "samples-00.bin")
    moved = (tmp_path / "run").rename(tmp_path / "moved")
    opened = os.open

    def full(path: str, *args: object, **more: object) -> int:
        if ".0002." in str(path):
            raise OSError(errno.EMFILE, "Too many open files")
        return opened(path, *args, **more)  # type: ignore[arg-type]

    for t_ns in range(19):
        write(t_ns)
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", full)
        for t_ns in range(19, 22):
            with pytest.raises(OSError, match="open files"):
                write(t_ns)
    for t_ns in range(22, 25):
        write(t_ns)
    found = {path.name: np.fromfile(path, ("<i8", 3))[:, 0].tolist() for path in moved.iterdir()}
    assert found == {
        "samples-00.bin": list(range(10)),
        "samples-00.0001.bin": list(range(10, 23)),  # all that was written stays
        "samples-00.0002.bin": [23, 24],
    }


def test_marks_go_on_where_the_folder_was_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(marks, "CHUNK", 4096)
    monkeypatch.setattr(marks, "WORDS", 512)
    (tmp_path / "run").mkdir()
    journal = MarkJournal(tmp_path / "run", segment=4096)
    moved = (tmp_path / "run").rename(tmp_path / "moved")
    for number in range(200):
        journal.add(Mark.PHASE, index=number)
    journal.close()
    parts = [np.fromfile(moved / segment_name("marks.bin", n), MARK) for n in range(2)]
    assert np.concatenate(parts)["index"].tolist() == list(range(200))


@pytest.mark.parametrize("begin", [of_sampler, of_collector])
def test_journals_of_samples_go_on_in_segments_also_after_a_kill(
    tmp_path: Path, begin: Callable[[Path], Callable[[int], None]]
) -> None:
    path = tmp_path / "samples-03.bin"
    write = begin(path)
    for t_ns in range(24):
        write(t_ns)
    sizes = {each.name: each.stat().st_size for each in tmp_path.iterdir()}
    assert sizes == {
        "samples-03.bin": 240, "samples-03.0001.bin": 240, "samples-03.0002.bin": 96,
    }  # fmt: skip
    read = PlannedRead(
        number=3, sensor="", path="", parser="", every=1, channels=(a_channel("made"),)
    )
    assert last_sample_ns(tmp_path, [read]) == 23
    with (tmp_path / "samples-03.0002.bin").open("ab") as file:
        file.write(b"cut")
    path.rename(tmp_path / "samples-03.0000.parquet")  # packed meanwhile
    begin(path)(24)
    last = np.fromfile(tmp_path / "samples-03.0002.bin", ("<i8", 3))
    assert last[[0, 3, -1], 0].tolist() == [20, 23, 24]
    assert not path.exists()


def test_what_is_packed_is_all_but_the_last_two_segments_of_each_journal() -> None:
    names = [
        "lock", "names.jsonl", "replay-00.bin", "marks.0000.parquet", "marks.0001.bin", "marks.0002.bin",
        "marks.0003.bin", "samples-00.bin", "samples-00.0001.bin", "samples-01.bin",
        "samples-01.0001.bin", "samples-01.0002.bin", ".marks.0000.parquet.a1b2",
    ]  # fmt: skip
    assert packable(names) == [("marks.bin", 1), ("samples-01.bin", 0)]


@pytest.mark.parametrize("text", ["0", "-1", "nan", "much", "2000"])
def test_a_size_of_segments_that_is_none_is_refused(
    monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    assert segment_bytes() == 16 << 20
    monkeypatch.setenv("WATTSTEP_SEGMENT", text)
    with refused("malformed-segment", "WATTSTEP_SEGMENT", text):
        segment_bytes()


# --- faults ------------------------------------------------------------------------------------

KILLED = """
import os, signal, sys
from pathlib import Path
from wattstep.store import folder, packing, pieces

def killed(*args, **kwargs):
    os.kill(os.getpid(), signal.SIGKILL)

place = sys.argv[2]
if place == "written":
    pieces._holds = killed
else:
    setattr(folder.Folder, place, killed)
packing.pack_closed(Path(sys.argv[1]))
"""


@pytest.mark.parametrize("place", ["written", "rename", "sync", "remove"])
def test_a_packer_that_is_killed_loses_nothing(
    tmp_path: Path, unsegmented: Path, place: str
) -> None:
    journals = a_busy_run(tmp_path / "run")
    cut_into_segments(journals, "marks.bin", [10] * 6)
    command = [sys.executable, "-c", KILLED, str(journals.path), place]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    if place == "sync":  # renamed, and the segment still there: both say the same
        assert (journals.folder / piece_name("marks.bin", 0)).exists()
        assert (journals.folder / "marks.bin").exists()
    pack_closed(journals.path)  # by the next one
    assert not (journals.folder / "marks.bin").exists()
    convert(journals.path)
    for name in TABLES:
        assert ordered(journals.path, name) == ordered(unsegmented, name)
    assert not journals.folder.exists()


@contextlib.contextmanager
def small_files() -> Iterator[None]:
    """No file may grow beyond 100 bytes, pytest's neither: a write further on fails as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)


@pytest.fixture
def segmented(tmp_path: Path) -> Journals:
    journals = a_busy_run(tmp_path / "run")
    cut_into_segments(journals, "marks.bin", [10] * 6)
    return journals


def test_a_full_disk_leaves_the_segments(segmented: Journals) -> None:
    before = {path.name: path.read_bytes() for path in segmented.folder.iterdir()}
    with small_files(), pytest.raises(OSError, match="large"):
        pack_closed(segmented.path)
    assert {path.name: path.read_bytes() for path in segmented.folder.iterdir()} == before


def test_a_segment_that_was_cut_in_a_row_is_not_packed(tmp_path: Path) -> None:
    journals = a_busy_run(tmp_path / "run")
    cut_into_segments(journals, "marks.bin", [10] * 6)
    with (journals.folder / "marks.bin").open("r+b") as file:
        file.truncate(5 * 32 + 7)
    assert not packed(journals, "marks.bin", 0)
    assert (journals.folder / "marks.bin").stat().st_size == 5 * 32 + 7


def test_a_cut_segment_is_tried_once_a_change_and_named_when_the_run_is_closed(
    segmented: Journals, unsegmented: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut = segmented.folder / "marks.0001.bin"
    os.truncate(cut, 5 * 32 + 7)
    tried: list[int] = []
    pack = pieces.pack

    def counted(folder: Folder, name: str, number: int, words: int) -> bool:
        tried.append(number)
        return pack(folder, name, number, words)

    monkeypatch.setattr(pieces, "pack", counted)
    monkeypatch.setattr(packing, "_ending_of_child", lambda run, seen: pack_closed(run, seen) or 0)
    monkeypatch.setattr(packing, "_yield_to_others", lambda: None)
    monkeypatch.setattr(os, "closerange", lambda *_: None)
    monkeypatch.setattr(os, "fchdir", lambda _: monkeypatch.chdir(segmented.folder))
    monkeypatch.setattr(sys, "argv", ["", "4711"])
    looks: list[list[int]] = []

    def parent() -> int:
        if len(looks) == 3:  # somebody mends it, or cuts off more
            os.truncate(cut, 5 * 32 + 3)
        looks.append(tried.copy())
        return 4711 if len(looks) < 6 else 1

    monkeypatch.setattr(os, "getppid", parent)
    monkeypatch.setattr(packing.time, "sleep", lambda _: None)
    packing.main()
    once = looks[1]
    assert once.count(1) == 1
    assert len(once) > 3
    assert looks[1:4] == [once] * 3
    assert looks[4:] == [[*once, 1]] * 2
    assert cut.stat().st_size == 5 * 32 + 3
    convert(segmented.path)
    named = [note for note in read_info(segmented.path).notes if "cut" in note]
    assert [note.split()[0] for note in named] == ["marks.0001.bin"]


def test_a_whole_run_is_not_called_cut(segmented: Journals) -> None:
    with segmented.folder.joinpath("marks.0006.bin").open("ab") as file:
        file.write(b"begun")  # of the last one, as whoever is killed leaves it
    convert(segmented.path)
    assert not [note for note in read_info(segmented.path).notes if "cut" in note]


def test_a_packer_whose_parent_is_gone_before_it_begins_ends_at_once(
    segmented: Journals,
) -> None:
    before = sorted(path.name for path in segmented.folder.iterdir())
    folder = os.open(segmented.folder, os.O_RDONLY)
    gone = subprocess.Popen(["true"])
    gone.wait()
    program = (
        "import os, sys; os.dup2(int(sys.argv.pop(1)), 3)\n"
        "from wattstep.store.packing import main; main()"
    )
    command = [sys.executable, "-c", program, str(folder), str(gone.pid)]
    try:
        subprocess.run(command, pass_fds=[folder], check=True, timeout=120)
    finally:
        os.close(folder)
    assert sorted(path.name for path in segmented.folder.iterdir()) == before


# With 9 left, the cut lies between the two begins of the step that was started anew.
@pytest.mark.parametrize("left", [*range(9), 10])
def test_a_segment_that_was_cut_costs_its_steps_and_makes_none(
    tmp_path: Path, unsegmented: Path, left: int
) -> None:
    journals = a_busy_run(tmp_path / "run")
    count = cut_into_segments(journals, "marks.bin", [10] * 6)
    assert count > 4
    with (journals.folder / "marks.0002.bin").open("r+b") as file:
        file.truncate(32 * left)
    convert(journals.path)
    there = {row["start_ns"]: row["end_ns"] for row in table(unsegmented, "steps")}
    steps = table(journals.path, "steps")
    assert len(there) - 5 <= len(steps) <= len(there)
    assert all(there[row["start_ns"]] == row["end_ns"] for row in steps)
    assert {0, 11} <= {row["index"] for row in steps}


def test_a_segment_that_is_gone_is_named(segmented: Journals) -> None:
    (segmented.folder / "marks.0001.bin").unlink()
    with refused("segment-gone", "marks.0001.bin"):
        convert(segmented.path)
    assert read_info(segmented.path).state == "recording"
    assert segmented.folder.exists()


def test_a_piece_that_is_garbled_or_none_is_named(segmented: Journals) -> None:
    pack_closed(segmented.path)
    piece = segmented.folder / "marks.0001.parquet"
    whole = piece.read_bytes()
    for other in (b"", b"PAR1", whole[: len(whole) // 2], whole[:-9] + b"x" + whole[-8:]):
        piece.write_bytes(other)
        with pytest.raises(DamagedRunError, match=r"marks\.0001\.parquet"):
            convert(segmented.path)
    for columns in (
        {"0": [1]},
        {str(n): [None] for n in range(4)},
        {str(n): [0.5] for n in range(4)},
    ):
        pq.write_table(pa.table(columns), piece)
        with pytest.raises(DamagedRunError):
            convert(segmented.path)


def test_a_few_bytes_that_unpack_to_millions_of_rows_are_refused(segmented: Journals) -> None:
    pack_closed(segmented.path)
    rows = pa.table({str(n): np.zeros(3_000_000, np.int64) for n in range(4)})
    for number in range(2):
        pq.write_table(rows, segmented.folder / f"marks.{number:04d}.parquet", compression="zstd")
    with refused("over-budget", "marks.0001.parquet"):
        convert(segmented.path)


def test_holes_of_all_segments_count_together(segmented: Journals) -> None:
    for number in range(1, 4):
        os.truncate(segmented.folder / segment_name("ticks.bin", 0), 30 << 20)
        with (segmented.folder / segment_name("ticks.bin", number)).open("wb") as file:
            file.truncate(30 << 20)
    with refused("over-budget", "ticks.0002.bin"):
        convert(segmented.path)


# --- following ---------------------------------------------------------------------------------


def test_a_follower_goes_on_from_segment_to_segment_packed_or_not(segmented: Journals) -> None:
    path = segmented.folder / "marks.bin"
    whole = np.concatenate(
        [
            np.fromfile(p, MARK)
            for n in range(7)
            if (p := path.with_name(segment_name(path.name, n))).exists()
        ]
    )
    late, early = MarkRows(path), MarkRows(path)
    seen = [early.new()]
    assert len(seen[0]) == 10  # of the first; the end of that is known
    assert early.behind
    pack_closed(segmented.path)
    for follower, begun in ((early, seen), (late, [])):
        while len(new := follower.new()):
            begun.append(new)
        assert np.concatenate(begun).tobytes() == whole.tobytes()
        assert not follower.behind
    with path.with_name("marks.0006.bin").open("ab") as file:
        file.write(whole[:3].tobytes())
    assert early.new().tobytes() == whole[:3].tobytes()


def test_rows_that_come_behind_the_last_look_at_a_segment_are_not_passed_over(
    tmp_path: Path,
) -> None:
    path = tmp_path / "ticks.bin"
    rows = Rows(path, np.dtype(("<i8", 4)))
    np.arange(8, dtype="<i8").tofile(path)
    assert rows.new().tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert not len(rows.new())
    with path.open("ab") as file:
        np.arange(8, 12, dtype="<i8").tofile(file)
    np.arange(12, 16, dtype="<i8").tofile(tmp_path / "ticks.0001.bin")
    assert rows.new().tolist() == [[8, 9, 10, 11]]
    assert rows.new().tolist() == [[12, 13, 14, 15]]
    assert not rows.behind


def test_a_piece_is_unpacked_once_however_often_it_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ticks.bin"
    whole = np.arange(4 * 1000, dtype="<i8").reshape(-1, 4)
    for number, part in enumerate(np.split(whole, [600, 900])):
        part.tofile(path.with_name(segment_name(path.name, number)))
    monkeypatch.setattr(live_rows, "MOST_BYTES", 32 * 70 + 5)  # a look ends within a row
    layout = np.dtype(("<i8", 4))
    early, late = Rows(path, layout), Rows(path, layout)
    seen = [early.new(), early.new()]  # 140 rows; the rest of the segment is packed meanwhile
    opened: list[int] = []
    parts = pieces.Pieces.parts

    def counted(
        self: pieces.Pieces, number: int, most: int | None = None
    ) -> Iterator[tuple[np.ndarray, np.ndarray | None]]:
        opened.append(number)
        return parts(self, number, most)

    monkeypatch.setattr(pieces.Pieces, "parts", counted)
    monkeypatch.setattr(pieces, "BLOCK", 100)
    with Folder(tmp_path) as folder:
        assert pieces.pack(folder, path.name, 0, 4)
    for follower, begun in ((early, seen), (late, [])):
        while len(new := follower.new()):
            assert len(new) <= 70
            begun.append(new)
        assert np.concatenate(begun).tolist() == whole.tolist()
        assert not follower.behind
    assert opened == [0, 0]  # once a follower


def test_a_piece_that_is_garbled_is_named_at_each_look(segmented: Journals) -> None:
    pack_closed(segmented.path)
    (segmented.folder / "marks.0000.parquet").write_bytes(b"PAR1")
    follower = MarkRows(segmented.folder / "marks.bin")
    for _ in range(2):
        with refused("damaged-journal", "marks.0000.parquet"):
            follower.new()


def test_steps_in_several_groups_of_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table of more steps than are written at a time, with marks in each group of its rows."""
    journals = Journals(tmp_path / "run", warmup=0)
    add, code = journals.marks.add, journals.marks.code
    for step in range(300):
        t_ns = 10**9 + 1000 * step
        add(Mark.STEP_START, index=step, t_ns=t_ns)
        add(Mark.PHASE, code("phase", "forward"), index=step, t_ns=t_ns + 10)
        add(Mark.PHASE, code("phase", f"late{step // 100}"), index=step, t_ns=t_ns + 500)
        add(Mark.STEP_END, index=step, t_ns=t_ns + 900)
    journals.marks.close()
    monkeypatch.setattr(tables, "BLOCK", 100)
    monkeypatch.setattr(journal_rows, "BLOCK", 400)
    convert(journals.path)
    found = Tables(journals.path)
    assert pq.ParquetFile(journals.path / "steps.parquet").metadata.num_row_groups == 3
    assert len(found.steps().index) == 300
    expected = [name for n in range(300) for name in ("forward", f"late{n // 100}")]
    assert found.marks.name.tolist() == expected
    names = [
        each for batch in found.batches("steps", rows=64) for each in batch["mark_name"].to_pylist()
    ]
    assert [name for pair in names for name in pair] == expected


def test_memory_of_packing(tmp_path: Path) -> None:
    """The packer has blocks of a segment in memory, never all of it."""
    rows = np.random.default_rng(1).integers(0, 10**6, (1 << 19, 4))
    (tmp_path / "ticks.bin").write_bytes(rows.astype("<i8").tobytes())
    with Folder(tmp_path) as folder:
        without_pandas()  # which pyarrow would load, once
        tracemalloc.start()
        try:
            assert pieces.pack(folder, "ticks.bin", 0, 4)
            most = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert most < rows.nbytes / 4
        layout = np.dtype(("<i8", 4))
        blocks = list(pieces.Pieces(folder, "ticks.bin", layout).blocks(0))
    np.testing.assert_array_equal(np.concatenate(blocks), rows)


@pytest.mark.parametrize("written", [[[1, 2]], [[1, 2], [3, 5]], [[1, 2], [3, 4], [5, 6]]])
def test_piece_that_does_not_come_back(tmp_path: Path, written: list[list[int]]) -> None:
    """A piece is compared with what it is made from, and is not there where they differ."""
    turns = iter([written, [[1, 2], [3, 4]]])
    with Folder(tmp_path) as folder, pytest.raises(DamagedRunError, match="Parquet"):
        pieces.write_piece(
            folder, "ticks.0000.parquet", 2, lambda: iter([np.array(next(turns))]), []
        )
    assert not list(tmp_path.iterdir())
