"""No path outside the store: ids are looked up, links are not followed, whatever is asked."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from tests.serving.served import Server
from tests.wording import assert_says

SECRET = "the secret outside of the store"
IDS = [
    "..", "../secret.txt", "../../etc/passwd", "%2e%2e", "%2e%2e%2fsecret.txt", "..%2f..%2fetc%2fpasswd",
    "%252e%252e%252fsecret.txt", "/etc/passwd", "%2fetc%2fpasswd", "%00", "quick-run%00", "..%00/",
    "..\\secret.txt", "..%5csecret.txt", "%c0%ae%c0%ae%2f", "quick-run", "quick-run/run.json", ".",
    "file:%2f%2f%2fetc%2fpasswd", "a" * 40_000, "0" * 16, "{id}", "{id}%00", "{id}/../{id}", "%ff%fe",
    "~", "$HOME", "`id`", "*", "%0d%0aX-Injected:%201",
]  # fmt: skip


@pytest.mark.parametrize("id", IDS, ids=lambda id: id[:30])
def test_an_id_is_never_a_path(server: Server, id: str) -> None:
    (server.store.parent / "secret.txt").write_text(SECRET)
    real = server.id("quick-run")
    asked = id.replace("{id}", real)
    if asked == real:
        return
    for path in (
        f"/runs/{asked}", f"/runs/{asked}/about", f"/api/runs/{asked}", f"/report?run={asked}",
        f"/compare?run={asked}&run={real}", f"/delete?run={asked}", f"/{asked}", f"/templates/{asked}",
        f"/runs/../{asked}", f"/?moved={asked}",
    ):  # fmt: skip
        answer = server.get(path)
        assert answer.status in (200, 400, 404, 405, 414, 422), path
        if answer.status == 200:  # the list, or what the run's own id is for
            assert path.startswith(("/?moved=", "/runs/../")) or real in path, path
        assert SECRET.encode() not in answer.body
        assert b"root:" not in answer.body
        assert "x-injected" not in answer.headers


@pytest.mark.parametrize("path", ["/trash/restore", "/trash/empty", "/recover", "/delete"])
@pytest.mark.parametrize("id", ["..", "../quick-run", "/etc", "a/../../quick-run", "\0", ".", ""])
def test_nor_in_a_form(server: Server, path: str, id: str) -> None:
    before = sorted(server.store.rglob("*"))
    answer = server.post(path, {"id": id, "run": id, "seen": "", "confirm": "yes"})
    assert answer.status in (404, 422)
    assert sorted(server.store.rglob("*")) == before
    assert server.store.parent.exists()


def test_links_out_of_the_store_are_listed_and_not_followed(own: Server, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    shutil.copytree(own.store / "quick-run", outside / "a-run")
    (own.store / "link").symlink_to(outside)
    (own.store / "link-to-run").symlink_to(outside / "a-run")
    (own.store / "loop").symlink_to(own.store / "loop")
    (own.store / "home").symlink_to(own.store)
    inner = own.store / "sixteen"
    (inner / "samples.parquet").unlink()
    (inner / "samples.parquet").symlink_to(outside / "a-run" / "samples.parquet")
    os.mkfifo(own.store / "slow" / "pipe")
    own.look()

    page = own.get("/").text
    assert_says(page, "leads out of", "not followed")
    assert "another place of" in page
    runs = own.runs()
    assert "link/a-run" not in runs
    assert runs["sixteen"]["state"] == "outside"
    assert "leads out of" in runs["sixteen"]["problem"]
    assert_says(runs["slow"]["problem"], "pipe in it")
    for place in ("sixteen", "slow"):
        assert own.get(f"/api/runs/{runs[place]['id']}").status == 422
        assert "leads out" in own.get(f"/runs/{runs[place]['id']}/about").text or place == "slow"
        assert own.get(f"/compare?run={runs[place]['id']}").status == 422

    gone = own.post("/delete", {**own.asked("sixteen"), "how": "forever"})
    assert gone.status == 303
    assert not inner.exists()
    assert (
        outside / "a-run" / "samples.parquet"
    ).stat().st_size > 0  # not deleted through the link


def test_a_link_is_not_deleted(own: Server, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (own.store / "link").symlink_to(tmp_path / "outside")
    import hashlib

    id = hashlib.sha256(b"link").hexdigest()[:16]
    assert "by hand" in own.get(f"/delete?run={id}").text
    assert own.post("/delete", {"run": id, "seen": "", "confirm": "yes"}).status == 409
    assert (own.store / "link").is_symlink()


def test_a_trash_that_is_a_link_is_not_used(own: Server, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    asked = own.asked("quick-run")
    (own.store / ".wattstep-trash").symlink_to(tmp_path / "elsewhere")
    assert own.post("/delete", asked).status == 507
    assert (own.store / "quick-run" / "run.json").exists()
    assert not list((tmp_path / "elsewhere").iterdir())
    assert own.get("/trash").status == 200
