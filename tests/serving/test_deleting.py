"""Deleting through the browser: asked first, moved aside, put back; refused where it must not be."""

from __future__ import annotations

import errno
import os
import re
import shutil
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.comparison.made import recorded
from tests.refusals import refused
from tests.serving.served import Server
from tests.wording import assert_says

from wattstep.schema.journal import JOURNAL
from wattstep.serve.auth import Guard
from wattstep.serve.cache import Cache
from wattstep.serve.deleting import TRASH, Trash
from wattstep.serve.pages import Pages
from wattstep.serve.site import Site
from wattstep.serve.store_view import StoreView, UnknownEntryError
from wattstep.serve.write_routes import WriteRoutes
from wattstep.store.lock import lock_folder


def test_a_run_goes_to_the_trash_and_comes_back_as_it_was(own: Server) -> None:
    run = own.store / "quick-run"
    before = {path.name: path.read_bytes() for path in run.iterdir()}
    page = own.get(f"/delete?run={own.id('quick-run')}").text
    assert "quick-run" in page
    assert "made · batch 4" in page

    answer = own.post("/delete", own.asked("quick-run"))
    assert answer.status == 303
    assert not run.exists()
    assert "quick-run" not in own.runs()
    notice = own.get(answer.headers["location"]).text
    assert "Undo" in notice
    found = re.search(r'name="id" value="([^"]+)"', notice)
    assert found

    assert own.post("/trash/restore", {"id": found.group(1)}).status == 303
    assert {path.name: path.read_bytes() for path in run.iterdir()} == before
    assert not (own.store / TRASH).exists()
    assert own.post("/trash/restore", {"id": found.group(1)}).status == 404


def test_the_trash_outlives_nothing_that_was_not_confirmed(own: Server) -> None:
    own.post("/delete", own.asked("quick-run"))
    (id,) = [path.name for path in (own.store / TRASH).iterdir()]
    assert own.post("/trash/empty", {"id": id}).status == 422
    assert (own.store / TRASH / id / "quick-run" / "run.json").exists()
    assert own.post("/trash/empty", {"id": id, "confirm": "yes"}).status == 303
    assert not (own.store / TRASH).exists()


def test_nothing_goes_without_its_box_ticked(own: Server) -> None:
    asked = own.asked("quick-run")
    for confirm in ({}, {"confirm": ""}, {"confirm": "no"}, {"confirm": ["yes", "yes"]}):
        fields = {key: value for key, value in asked.items() if key != "confirm"}
        assert own.post("/delete", {**fields, **confirm}).status == 422
    assert (own.store / "quick-run").exists()


def test_what_changed_since_it_was_asked_about_stays(own: Server) -> None:
    asked = own.asked("quick-run")
    with (own.store / "quick-run" / "run.json").open("a") as file:
        file.write("\n")
    answer = own.post("/delete", asked)
    assert answer.status == 409
    assert "has changed since" in answer.text
    assert (own.store / "quick-run").exists()


def test_a_run_that_vanished_meanwhile_is_not_there(own: Server) -> None:
    asked, id = own.asked("quick-run"), own.id("quick-run")
    shutil.rmtree(own.store / "quick-run")
    own.look()
    assert own.post("/delete", asked).status == 404
    for path in (f"/runs/{id}", f"/runs/{id}/about", f"/api/runs/{id}", f"/delete?run={id}"):
        assert own.get(path).status == 404
    changes = own.get("/changes?since=0").json()
    assert id not in changes["rows"]


def test_several_go_at_once_and_for_good_where_that_is_chosen(own: Server) -> None:
    first, second = own.asked("quick-run"), own.asked("cut")
    both = {key: [first[key], second[key]] for key in ("run", "seen")}
    answer = own.post("/delete", {**both, "confirm": "yes", "how": "forever"})
    assert answer.status == 303
    assert not (own.store / "quick-run").exists()
    assert not (own.store / "cut").exists()
    assert not (own.store / TRASH).exists()


def test_what_was_made_of_a_run_goes_with_it_for_good(own: Server) -> None:
    id = own.id("quick-run")
    own.open(f"/runs/{id}")
    cache = own.errors.parent / "cache" / "wattstep" / "serve"
    assert list(cache.glob(f"{id}-*"))
    own.post("/delete", {**own.asked("quick-run"), "how": "forever"})
    assert not list(cache.glob(f"{id}-*"))


RECORDING = """
    import sys, time
    from pathlib import Path
    from wattstep.store.lock import RunLock
    run = Path(sys.argv[1])
    (run / "journal").mkdir(exist_ok=True)
    lock = RunLock(run)
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def recording(own: Server) -> Iterator[Path]:
    """A run of the store that another process holds, as its recorder would."""
    run = own.store / "quick-run"
    holder = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(RECORDING), str(run)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    yield run
    holder.communicate()


def test_a_run_that_is_being_recorded_is_said_to_be_and_stays(own: Server, recording: Path) -> None:
    own.look()
    assert own.runs()["quick-run"]["state"] == "recording"
    id = own.id("quick-run")
    assert "still being recorded" in own.get(f"/delete?run={id}").text
    asked = {"run": id, "seen": "x", "confirm": "yes"}
    answer = own.post("/delete", asked)
    assert answer.status == 409
    assert "still being recorded" in answer.text
    assert recording.exists()
    # Work in the background would disturb what is measured: other figures wait.
    page = own.get("/").text
    assert "is being recorded" in page


def test_a_sweep_that_goes_on_and_its_runs_stay(own: Server) -> None:
    sweep = own.store / "nested"
    (sweep / "sweep.json").write_text("{}")
    own.look()
    lock = lock_folder(sweep, "sweep.lock", "a test")
    try:
        id = own.id("nested/inside")
        assert "still going on" in own.get(f"/delete?run={id}").text
        assert own.post("/delete", {"run": id, "seen": "x", "confirm": "yes"}).status == 409
    finally:
        os.close(lock)
    assert own.post("/delete", own.asked("nested/inside")).status == 303


def test_a_sweep_goes_with_all_its_runs_and_comes_back(own: Server) -> None:
    sweep = own.store / "nested"
    (sweep / "sweep.json").write_text("{}")
    own.look()
    parent = re.search(
        r'href="/runs/(\w+)/about">The sweep',
        own.get(f"/runs/{own.id('nested/inside')}/about").text,
    )
    assert parent
    page = own.get(f"/delete?run={parent.group(1)}&run={own.id('nested/inside')}").text
    assert_says(page, "outcomes and 1 run")
    assert page.count('name="seen"') == 1  # the run goes with it
    seen = re.search(r'name="seen" value="([^"]+)"', page)
    assert seen
    moved = own.post("/delete", {"run": parent.group(1), "seen": seen.group(1), "confirm": "yes"})
    assert not sweep.exists()
    own.post("/trash/restore", {"id": moved.headers["location"].partition("=")[2]})
    assert (sweep / "inside" / "run.json").exists()


def test_a_place_that_is_taken_again_is_not_written_over(tmp_path: Path) -> None:
    store, trash = made(tmp_path)
    id = trash.move(list(store.look().values()))
    recorded(tmp_path / "runs" / "one")
    with refused("place-taken", "one"):
        trash.restore(id)
    assert (tmp_path / "runs" / TRASH / id / "one" / "run.json").exists()


def test_what_cannot_be_moved_as_a_whole_is_not_moved_at_all(tmp_path: Path) -> None:
    store, trash = made(tmp_path, "one", "two")
    entries = list(store.look().values())
    shutil.rmtree(tmp_path / "runs" / "two")
    with pytest.raises(FileNotFoundError):
        trash.move(entries)
    assert (tmp_path / "runs" / "one" / "run.json").exists()
    assert not (tmp_path / "runs" / TRASH).exists()


def test_other_things_in_the_trash_are_left_alone(tmp_path: Path) -> None:
    store, trash = made(tmp_path, "one", "two")
    first, second = (trash.move([entry]) for entry in store.look().values())
    (tmp_path / "runs" / TRASH / second / "two" / "empty").mkdir()
    trash.empty([first])
    assert [each.id for each in trash.listed()] == [second]
    assert (tmp_path / "runs" / TRASH / second / "two" / "empty").is_dir()
    for id in ("..", first, "", "."):
        with pytest.raises(UnknownEntryError):
            trash.empty([id])


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write into a folder that is read-only")
def test_a_store_that_is_read_only_is_said_to_be(own: Server) -> None:
    asked = own.asked("quick-run")
    own.store.chmod(0o555)
    try:
        answer = own.post("/delete", asked)
        assert answer.status == 507
        assert os.strerror(errno.EACCES) in answer.text
        assert own.get("/").status == 200
    finally:
        own.store.chmod(0o755)
    assert (own.store / "quick-run" / "run.json").exists()


def test_a_trash_that_cannot_be_made_is_said_and_nothing_is_lost(own: Server) -> None:
    asked = own.asked("quick-run")
    (own.store / TRASH).write_text("in the way")
    answer = own.post("/delete", asked)
    assert answer.status == 507
    assert "cannot be deleted" in answer.text
    assert (own.store / "quick-run" / "run.json").exists()
    assert own.get("/").status == 200
    assert own.get("/trash").status == 200


def test_a_run_that_was_never_closed_is_recovered_on_request_only(own: Server) -> None:
    run = own.store / "unclosed"
    unclosed(run)
    own.look()
    id = own.id("unclosed")
    assert own.runs()["unclosed"]["state"] == "not closed"
    for path in (f"/runs/{id}", f"/api/runs/{id}", f"/report?run={id}&run={own.some}", "/changes"):
        own.open(path)
    assert (run / JOURNAL).is_dir()  # looking at it writes nothing
    assert own.post("/recover", {"run": id}).status == 303
    assert not (run / JOURNAL).exists()
    assert own.runs()["unclosed"]["state"] == "recovered"
    assert own.open(f"/runs/{id}").status == 200


def test_everybody_gets_an_answer_while_a_run_is_deleted(own: Server) -> None:
    ids = [own.id("quick-run"), own.id("slow")]
    statuses: list[int] = []

    def look(path: str) -> None:
        for _ in range(10):
            statuses.append(own.get(path).status)

    paths = ["/", "/changes?since=0", "/api/runs", f"/runs/{ids[0]}/about", f"/runs/{ids[1]}",
             f"/api/runs/{ids[1]}", f"/compare?run={ids[0]}&run={ids[1]}", "/trash"]  # fmt: skip
    readers = [threading.Thread(target=look, args=(path,)) for path in paths]
    asked = [own.asked("quick-run"), own.asked("slow")]
    for reader in readers:
        reader.start()
    for fields in asked:
        assert own.post("/delete", fields).status == 303
    for reader in readers:
        reader.join()
    # 422: a report or comparison whose run went while it was being read
    assert set(statuses) <= {200, 202, 404, 422}
    assert len(statuses) == 10 * len(paths)
    assert own.get("/").status == 200


def made(tmp_path: Path, *names: str) -> tuple[StoreView, Trash]:
    """A store of some runs, and its trash."""
    for name in names or ("one",):
        recorded(tmp_path / "runs" / name)
    store = StoreView(tmp_path / "runs")
    return store, Trash(store)


def unclosed(path: Path) -> None:
    """A run whose recorder was killed, with two steps in its journals."""
    from wattstep.schema.journal import Mark
    from wattstep.schema.run_info import RunInfo
    from wattstep.store.files import create_folder, write_info
    from wattstep.store.marks import MarkJournal

    create_folder(path)
    info = RunInfo(
        state="recording", created="2026-11-20T12:00:00+0000", workload="made", title="made",
        engine="torch", batch_size=4, threads=1, precision="fp32", processor="cpu", seed=0,
        interval_s=0.001, warmup=0, trace="none", device={"cores": 2},
    )  # fmt: skip
    write_info(path, info)
    marks = MarkJournal(path / JOURNAL)
    for index in range(10):
        start = 10**12 + index * 10**7
        marks.add(Mark.STEP_START, 0, 4.0, index, 0, start)
        marks.add(Mark.STEP_END, 0, 1.0, index, 0, start + 9 * 10**6)
    marks.close()


class FullTrash(Trash):
    """The trash of a disk that has no room for a folder."""

    def _own_folder(self) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_on_a_full_disk_a_run_is_still_deleted_for_good_and_never_by_halves(tmp_path: Path) -> None:
    recorded(tmp_path / "runs" / "one")
    site = Site(tmp_path / "runs", Guard(host="127.0.0.1", login=False), Cache(tmp_path / "kept"))
    site.trash = FullTrash(site.store)
    changing = WriteRoutes(site, Pages(site.guard))
    entries = list(site.store.look().values())
    with refused("delete-failed", "No space left"):
        changing.let_go(entries, forever=False)
    assert (tmp_path / "runs" / "one" / "run.json").exists()
    assert changing.let_go(entries, forever=True) == ""
    assert not (tmp_path / "runs" / "one").exists()
    site.close()
