"""`wattstep targets`, and the options of other commands that concern boards."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.command_line import wattstep
from tests.fleet.remote.server import MISSING, WHY_NOT, Server, serving
from tests.refusals import id_in
from tests.wording import assert_says

needs_server = pytest.mark.skipif(bool(MISSING), reason=WHY_NOT)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("board")) as board:
        yield board


def knowing(server: Server) -> dict[str, str]:
    """Variables by which ssh knows the board."""
    return {"WATTSTEP_SSH_CONFIG": str(server.client_config)}


@needs_server
def test_an_empty_board_is_said_to_be_empty(server: Server) -> None:
    ended = wattstep("targets", server.target, "--json", env=knowing(server))
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout)
    assert (found["target"], found["installed"], found["bytes"]) == ("ssh:board", False, 0)
    assert found["jobs"] == found["fetched"] == []
    assert found["python"] == list(sys.version_info[:3])
    assert server.left() == []


@needs_server
def test_what_lies_there_is_listed_and_cleaned_and_nothing_else(server: Server) -> None:
    ours = server.home / ".cache/wattstep-board"
    (ours / "environment-0123456789abcdef").mkdir(parents=True)
    (ours / "environment-0123456789abcdef/complete").write_bytes(b"x" * 1234)
    (ours / "somebody's").write_text("own")
    job = ours / "jobs/lenet-20261122-000000-abcd"
    job.mkdir(parents=True)
    text = json.dumps({"kind": "train", "title": "lenet, batch 4", "run": "mine"})
    (job / "job.json").write_text(text)
    (job / "holder.json").write_text(json.dumps({"pid": 1, "started": "0", "boot": "before"}))
    size = 1234 + 3 + len(text) + len((job / "holder.json").read_text())
    ended = wattstep("targets", server.target, env=knowing(server))
    installed, left = ended.stdout.splitlines()
    version = ".".join(map(str, sys.version_info[:3]))
    assert_says(installed, "on the board:", f"{size / 1000:.1f} kB", f"(Python {version})")
    assert_says(left, "lenet-20261122-000000-abcd", "restarted", "lenet, batch 4")
    ended = wattstep("targets", server.target, "--clean", env=knowing(server))
    assert ended.returncode == 0, ended.stderr
    assert server.left() == [".cache", ".cache/wattstep-board", ".cache/wattstep-board/somebody's"]


@pytest.mark.parametrize(
    ("arguments", "id", "named"),
    [
        (("targets", "emulate:jetson-tx2"), "not-a-board", "emulate:"),
        (("targets", "ssh://b", "job"), "needs-fetch", "--fetch"),
        (("targets", "ssh://b", "--force"), "needs-clean", "--clean"),
        (("targets", "ssh://b,colour=red"), "unknown-target-option", "colour"),
        (
            ("run", "lenet", "--target", "ssh://-oProxyCommand=x"),
            "not-a-board-address",
            "ssh://USER@BOARD",
        ),
        (("targets", "ssh://me:s3cret@b"), "no-password-taken", "ssh-copy-id"),
        (
            ("run", "lenet", "--target", "ssh://b", "--memory-limit", "much"),
            "malformed-size",
            "much",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused(arguments: tuple[str, ...], id: str, named: str) -> None:
    ended = wattstep(arguments[0], "--json", *arguments[1:])
    assert (ended.returncode, id_in(ended.stdout)) == (2, id)
    assert named in ended.stderr
    assert len(ended.stderr.splitlines()) == 1
    assert "s3cret" not in ended.stderr


def test_files_go_along_to_a_board_only(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("")
    ended = wattstep("profile", "--with", str(script), "--out", str(tmp_path), str(script))
    assert ended.returncode == 2
    assert_says(ended.stderr, "--with", "board")
