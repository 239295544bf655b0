"""Figures of the list, of runs that come and go while these are worked out."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.comparison.made import recorded
from tests.waiting import until

from wattstep.serve.auth import Guard
from wattstep.serve.cache import Cache
from wattstep.serve.site import Site
from wattstep.serve.store_view import Entry, StoreView


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """A server's state, of a store with one run, without its socket."""
    recorded(tmp_path / "runs" / "one")
    guard = Guard(host="127.0.0.1", login=False)
    made = Site(tmp_path / "runs", guard, Cache(tmp_path / "kept"))
    yield made
    made.close()


def only(store: StoreView) -> Entry:
    (entry,) = store.look(fresh=True).values()
    return entry


def test_a_run_that_was_away_while_it_was_read_is_not_damaged_when_it_is_back(site: Site) -> None:
    entry = only(site.store)
    away = site.store.root.parent / "away"
    entry.path.rename(away)
    site.figures.want([entry])
    until(lambda: not site.figures.waiting)
    away.rename(entry.path)
    back = only(site.store)
    assert back.stamp == entry.stamp  # nothing in it is other
    site.figures.want([back])
    until(lambda: not site.figures.waiting)
    found = site.figures.known(back)
    assert found is not None
    assert (found.steps, found.problem) == (60, "")


def test_figures_of_a_run_that_lay_in_its_place_meanwhile_are_not_its_own(site: Site) -> None:
    entry = only(site.store)
    away = site.store.root.parent / "away"
    entry.path.rename(away)
    recorded(entry.path, watts=None)
    site.figures.want([entry])  # the list was looked at before that
    until(lambda: not site.figures.waiting)
    shutil.rmtree(entry.path)
    away.rename(entry.path)
    back = only(site.store)
    site.figures.want([back])
    until(lambda: not site.figures.waiting)
    found = site.figures.known(back)
    assert found is not None
    assert found.metrics["energy_per_step"].value == pytest.approx(0.1)  # 5 W for 20 ms


def test_a_run_made_anew_is_another_one_whatever_its_files_have_in_common(site: Site) -> None:
    entry = only(site.store)
    table = entry.path / "steps.parquet"
    status = table.stat()
    data = table.read_bytes()
    table.write_bytes(data[::-1])  # the same size and inode
    os.utime(table, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert only(site.store).stamp != entry.stamp


def test_what_cannot_be_read_where_it_lies_is_damaged_and_stays_so(site: Site) -> None:
    path = only(site.store).path
    (path / "samples.parquet").write_bytes(b"PAR1")
    entry = only(site.store)
    site.figures.want([entry])
    until(lambda: not site.figures.waiting)
    found = site.figures.known(entry)
    assert found is not None
    assert "samples.parquet" in found.problem
