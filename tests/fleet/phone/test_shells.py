"""What the shells of phones make of a command: its output, its process, its end."""

from __future__ import annotations

import contextlib
import re
import shlex
import sys
from pathlib import Path

import pytest
from tests.fleet.phone.made import PATIENCE_S, SHELLS, Followed, connected, needs_adb
from tests.waiting import until

from wattstep.remote.phone.job import BEGUN, CLOSED, COST, ENDED, ERRORS, OUTPUT


def children(pid: int) -> list[int]:
    """Processes whose parent this is."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):
                stat = (entry / "stat").read_text().rpartition(")")[2].split()
                found += [int(entry.name)] if int(stat[1]) == pid else []
    return found


@needs_adb
@pytest.mark.parametrize("shell", SHELLS)
def test_output_comes_as_it_was_printed_whatever_shell_the_phone_has(server, tmp_path, shell):
    text = "\n\n  two  spaces \\n %s $HOME `id` 'q' \"d\"\tté\n-n\n-e x\nlast"
    with connected(tmp_path / "phone", shell) as made:
        command = f"printf %s {shlex.quote(text)}; echo $$; cat >&2; echo away >&2; exit 3"
        done = Followed(made, "sh", "-c", command)
        # While it waits for its start no process is its child, whose time would be charged to it.
        for _ in range(20):
            assert not children(done.job.pid)
        done.job.go()
        done.to_the_end()
        until(made.is_clean, PATIENCE_S)
    lines = [record for record in done.records if record.read == OUTPUT]
    shown = "".join(r.text + ("" if r.status else "\n") for r in lines)
    assert shown == f"{text}{done.job.pid}\n"  # the process that is measured is the command
    assert done.texts(ERRORS) == ["away"]
    assert done.texts(ENDED) == ["3"]
    assert sorted(r.read for r in done.records if r.read > 1) == [2, 3, 4, 6, 6]
    # Each stream tells what its stamping took, as the shell's `times`: of itself and of children.
    for cost in done.texts(COST):
        assert len(re.findall(r"[0-9]+m[0-9]+[.][0-9]+s", cost)) == 4
    # A stamp tells between which two readings of a clock of 10 ms something was done. Lines are stamped
    # as they are read, which a busy phone may come to when the command has ended.
    for stage in (OUTPUT, ENDED):
        order = (BEGUN, stage, CLOSED)
        stamps = [r.stamp for read in order for r in done.records if r.read == read]
        for number, stamp in enumerate(stamps):
            assert all(stamp.before_us <= later.after_us + 10_000 for later in stamps[number:])


@needs_adb
@pytest.mark.parametrize("shell", SHELLS)
def test_long_lines_of_both_streams_at_once_are_all_there_in_answers_of_bounded_size(
    server, tmp_path, shell
):
    # 2 × 12 lines of 30,000 letters; what is asked for at once is 64 KiB of each.
    script = (
        "import sys, threading\n"
        "def show(file, letter):\n"
        "    for n in range(12):\n"
        "        print('%d %s' % (n, letter * 30000), file=file, flush=True)\n"
        "other = threading.Thread(target=show, args=(sys.stderr, 'e'))\n"
        "other.start(); show(sys.stdout, 'o'); other.join()\n"
    )
    with connected(tmp_path / "phone", shell) as made, pytest.MonkeyPatch.context() as patch:
        patch.setattr("wattstep.remote.phone.job.BLOCKS", 16)
        done = Followed(made, sys.executable, "-c", script)
        done.job.go()
        done.to_the_end()
    assert done.texts(OUTPUT) == [f"{n} {'o' * 30000}" for n in range(12)]
    assert done.texts(ERRORS) == [f"{n} {'e' * 30000}" for n in range(12)]
    assert done.answers >= 12 * 30000 / (16 * 4096)
    assert [(s.skipped, s.unfinished) for s in done.streams] == [(0, 0), (0, 0)]
