"""The agent in tests: made for this machine or for a recorded tree, and run under real old Pythons."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from wattstep.remote.agent.looking import Look, parse_look
from wattstep.remote.agent.making import bare_agent, make_agent

HERE = Path(__file__).parent
VERSIONS = ("3.6", "3.7", "3.8", "3.9")
ENDS_S = 120.0


@functools.cache
def python(version: str) -> str:
    """A real interpreter of this version, among pyenv's; the test is skipped where there is none."""
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    found = sorted(root.glob(f"versions/{version}.*/bin/python"))
    if not found:
        pytest.skip(f"no Python {version} below {root}: pyenv install {version}")
    return str(found[0])


def look_at(root: Path, interpreter: str = sys.executable) -> Look:
    """What the agent sees below a root, by its own command line."""
    done = subprocess.run(
        [interpreter, "-", "look", "--root", str(root)], input=bare_agent().encode(),
        stdout=subprocess.PIPE, check=True, timeout=ENDS_S,
    )  # fmt: skip
    return parse_look(done.stdout)


@functools.cache
def agent_for_here() -> str:
    """The agent with the plan of this machine."""
    return make_agent(look_at(Path("/")))


def agent_in(folder: Path) -> Path:
    """The agent for this machine, as a file."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "wattstep_agent.py"
    path.write_text(agent_for_here())
    return path


def run_in(
    folder: Path, interpreter: str, *arguments: str, stub: bool = False, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Runs a Python in a folder to its end; `stub` puts the tests' own torch on its path."""
    own = {
        key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "STUB_"))
    }
    if stub:
        own["PYTHONPATH"] = str(HERE / "stub")
    own["PYTHONDONTWRITEBYTECODE"] = "1"
    return subprocess.run(
        [interpreter, *arguments], cwd=folder, env={**own, **environment}, timeout=ENDS_S,
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def agent_json(folder: Path) -> dict[str, object]:
    """What the agent says of a recording."""
    document: dict[str, object] = json.loads((folder / "agent.json").read_text())
    return document
