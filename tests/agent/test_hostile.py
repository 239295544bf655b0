"""A folder of a board is a run that can be read, or refused: never a crash, whatever stands in it."""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.agent.boards import agent_in, python, run_in
from tests.agent.test_tracing import STUBBED
from tests.refusals import refused
from tests.wording import saying

import wattstep
from wattstep.errors import WattstepError
from wattstep.remote.agent.joining import join

DEEP = "[" * 100_000
LAYERS = {"processor": "cpu", "rows": [["a", "Linear", True, "forward", 0, 5]]}
# A number is as good as another to the arithmetic of a garbled journal.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twenty steps of a small training, its first traced step timed by layer."""
    folder = tmp_path_factory.mktemp("hostile")
    agent_in(folder)
    (folder / "script.py").write_text(STUBBED)
    done = run_in(
        folder, python("3.6"), "wattstep_agent.py", "run", "--out", "out", "--trace", "layers",
        "--every", "5", "script.py", "1", stub=True,
    )  # fmt: skip
    assert done.returncode == 5, done.stderr
    return folder / "out"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("joined")


def opened(folder: Path, place: Path) -> wattstep.Run | None:
    """The run of a recording, read as reports read it; None where it is refused."""
    out = place / "run"
    try:
        run = wattstep.load(join(folder, out))
        run.metrics()
        json.dumps(run.document()).encode()
        list(run.operations())
    except WattstepError:
        return None
    finally:
        shutil.rmtree(out, ignore_errors=True)
        assert list(place.iterdir()) == []  # nothing half made stays
    return run


def changed(recording: Path, folder: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    """A copy whose description was changed."""
    shutil.copytree(recording, folder, dirs_exist_ok=True)
    document = json.loads((recording / "agent.json").read_text())
    change(document)
    (folder / "agent.json").write_text(json.dumps(document))
    return folder


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Of all values in a document."""
    yield path
    if isinstance(value, dict | list):
        entries = value.items() if isinstance(value, dict) else enumerate(value)
        for key, entry in entries:
            yield from places(entry, (*path, key))


def put(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    """The document with another value at a place."""
    if not path:
        return value
    made = copy.copy(document)
    made[path[0]] = put(document[path[0]], path[1:], value)
    return made


ANYTHING = st.sampled_from(
    [
        None, True, False, 0, -1, 1, 2**31, 2**32, 2**63, -(2**63), 10**30, 1e300, 0.5, float("nan"),
        float("inf"), "", "x", "\ud800", "a\0b", "\x1b[31m", "../../../x", "<b>", "x" * 30_000, [], {},
        [[]], ["x"], [[1, 2]], {"a": 1}, {"x": [{}]}, [[10**40, 1]], "1", [0, "x"],
    ]
)  # fmt: skip
MANY = settings.default.max_examples // 20  # each is a run, written and read
quick = settings(max_examples=MANY, suppress_health_check=[HealthCheck.function_scoped_fixture])


@quick
@given(data=st.data())
def test_any_description_makes_a_readable_run_or_is_refused(
    recording: Path, place: Path, tmp_path: Path, data: st.DataObject
) -> None:
    document = json.loads((recording / "agent.json").read_text())
    where = sorted(map(str, places(document)))
    by_name = {str(path): path for path in places(document)}
    # A field first, so that the many channels do not outweigh the rest.
    field = data.draw(st.sampled_from(sorted(document)))
    among = [name for name in where if name.startswith(f"({field!r},")]
    path = by_name[data.draw(st.sampled_from(among))]
    made = put(document, path, data.draw(ANYTHING))
    folder = tmp_path / "folder"
    opened(changed(recording, folder, lambda known: (known.clear(), known.update(made))), place)


@quick
@given(data=st.data())
def test_any_list_of_windows_makes_a_readable_run(
    recording: Path, place: Path, tmp_path: Path, data: st.DataObject
) -> None:
    lines = (recording / "windows.jsonl").read_text().splitlines()
    number = data.draw(st.integers(0, len(lines) - 1))
    line = json.loads(lines[number])
    layers = recording / "traces" / line["file"]
    folder = tmp_path / "folder"
    shutil.copytree(recording, folder, dirs_exist_ok=True)
    if data.draw(st.booleans()):
        path = data.draw(st.sampled_from(sorted(places(line), key=str)))
        lines[number] = json.dumps(put(line, path, data.draw(ANYTHING)))
        (folder / "windows.jsonl").write_text("\n".join(lines) + "\n")
    else:
        document = json.loads(layers.read_text())
        path = data.draw(st.sampled_from(sorted(places(document), key=str)))
        made = json.dumps(put(document, path, data.draw(ANYTHING)))
        (folder / "traces" / line["file"]).write_text(made)
    assert opened(folder, place) is not None  # without the operations of that step


@quick
@given(
    name=st.sampled_from(["marks.bin", "names.jsonl", "samples-01.bin", "ticks.bin", "costs.bin"]),
    at=st.floats(0, 1),
    garbage=st.binary(min_size=1, max_size=64),
)
@example("names.jsonl", 0.0, DEEP.encode())
def test_any_journal_makes_a_readable_run_or_is_refused(
    recording: Path, place: Path, tmp_path: Path, name: str, at: float, garbage: bytes
) -> None:
    folder = tmp_path / "folder"
    shutil.copytree(recording, folder, dirs_exist_ok=True)
    before = (recording / "journal" / name).read_bytes()
    begin = int(at * len(before))
    after = before[:begin] + garbage + before[begin + len(garbage) :]
    (folder / "journal" / name).write_bytes(after)
    opened(folder, place)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("interval_s", float("nan")),
        ("threads", "many"),
        ("lost", {"marks": "x"}),
        ("notes", "abc"),
        ("title", ["x"]),
        ("clocks", [[10**40, 1]]),
        ("warmup", 10**30),
        ("device", {"cores": "two"}),
        ("reads", [{"number": "../../../x"}]),
    ],
)
def test_a_garbled_field_is_refused_by_its_name(
    recording: Path, tmp_path: Path, field: str, value: Any
) -> None:
    folder = changed(recording, tmp_path / "folder", lambda known: known.update({field: value}))
    with refused("damaged-field", f"{field}: "):
        join(folder, tmp_path / "run")


def test_a_name_that_cannot_be_written_is_replaced_and_nothing_else(
    recording: Path, tmp_path: Path
) -> None:
    # As Python names a script whose file name is no UTF-8.
    folder = changed(
        recording, tmp_path / "folder", lambda known: known.update(title="caf\udce9\x1b")
    )
    assert wattstep.load(join(folder, tmp_path / "run")).info.title == "caf\ufffd\ufffd"


@pytest.mark.parametrize(
    "line",
    [
        DEEP,
        json.dumps({"window": 9, "step": float("inf"), "method": "layers", "file": "w", "phases": []}),
        json.dumps({"window": 9, "step": 2**63, "method": "layers", "file": "w", "phases": []}),
        json.dumps({"window": 2**31, "step": 9, "method": "layers", "file": "w", "phases": []}),
        json.dumps({"window": 9, "step": 9, "method": "layers", "file": "../w", "phases": []}),
        json.dumps({"window": 9, "step": 9, "method": "kineto", "file": "w", "phases": [[10**30, "x"]]}),
    ],
)  # fmt: skip
def test_a_garbled_window_is_a_note_and_the_windows_after_it_count(
    recording: Path, place: Path, tmp_path: Path, line: str
) -> None:
    folder = tmp_path / "folder"
    shutil.copytree(recording, folder)
    (folder / "w").write_text(json.dumps(LAYERS))
    (folder / "traces" / "w").write_text(json.dumps(LAYERS))
    whole = (recording / "windows.jsonl").read_text()
    (folder / "windows.jsonl").write_text(f"{line}\n{whole}")
    plain, run = opened(recording, place), opened(folder, place)
    assert plain is not None
    assert run is not None
    assert saying(run.info.notes, "windows.jsonl", 1)
    assert set(plain.info.notes) < set(run.info.notes)


@pytest.mark.parametrize(
    "layers",
    [
        DEEP,
        json.dumps({**LAYERS, "processor": {"a": 1}}),
        json.dumps({**LAYERS, "rows": [["a", "Linear", True, "forward", 0, 10**30]]}),
        json.dumps(
            {**LAYERS, "rows": [["a", "L", False, "forward", n, 9999 - n] for n in range(2000)]}
        ),
    ],
    ids=["deep", "processor", "far away", "too deep"],
)
def test_garbled_times_by_layer_cost_their_step_alone(
    recording: Path, place: Path, tmp_path: Path, layers: str
) -> None:
    folder = tmp_path / "folder"
    shutil.copytree(recording, folder)
    first = json.loads((folder / "windows.jsonl").read_text().splitlines()[0])
    (folder / "traces" / first["file"]).write_text(layers)
    run = opened(folder, place)
    assert run is not None
    assert saying(run.info.notes, f"step {first['step']}", "left out")


def test_a_garbled_journal_is_named_as_the_user_knows_it(recording: Path, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    shutil.copytree(recording, folder)
    marks = bytearray((folder / "journal/marks.bin").read_bytes())
    for at in range(0, len(marks), 32):  # kinds and codes that there are not
        marks[at + 24 : at + 28] = b"\x0b\x00\xff\xff"
    (folder / "journal/marks.bin").write_bytes(bytes(marks))
    with refused("damaged-journal", folder):
        join(folder, tmp_path / "run")
