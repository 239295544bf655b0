"""A query takes no more memory and time than it may, and leaves nothing on the disk."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.querying.made import made
from tests.refusals import refused
from tests.run.made import Sampled, make_run, power
from tests.waiting import until

import wattstep
from wattstep.report.query.memory_limit import BESIDE

pytest.importorskip("duckdb", reason="the extra query is not installed")
LONG = "SELECT string_agg(repeat('x', 1000000), '') FROM range(12000)"  # 12 GB in one text
ENDLESS = (
    "SELECT count(*) FROM range(10000000) a, range(10000000) b WHERE a.range * b.range % 7 = 8"
)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("store") / "runs"
    made(root / "a")
    return root


def environment(folder: Path) -> dict[str, str]:
    """Of a process whose temporary files lie in a folder."""
    return {**os.environ, "TMPDIR": str(folder), "XDG_CACHE_HOME": str(folder / "cache")}


def command(runs: Path, folder: Path, *words: str) -> subprocess.Popen[str]:
    """A query in a process of its own, whose temporary files lie in a folder."""
    return subprocess.Popen(
        [sys.executable, "-m", "wattstep", "query", *words, "--runs", str(runs)],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment(folder),
    )  # fmt: skip


def spilled(folder: Path) -> list[Path]:
    return list(folder.glob("wattstep-query-*"))


# The most that a program had resident counts what its parent had when it was started: a small one.
STARTS = """
import resource, subprocess, sys
ended = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
raise SystemExit(ended.returncode)
"""


def test_one_long_text_is_within_the_memory_of_the_query(runs: Path, tmp_path: Path) -> None:
    words = ("-m", "wattstep", "query", LONG, "--memory", "100MB", "--runs", str(runs))
    ended = subprocess.run(
        [sys.executable, "-I", "-S", "-c", STARTS, sys.executable, *words],
        capture_output=True, text=True, check=False, env=environment(tmp_path),
    )  # fmt: skip
    assert ended.returncode == 2, ended.stderr
    assert ended.stderr.count("\n") == 1, ended.stderr
    assert int(ended.stdout) * 1024 < 100e6 + BESIDE + 500e6  # with the libraries
    assert spilled(tmp_path) == []


def test_samples_are_not_kept_in_memory_by_their_join_with_channels(tmp_path: Path) -> None:
    channels = [replace(power(), name=f"rail{number}.power") for number in range(5)]
    make_run(tmp_path / "runs" / "a", [Sampled(channel=each, raw=int) for each in channels])
    rows, names = 400_000, [str(number).ljust(10_000, "n") for number in range(20)]
    codes = pa.array(np.arange(rows) % len(names), pa.int32())
    samples = {
        "t_ns": np.arange(rows), "channel": pa.DictionaryArray.from_arrays(codes, names),
        "value": np.arange(rows) % len(names) * 1.0, "errno": np.zeros(rows, np.int16),
    }  # fmt: skip
    pq.write_table(pa.table(samples), tmp_path / "runs" / "a" / "samples.parquet")
    sql = "SELECT channel, avg(value) AS mean FROM samples GROUP BY ALL ORDER BY mean"
    # Written out they would be 4 GB.
    table = wattstep.query(sql, runs=tmp_path / "runs", memory=100_000_000)
    assert table["channel"].to_pylist() == names
    assert table["mean"].to_pylist() == list(range(len(names)))


@pytest.mark.parametrize("words", [[], ["--json"], ["-o", "out.json"]])
def test_rows_that_do_not_fit_as_text_are_refused(words: list[str], tmp_path: Path) -> None:
    made(tmp_path / "runs" / "a")
    child = subprocess.run(
        [
            sys.executable, "-m", "wattstep", "query", "--memory", "30MB", "--runs", "runs", *words,
            "SELECT range, repeat('x', 3000) AS x FROM range(1000000)",
        ],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=tmp_path, check=False,
        env=environment(tmp_path),
    )  # fmt: skip
    if words:
        assert child.returncode == 2
        assert "--memory" in child.stderr.splitlines()[-1]
    assert "failed inside" not in child.stderr


def test_the_limit_of_the_process_is_as_before_when_a_query_is_done(runs: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_DATA)
    wattstep.query("SELECT 1", runs=runs, memory=100_000_000)
    with refused("query-failed"):
        wattstep.query("SELECT nothing", runs=runs, memory=100_000_000)
    assert resource.getrlimit(resource.RLIMIT_DATA) == before


def test_a_query_that_does_not_end_is_ended(runs: Path) -> None:
    began = time.monotonic()
    with refused("query-timeout", "0.5 s", "--timeout"):
        wattstep.query(ENDLESS, runs=runs, timeout_s=0.5)
    assert time.monotonic() - began < 60


def test_sigterm_leaves_no_folder(runs: Path, tmp_path: Path) -> None:
    child = command(runs, tmp_path, ENDLESS)
    until(lambda: bool(spilled(tmp_path)))
    child.send_signal(signal.SIGTERM)
    child.communicate(timeout=600)
    assert child.returncode == 128 + signal.SIGTERM
    assert spilled(tmp_path) == []


def test_what_a_killed_query_left_goes_with_the_next(runs: Path, tmp_path: Path) -> None:
    child = command(runs, tmp_path, ENDLESS)
    until(lambda: any((folder / "held").exists() for folder in spilled(tmp_path)))
    child.kill()
    child.communicate(timeout=600)
    assert len(spilled(tmp_path)) == 1
    following = command(runs, tmp_path, "SELECT 1")
    following.communicate(timeout=600)
    assert following.returncode == 0
    assert spilled(tmp_path) == []
