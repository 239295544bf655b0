from __future__ import annotations

import errno
import os
import resource
import signal
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wattstep.schema.journal import MARK, Mark
from wattstep.store import marks
from wattstep.store.marks import CHUNK, MarkJournal

ROW = "<qqdHHI"  # t_ns, cpu_ns, value, kind, code, index


def written(folder: Path) -> list[tuple[float, ...]]:
    return list(struct.iter_unpack(ROW, (folder / "marks.bin").read_bytes()))


@pytest.fixture
def limited_files() -> Iterator[int]:
    """No file may grow beyond two chunks: a write further on fails as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2 * CHUNK, before[1]))
    yield 2 * CHUNK
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    signal.signal(signal.SIGXFSZ, ignored)


MARKS = st.tuples(
    st.integers(1, 2**63 - 1),
    st.integers(0, 2**63 - 1),
    st.floats(allow_nan=False),
    st.sampled_from([int(kind) for kind in Mark]),
    st.integers(0, 2**16 - 1),
    st.integers(0, 2**32 - 1),
)


@given(st.lists(MARKS, max_size=20))
def test_every_mark_comes_back_as_it_was_added(
    tmp_path_factory: pytest.TempPathFactory,
    given_marks: list[tuple[int, int, float, int, int, int]],
) -> None:
    folder = tmp_path_factory.mktemp("marks")
    journal = MarkJournal(folder)
    for t_ns, cpu_ns, value, kind, code, index in given_marks:
        journal.add(kind, code, value, index, cpu_ns, t_ns)
    journal.close()
    assert written(folder) == given_marks


@pytest.mark.parametrize("count", [0, 1, 8191, 8192, 8193, 16384, 20000])
def test_a_journal_of_several_chunks_has_neither_gap_nor_rest(tmp_path: Path, count: int) -> None:
    journal = MarkJournal(tmp_path)
    for number in range(count):
        journal.add(Mark.PHASE, 7, index=number)
    journal.close()
    assert [row[5] for row in written(tmp_path)] == list(range(count))


def test_marks_are_stamped_in_the_order_of_their_coming(tmp_path: Path) -> None:
    journal = MarkJournal(tmp_path)
    for _ in range(100):
        journal.add(Mark.PHASE)
    journal.close()
    times = [row[0] for row in written(tmp_path)]
    assert times == sorted(times)
    assert times[0] > 0


def test_a_killed_trainer_loses_no_mark(tmp_path: Path) -> None:
    script = (
        "import os, signal, sys; from pathlib import Path\n"
        "from wattstep.store.marks import MarkJournal\n"
        "journal = MarkJournal(Path(sys.argv[1]))\n"
        "for n in range(9000): journal.add(3, journal.code('phase', f'p{n % 5}'), index=n)\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False)
    assert done.returncode == -signal.SIGKILL
    rows = written(tmp_path)
    assert [row[5] for row in rows if row[3] != 0] == list(range(9000))
    assert len(rows) == 2 * CHUNK // MARK.size  # the reserved rest is empty rows
    assert len((tmp_path / "names.jsonl").read_text().splitlines()) == 5


def test_a_name_has_one_number_in_its_table(tmp_path: Path) -> None:
    journal = MarkJournal(tmp_path)
    codes = [
        journal.code(table, text)
        for table, text in [("phase", "a"), ("phase", "b"), ("layer", "a"), ("phase", "a")]
    ]
    journal.close()
    assert codes == [0, 1, 2, 0]
    assert (tmp_path / "names.jsonl").read_text() == (
        '["phase", 0, "a"]\n["phase", 1, "b"]\n["layer", 2, "a"]\n'
    )


def test_names_beyond_what_a_code_can_hold_share_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(marks, "MOST_NAMES", 3)
    journal = MarkJournal(tmp_path)
    codes = [journal.code("shapes", f"{n}x{n}") for n in range(10)]
    layer = journal.code("layer", "new")
    known = journal.code("shapes", "1x1")
    journal.close()
    assert codes == [0, 1, 2, 3, 3, 3, 3, 3, 3, 3]
    assert (layer, known) == (4, 1)
    assert (tmp_path / "names.jsonl").read_text().splitlines()[3:] == [
        '["shapes", 3, "(other)"]',
        '["layer", 4, "new"]',  # there are few layers: they keep their names
    ]


def test_all_codes_fit_into_a_mark() -> None:
    assert marks.MOST_NAMES + 100 < 2**16


def test_on_a_full_disk_the_journal_stays_as_it_was(tmp_path: Path, limited_files: int) -> None:
    journal = MarkJournal(tmp_path)
    rows = limited_files // MARK.size
    for number in range(rows):
        journal.add(Mark.PHASE, index=number)
    for _ in range(3):
        with pytest.raises(OSError, match=os.strerror(errno.EFBIG)):
            journal.add(Mark.PHASE, index=rows)
    journal.close()
    assert [row[5] for row in written(tmp_path)] == list(range(rows))


def test_a_name_that_does_not_fit_on_the_disk_is_not_taken_as_known(
    tmp_path: Path, limited_files: int
) -> None:
    journal = MarkJournal(tmp_path)
    names = tmp_path / "names.jsonl"
    long = "x" * (limited_files - 30)
    assert journal.code("phase", long) == 0
    before = names.read_bytes()
    for _ in range(2):
        with pytest.raises(OSError, match=os.strerror(errno.EFBIG)):
            journal.code("phase", "one name too many")
    assert names.read_bytes() == before
    journal.close()


def test_two_journals_do_not_share_a_file(tmp_path: Path) -> None:
    journal = MarkJournal(tmp_path)
    with pytest.raises(FileExistsError):
        MarkJournal(tmp_path)
    journal.close()
