"""`wattstep agent`: the file for a board, and the run from what it recorded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.agent.boards import agent_in, python, run_in
from tests.command_line import wattstep
from tests.refusals import refused

from wattstep.cli.agent import agent
from wattstep.remote.agent.making import bare_agent


def test_the_file_is_made_in_two_steps_and_its_recording_becomes_a_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made, look = tmp_path / "wattstep_agent.py", tmp_path / "look.json"
    agent(made)
    assert "look only" in capsys.readouterr().out
    assert made.read_text() == bare_agent()
    look.write_text(run_in(tmp_path, python("3.6"), str(made), "look").stdout)
    agent(made, look=look, json=True)
    assert json.loads(capsys.readouterr().out) == {"agent": str(made)}
    (tmp_path / "script.py").write_text(
        "import wattstep_agent\n"
        "with wattstep_agent.Recorder('out') as recorder:\n"
        "    for n in range(6):\n"
        "        with recorder.step(samples=2):\n"
        "            pass\n"
    )
    assert run_in(tmp_path, python("3.6"), "script.py").returncode == 0
    third = wattstep(
        "agent", "--join", str(tmp_path / "out"), "-o", str(tmp_path / "run"), "--json"
    )
    (document,) = json.loads(third.stdout)["runs"]
    assert document["run"] == str(tmp_path / "run")
    assert document["metrics"]["step_time"]["n"] == 3


@pytest.mark.parametrize(
    ("given", "id", "named"),
    [
        ({"look": "nowhere"}, "unusable-file", "nowhere"),
        ({"look": "no_look"}, "damaged-look", "python3 wattstep_agent.py look"),
        ({"look": "a", "join": "b"}, "one-at-a-time", "--join"),
        ({"join": "."}, "not-an-agent-recording", "agent.json"),
        ({"output": "missing/x.py"}, "unusable-file", "missing/x.py"),
    ],
)
def test_bad_input_is_refused(tmp_path: Path, given: dict[str, str], id: str, named: str) -> None:
    (tmp_path / "no_look").write_text("{}")
    paths = {name: tmp_path / path for name, path in {"output": "x.py", **given}.items()}
    with refused(id, named):
        agent(**paths)
    assert not (tmp_path / "x.py").exists()


def test_a_made_agent_is_the_bare_one_with_its_texts_put_in(tmp_path: Path) -> None:
    made = agent_in(tmp_path).read_text()
    bare = bare_agent()
    head, _, rest = bare.partition('\nCHILD = ""\nCANARY = ""\nPLAN = ""\n')
    assert rest
    assert made.startswith(f"{head}\nCHILD = (\n")
    assert made.endswith(f"\n)\n{rest}")
