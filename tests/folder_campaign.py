"""Folders of runs that a stranger changed, by the thousand: what any command does with them, within 1.5 GB and 60 s.

Each has to be read, or refused with an error of ours, and nothing outside of it may change. Some at a
time are made by a child, and opened one after the other by another under limits, which goes on with the
next as long as it is small; what each of them takes is told one by one. Those that a child does not
survive are its own, and the next is opened by a new child.

    python -m tests.mutations --folders 1000
    python -m tests.mutations --folders 50000 --seed 2 --output RESULTS    goes on where it was stopped
    python -m tests.folder_campaign 1 54                                   folder 54 of seed 1 again
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import importlib
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.damaged_folders import HONEST, change_table, make_bases, make_changed

from wattstep.schema.processes import end_with, listen, tidied_at_sigterm
from wattstep.store.held import HeldFolder

MOST_BYTES: Final = 1_500_000_000  # resident
MOST_ADDRESSES: Final = 2 << 30  # of the process, beyond those that it has when it begins
MOST_S: Final = 60.0  # of CPU time
WAITS_S: Final = 600.0  # for a process that waits for something, on a busy machine
AT_ONCE: Final = 32  # folders that are made, and perhaps opened by one child
SMALL_BYTES: Final = 400_000_000  # resident: a child that is larger is not given another folder
PROGRESS_S: Final = 60.0
WAYS: Final = (
    "list",
    "explain",
    "html",
    "export",
    "query",
    "compare",
)  # beside document and summary
READ, REFUSED, NOT_SURVIVED = "read", "refused", "not survived"
MINE: Final = "mine"
UNCHANGED: Final = "it could not be changed as meant"  # by an error of the campaign's own
_FORGET_PEAK: Final = "5"  # as proc(5) has it


@dataclass(frozen=True, kw_only=True)
class Bench:
    """Where folders are made and opened.

    Attributes:
        bases: The runs that are changed, below it.
        place: Of the changed ones, each in a folder of its number.
        temporary: For temporary files of those who open them.
        working: Where they run, and the home of their user; nothing may be written into it.
    """

    bases: Path
    place: Path
    temporary: Path
    working: Path

    def clear(self) -> None:
        """Makes room for the next folders."""
        for folder in (self.place, self.temporary):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()

    def untouched(self) -> list[Any]:
        """Equal before and after where nobody wrote beside the folders that he was given."""
        stamps = [
            (str(path), s.st_ino, s.st_size, s.st_mtime_ns, s.st_ctime_ns)
            for path in sorted(self.bases.rglob("*"))
            for s in [path.lstat()]
        ]
        return [*stamps, *sorted(self.working.iterdir())]


@dataclass(frozen=True, kw_only=True)
class Opened:
    """What became of a folder: whether it was read, words, CPU time in s and resident memory in bytes at most."""

    number: int
    outcome: str
    words: str
    cpu_s: float
    peak: int

    @property
    def survived(self) -> bool:
        """Whether it was read or refused, within what it may take."""
        within = self.peak <= MOST_BYTES and self.cpu_s <= MOST_S
        return within and self.outcome != NOT_SURVIVED


# --- opening them --------------------------------------------------------------------------------


def look(run: Path, honest: Path, way: str, rng: random.Random) -> None:
    """What commands do with a run, beside an honest one: its document, and one of the longer ways to show it."""
    import wattstep
    from wattstep.store.listing import listed

    listed(run)
    opened = wattstep.load(run)
    json.dumps(opened.document())
    opened.summary()
    if way == "explain":
        list(wattstep.explain(opened))
    elif way == "html":
        from wattstep.report.html.report import read_run, render_report

        render_report([read_run(run, explained=True)], [])  # type: ignore[list-item]
    elif way == "export":
        wattstep.export(
            run, rng.choice(["chrome", "perfetto", "csv", "parquet"]), run.parent / "export"
        )
    elif way == "query":
        wattstep.query("SELECT count(*), max(end_ns) FROM steps", runs=[run])
        wattstep.query("SELECT channel, avg(value) FROM samples GROUP BY ALL", runs=[run])
    elif way == "compare":
        wattstep.compare(run, honest)


def prepared(folder: Path) -> Bench:
    """A bench below a folder; all is set up for children to open runs.

    Whatever looking at a run loads is loaded here, once: it is nine tenths of what most folders take.
    """
    bench = Bench(
        bases=folder / "bases", place=folder / "place", temporary=folder / "temporary",
        working=folder / "working",
    )  # fmt: skip
    bench.bases.mkdir()
    bench.working.mkdir()
    bench.clear()
    os.environ["WATTSTEP_FAIL_LOUDLY"] = "1"
    os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
    os.environ["TMPDIR"] = str(bench.temporary)
    os.environ["HOME"] = str(bench.working)
    tempfile.tempdir = None

    def loaded() -> None:
        make_bases(bench.bases)
        (folder / "modules").write_text("\n".join(_loaded_by_looking(bench)))

    _in_child(loaded)
    for name in (folder / "modules").read_text().split():
        with contextlib.suppress(ImportError):  # a name that a module gave itself
            importlib.import_module(name)
    bench.clear()
    gc.collect()
    gc.freeze()  # a collection in a child would copy all pages
    return bench


def _in_child(work: Callable[[], None]) -> None:
    """Has a child do something: Arrow's threads, and memory that it took, go with it."""
    parent, child = os.getpid(), os.fork()
    if child == 0:
        try:
            end_with(parent)
            work()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    try:
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    except BaseException:
        _ended(child)
        raise
    assert code == 0, code


def _loaded_by_looking(bench: Bench) -> list[str]:
    """Names of the modules that changing a run, and any way to look at it, brings."""
    rng = random.Random(0)
    for way in WAYS:
        place = bench.place / way
        shutil.copytree(bench.bases / "killed", place / "run")
        look(place / "run", bench.bases / HONEST, way, rng)
        change_table(place / "run", rng)
    return [name for name, module in sys.modules.items() if getattr(module, "__spec__", None)]


def opened(bench: Bench, seed: int, numbers: Sequence[int]) -> list[Opened]:
    """Makes folders and opens them; what became of each, in order."""
    bench.clear()
    before = bench.untouched()
    _in_child(lambda: _make(bench, seed, numbers))  # tables that are made take memory of their own
    found: list[Opened] = []
    while left := numbers[len(found) :]:
        found += _opened_by_child(bench, seed, left)
    found = [one if _kept(bench, one.number) else _failed(one, "wrote outside") for one in found]
    if bench.untouched() != before:
        words = f"folders {seed} {numbers[0]} to {numbers[-1]}: one wrote into another run, or the working folder"
        raise SystemExit(words)
    return found


def _make(bench: Bench, seed: int, numbers: Sequence[int]) -> None:
    _limit(0.0, MOST_S * len(numbers))
    for number in numbers:
        place = bench.place / str(number)
        (place / "outside").mkdir(parents=True)
        (place / "outside" / "file").write_text(MINE)
        try:
            words = make_changed(bench.bases, place / "run", random.Random(f"{seed} {number}"))
        except Exception:
            words = f"{UNCHANGED}\n{traceback.format_exc(limit=-3)}"
        (place / "said").write_text(words)


def _kept(bench: Bench, number: int) -> bool:
    """Whether what lies beside a run is as it was."""
    outside = bench.place / str(number) / "outside"
    file = outside / "file"
    return [*outside.iterdir()] == [file] and file.read_text() == MINE


def _failed(one: Opened, why: str) -> Opened:
    return Opened(
        number=one.number, outcome=NOT_SURVIVED, words=f"{one.words}: {why}", cpu_s=one.cpu_s,
        peak=one.peak,
    )  # fmt: skip


def _opened_by_child(bench: Bench, seed: int, numbers: Sequence[int]) -> list[Opened]:
    """Opens at least the first of some folders."""
    reading, writing = os.pipe()
    parent, child = os.getpid(), os.fork()
    if child == 0:
        try:
            end_with(parent)
            os.close(reading)
            os.chdir(bench.working)
            warnings.simplefilter("ignore", UserWarning)  # of runs that a query leaves out
            _look_on(bench, seed, numbers, writing)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    os.close(writing)
    found: list[Opened] = []
    try:
        stopped = listen(
            reading,
            lambda news: found.append(Opened(**news)),  # type: ignore[misc]
            lambda silent_s: os.kill(child, signal.SIGKILL) if silent_s > WAITS_S else None,
        )
        if stopped:
            raise KeyboardInterrupt
    except BaseException:
        _ended(child)
        raise
    _, status, usage = os.wait4(child, 0)
    if (code := os.waitstatus_to_exitcode(status)) or not found:
        number = numbers[len(found)]
        words = (bench.place / str(number) / "said").read_text()
        cpu_s = usage.ru_utime + usage.ru_stime - sum(one.cpu_s for one in found)
        cut = Opened(
            number=number, outcome=NOT_SURVIVED, words=f"{words}: its process ended with {code}",
            cpu_s=cpu_s, peak=usage.ru_maxrss * 1024,
        )  # fmt: skip
        found.append(cut)
    return found


def _ended(child: int) -> None:
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def _look_on(bench: Bench, seed: int, numbers: Sequence[int], writing: int) -> None:
    """Looks at one run after the other, and says what became of each."""
    used = 0.0  # that of the fork is the first one's
    for number in numbers:
        Path("/proc/self/clear_refs").write_text(_FORGET_PEAK)
        _limit(used)
        place = bench.place / str(number)
        outcome, words = _outcome(place / "run", bench.bases / HONEST, f"look {seed} {number}")
        before, used = used, _used_s()
        news = {
            "number": number, "outcome": outcome, "words": (place / "said").read_text() + words,
            "cpu_s": used - before, "peak": _resident("VmHWM"),
        }  # fmt: skip
        os.write(writing, json.dumps(news).encode() + b"\n")
        if outcome == NOT_SURVIVED or _resident("VmRSS") > SMALL_BYTES:
            return


def _outcome(run: Path, honest: Path, seed: str) -> tuple[str, str]:
    from wattstep.errors import WattstepError

    rng = random.Random(seed)
    try:
        look(run, honest, rng.choice(WAYS), rng)
    except WattstepError as error:
        return REFUSED, f": {error}"[:300]
    except BaseException:
        return NOT_SURVIVED, f"\n{traceback.format_exc(limit=-9)[-3000:]}"
    return READ, ""


def _limit(used_s: float, most_s: float = MOST_S) -> None:
    """What the process may take from here on."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    for kind, most in (
        (resource.RLIMIT_AS, pages * resource.getpagesize() + MOST_ADDRESSES),
        (resource.RLIMIT_CPU, round(used_s + most_s)),
        (resource.RLIMIT_FSIZE, 2 << 30),
    ):
        resource.setrlimit(kind, (most, resource.getrlimit(kind)[1]))


def _used_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _resident(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))


# --- many of them --------------------------------------------------------------------------------


class Results:
    """Results of one seed, each some folders a line of a file, and of all seeds in its folder together.

    Args:
        folder: Where the files are; None: nothing is kept.
        seed: Of the folders.

    Raises:
        SystemExit: Another process goes on with this seed.
    """

    def __init__(self, folder: Path | None, seed: int) -> None:
        self._folder, self._file, self.lines = folder, None, list[dict[str, Any]]()
        if folder is None:
            return
        folder.mkdir(parents=True, exist_ok=True)
        self._file = (folder / f"seed-{seed}.jsonl").open("a+b")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.close()
            raise SystemExit(f"another process goes on with seed {seed} in {folder}") from None
        self._file.seek(0)
        whole = self._file.read().rpartition(b"\n")[0]
        self._file.truncate(len(whole) + bool(whole))
        self.lines = [json.loads(line) for line in whole.splitlines()]

    def close(self) -> None:
        """Others may go on with the seed."""
        if self._file is not None:
            self._file.close()

    @property
    def done(self) -> int:
        """How many folders of the seed, from its first."""
        return sum(line["folders"] for line in self.lines)

    def add(self, found: Sequence[Opened], cpu_s: float) -> None:
        """Keeps what became of some folders.

        Args:
            found: In order, from the first that is not done.
            cpu_s: That all of it took.
        """
        outcomes = Counter(one.outcome if one.survived else NOT_SURVIVED for one in found)
        line = {
            "folders": len(found), **{name: outcomes[name] for name in (READ, REFUSED, NOT_SURVIVED)},
            "unchanged": sum(one.words.startswith(UNCHANGED) for one in found),
            "cpu_s": round(cpu_s, 2), "longest_s": round(max(one.cpu_s for one in found), 2),
            "largest_gb": round(max(one.peak for one in found) / 1e9, 3),
            "lost": [
                f"{one.number}, {one.cpu_s:.1f} s, {one.peak / 1e9:.2f} GB: {one.words}"
                for one in found if not one.survived
            ],
        }  # fmt: skip
        self.lines.append(line)
        if self._file is not None:
            self._file.write(json.dumps(line).encode() + b"\n")
            self._file.flush()

    def total(self) -> dict[str, Any]:
        """Of this seed."""
        return together(self.lines)

    def total_of_all(self) -> dict[str, Any] | None:
        """Of all seeds in the folder, which `total.json` has as well; None where nothing is kept."""
        if self._folder is None:
            return None
        texts = [path.read_bytes() for path in sorted(self._folder.glob("seed-*.jsonl"))]
        lines = [
            json.loads(line) for text in texts for line in text.rpartition(b"\n")[0].splitlines()
        ]
        total = together(lines)
        (self._folder / "total.json").write_text(json.dumps(total, indent=1) + "\n")
        return total


def together(lines: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Sums of what lines of results have, and the most of them."""
    most = {"longest_s", "largest_gb"}
    total: dict[str, Any] = {}
    for name in lines[-1] if lines else ():
        values = [line[name] for line in lines if name in line]
        total[name] = max(values) if name in most else sum(values, [] if name == "lost" else 0)
    return total


def attack_folders(count: int, seed: int, output: Path | None) -> int:
    """So many changed folders; how many were not survived.

    Args:
        count: From the first of the seed on; those that are done already are not opened again.
        seed: Of the folders.
        output: Folder for results; None: they are told alone.
    """
    said = time.monotonic()
    with (
        contextlib.closing(Results(output, seed)) as results,
        tidied_at_sigterm(),
        HeldFolder(Path(tempfile.gettempdir()), "wattstep-folders-") as folder,
    ):
        bench = prepared(folder)
        while (first := results.done) < count:
            before = sum(os.times()[:4])
            found = opened(bench, seed, range(first, min(first + AT_ONCE, count)))
            results.add(found, sum(os.times()[:4]) - before)
            for lost in results.lines[-1]["lost"]:
                print(f"folder {seed} {lost}", flush=True)
            for one in found:
                if one.words.startswith(UNCHANGED):
                    print(f"folder {seed} {one.number}: {one.words}", file=sys.stderr, flush=True)
            if time.monotonic() > said + PROGRESS_S:
                said = time.monotonic()
                print(f"seed {seed}: {results.done:,} of {count:,}", file=sys.stderr, flush=True)
        gc.unfreeze()  # libraries tell at the end what is left of them
        total = results.total()
        print(f"folders of seed {seed}:", _told(total), flush=True)
        if (of_all := results.total_of_all()) is not None:
            print(f"all folders in {output}:", _told(of_all), flush=True)
    return int(total.get(NOT_SURVIVED, 0))


def _told(total: dict[str, Any]) -> str:
    return ", ".join(
        f"{name} {round(value, 3):,}" for name, value in total.items() if name != "lost"
    )


def main() -> None:
    """One folder again."""
    seed, number = map(int, sys.argv[1:])
    with tempfile.TemporaryDirectory(prefix="wattstep-folders-") as given:
        (one,) = opened(prepared(Path(given)), seed, [number])
    print("survived:" if one.survived else "not survived:", one)


if __name__ == "__main__":
    main()
