"""Another package's engine, workload, sensor, metric and section, where torch cannot be imported: recorded, told, compared."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.refusals import refused
from tests.wording import assert_says, saying

import wattstep
from wattstep.errors import InvalidValueError
from wattstep.schema.ceilings import Asked
from wattstep.schema.engine import Engine, Mark, Trainer, ignore_phase
from wattstep.schema.workload import Preparation, Specification
from wattstep.train.environment.crowding import crowded_default

PACKAGE = Path(__file__).parents[1] / "fixtures" / "toyframe"
PAGE = Path(__file__).parents[2] / "docs" / "adding-an-engine.md"
# Python loads this in every process that finds it, grandchildren too.
BLOCKER = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.startswith(("torch", "transformers", "lightning")):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocked())
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of installed packages that holds toyframe, and what keeps torch out."""
    site = tmp_path_factory.mktemp("site")
    shutil.copytree(PACKAGE / "toyframe", site / "toyframe")
    about = site / "toyframe-0.3.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: toyframe\nVersion: 0.3\n")
    shutil.copy(PACKAGE / "entry_points.txt", about)
    (site / "sitecustomize.py").write_text(BLOCKER)
    return site


def python(*arguments: str, sites: Sequence[Path], cwd: Path | None = None, **of: str) -> str:
    """What Python prints with those folders first on its path, and more in its environment."""
    path = os.pathsep.join(map(str, (*sites, Path(wattstep.__file__).parents[1])))
    environment = {**os.environ, "PYTHONPATH": path, **of}
    done = subprocess.run(
        [sys.executable, *arguments],
        env=environment, cwd=cwd, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


# Two runs in one process, and everything that is told of them.
SCRIPT = """
import json, sys
from pathlib import Path
from wattstep.cli import run_command_line
from rich.console import Console
from wattstep.report.terminal.run import print_run
from wattstep.errors import InvalidValueError
from wattstep.run import load
from wattstep.schema.ceilings import Ceilings, Level, identity
from wattstep.schema.figure import Figure, Status
from wattstep.train.doctor import processors
from wattstep.train.loop import train
from wattstep.train.settings import TrainingSettings
from toyframe.engine import ToyEngine

try:
    import torch
except ModuleNotFoundError:
    pass
else:
    raise SystemExit("torch can be imported")

def command(out, *arguments):
    sys.argv = ["wattstep", *arguments]
    before, sys.stdout = sys.stdout, open(out, "w")
    try:
        code = run_command_line()
    finally:
        sys.stdout.close()
        sys.stdout = before
    assert code == 0, (arguments, code)

for name, batch in (("one", 4), ("two", 8)):
    settings = TrainingSettings(
        workload="toy", engine="toyframe", batch_size=batch, steps=120, trace="every:4",
        power_model="vcpu", out=name,
    )
    train(settings, lambda progress: None)
try:
    TrainingSettings(workload="toy", engine="toyframe", processor="cuda")
except InvalidValueError as error:
    Path("refused.txt").write_text(str(error))
Path("processors.json").write_text(json.dumps(processors()))
run = load("one")
Path("document.json").write_text(json.dumps(run.document(), default=lambda f: f.to_dict()))
command("report.json", "report", "one", "--json")
command("table.json", "query", "--runs", ".", "--json", "-q",
        "select value, unit from metrics where metric = 'steps_per_second'")
command("export.txt", "export", "one", "--to", "csv", "-o", "csv")
with open("console.txt", "w") as out:
    print_run(run.report(), Console(file=out, width=100))
Path("notebook.html").write_text(run._repr_html_())
command("suite.json", "suite", "toy", "--json")
command("suite.txt", "suite", "--quiet")
command("page.txt", "report", "one", "two", "-o", "page.html")
command("explain.txt", "explain", "one")
command("explain.json", "explain", "one", "--json", "-q")

def ceilings(engine, asked, tell):
    def most(unit):
        return Figure(value=1e15, unit=unit, status=Status.MEASURED, source="toy", method="by hand")

    memory = Level(name="memory", size=10**9, copy=most("B/s"), triad=most("B/s"))
    return Ceilings(
        created="", device=identity(asked.device), engine=engine.version(), threads=asked.threads,
        compute={"matrix_product.fp32": most("FLOP/s")}, levels=(memory,), medians={}, seconds=0.0,
    )

ToyEngine.ceilings = ceilings  # one that measures something would not fit into its sixty lines
command("ceilings.json", "ceilings", "--engine", "toyframe", "--threads", "2", "--json", "-q")
command("of_run.json", "ceilings", "--for", "one", "--json", "-q")
command("roofline.json", "explain", "one", "-s", "roofline", "--json", "-q")
command("compare.json", "compare", "one", "two", "--json", "--across", "batch")
train(
    TrainingSettings(
        workload="toy", engine="toyframe", processor="opencl:1", steps=6, trace="every:3",
        out="opencl",
    ),
    lambda progress: None,
)
Path("modules.json").write_text(json.dumps(sorted(m for m in sys.modules if m.startswith("torch"))))
"""


@pytest.fixture(scope="module")
def told(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("told")
    (folder / "script.py").write_text(SCRIPT)
    python("script.py", sites=[installed], cwd=folder, XDG_CACHE_HOME=str(folder / "cache"))
    return folder


def read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def test_an_engine_of_another_package_records_without_torch(told: Path) -> None:
    document = read(told / "document.json")
    assert document["engine"] == "toyframe 0.3"
    assert document["workload"] == "toy"
    assert document["batch_size"] == 4
    assert document["model"]["parameters"] == 2 * 160 * 160
    assert document["environment"]["toyframe"] == "0.3"
    assert read(told / "modules.json") == []


def test_its_tracer_gives_operations_with_layer_and_phase(told: Path) -> None:
    document = read(told / "document.json")
    # By hand: two products forward and three backward, of which one is the first layer's.
    calls = {
        (row["phase"], row["layer"]): row["calls"]["value"]
        for row in document["operations"]
        if row["name"] == "toy::multiply"
    }
    assert sum(calls.values()) == 5
    assert {row["layer"] for row in document["layers"]} == {"first", "second"}
    assert {row["phase"] for row in document["phases"]} == {"forward", "backward"}


def test_its_operations_have_shapes_and_work(told: Path) -> None:
    import pyarrow.parquet as pq

    rows = pq.read_table(told / "one" / "operations.parquet").to_pylist()
    first = next(row for row in rows if row["phase"] == "forward")
    # By hand: 64 samples of 160 numbers by a matrix of 160 x 160; a multiply-add is two.
    assert first["shapes"] == "64x160;160x160"
    assert first["flops"] == 2 * 64 * 160 * 160


def test_its_clock_is_brought_to_the_runs(told: Path) -> None:
    """Seven seconds ahead, operations lie within their steps all the same."""
    import pyarrow.parquet as pq

    steps = pq.read_table(told / "one" / "steps.parquet").to_pydict()
    operations = pq.read_table(told / "one" / "operations.parquet").to_pydict()
    spans = dict(
        zip(steps["index"], zip(steps["start_ns"], steps["end_ns"], strict=True), strict=True)
    )
    assert operations["step"]
    for step, start, end in zip(
        operations["step"], operations["start_ns"], operations["end_ns"], strict=True
    ):
        assert spans[step][0] <= start <= end <= spans[step][1]


def test_runs_of_it_are_explained_compared_and_shown(told: Path) -> None:
    assert "toy::multiply" in (told / "page.html").read_text(encoding="utf-8")
    assert (told / "explain.txt").read_text(encoding="utf-8").strip()
    answer = read(told / "compare.json")
    assert [side["runs"] for side in answer["sides"]]
    assert answer["metrics"]
    assert read(told / "report.json")["runs"][0]["engine"] == "toyframe 0.3"


def test_no_figure_of_it_says_that_it_comes_from_torch(told: Path) -> None:
    document, explained = read(told / "document.json"), read(told / "explain.json")
    assert all(document[table] for table in ("operations", "rests", "layers", "phases", "kinds"))
    assert document["operations"][0]["memory"]["status"] == "missing"  # it tells no allocations
    assert document["metrics"]["peak_memory"]["value"]
    for told_of_it in (document, explained, read(told / "report.json")):
        assert "toyframe profiler, monotonic" in json.dumps(told_of_it)
        assert "torch" not in json.dumps(told_of_it)


def test_a_metric_of_another_package_is_in_every_report(told: Path) -> None:
    metrics = read(told / "document.json")["metrics"]
    figure = metrics["steps_per_second"]
    assert figure["value"] == pytest.approx(1 / metrics["step_time"]["value"])
    rows = read(told / "table.json")["rows"]
    assert [row[-1] for row in rows] == ["steps/s", "steps/s"]
    for name in ("console.txt", "page.html", "notebook.html"):
        assert "Toy steps per" in (told / name).read_text(encoding="utf-8")
    exported = "".join(path.read_text(encoding="utf-8") for path in (told / "csv").glob("*.csv"))
    assert "steps_per_second" in exported


# Two metrics to compare, of which one's function fails, in one more package.
FAILING = """
from dataclasses import replace

from wattstep.schema.metrics import Metric

TWICE = Metric(label="Twice", meaning="Two steps", unit="s", compared=True, computed="broken:twice")
BROKEN = replace(TWICE, label="Broken", computed="broken:fail")

def twice(run):
    return run.metrics["step_time"].scaled(2.0, "s")

def fail(run):
    raise ZeroDivisionError("by hand")
"""


def test_a_metric_of_another_package_that_fails_costs_itself_alone(
    installed: Path, told: Path, tmp_path: Path
) -> None:
    about = tmp_path / "broken-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1\n")
    (about / "entry_points.txt").write_text(
        "[wattstep.metrics]\ntwice = broken:TWICE\nbroken = broken:BROKEN\n"
    )
    (tmp_path / "broken.py").write_text(FAILING)

    def command(*arguments: str) -> Any:
        sites = [installed, tmp_path]
        # In tests what fails is raised, but for here: users have no such setting.
        return json.loads(
            python("-m", "wattstep", *arguments, sites=sites, cwd=told, WATTSTEP_FAIL_LOUDLY="")
        )

    compared = command("compare", "one", "two", "--json", "--across", "batch")["metrics"]
    twice, step = compared.pop("twice"), compared["step_time"]
    assert twice["a"]["value"] == pytest.approx(2 * step["a"]["value"])
    assert compared == read(told / "compare.json")["metrics"]
    (run,) = command("report", "one", "--json")["runs"]
    assert {"step_time", "twice"} < set(run["metrics"])
    assert "broken" not in run["metrics"]
    assert [failure["part"] for failure in run["failures"]] == ["metrics: broken"]


def test_a_section_of_another_package_is_in_explanations_and_reports(told: Path) -> None:
    for name in ("explain.txt", "page.html"):
        assert "only a toy" in (told / name).read_text(encoding="utf-8")


def test_a_memory_that_cannot_be_followed_is_said(told: Path) -> None:
    notes = read(told / "document.json")["status_notes"]
    assert saying(notes, "toyframe", "memory be followed")


def test_its_ceilings_are_measured_kept_and_found_for_its_runs(told: Path) -> None:
    (asked,) = read(told / "ceilings.json")["ceilings"]
    (of_run,) = read(told / "of_run.json")["ceilings"]
    assert (asked["engine"], asked["threads"]) == ("toyframe 0.3", 2)
    assert (of_run["engine"], of_run["threads"]) == ("toyframe 0.3", 1)
    (section,) = read(told / "roofline.json")["runs"][0]["sections"]
    row = next(r for r in section["tables"]["operations"] if r["flops"]["value"])
    rate = row["flops"]["value"] / row["time"]["value"]
    assert row["of_ceiling"]["value"] == pytest.approx(rate / 1e15)


def test_a_processor_that_only_its_engine_knows_can_be_asked_for(told: Path) -> None:
    info = read(told / "opencl" / "run.json")
    assert info["processor"] == "opencl"
    assert saying(info["notes"], "toyframe", "memory of opencl:1")
    refused = (told / "refused.txt").read_text(encoding="utf-8")
    assert_says(refused, "--processor cuda", "cpu, opencl")
    usable = {(row["engine"], row["name"]): row["usable"] for row in read(told / "processors.json")}
    assert usable[("toyframe", "opencl")]
    assert not usable[("torch", "cuda")]


def test_a_workload_of_another_package_costs_the_suite_nothing(told: Path) -> None:
    (row,) = read(told / "suite.json")["workloads"]
    assert (row["name"], row["parameters"], row["published"]["parameters"]) == ("toy", None, None)
    assert_says(row["not_counted"], "layers", "toyframe")
    table = " ".join((told / "suite.txt").read_text(encoding="utf-8").split())
    assert {"toy", "lenet"} <= set(table.split())
    assert f"(toy): {row['not_counted']}" in table


def test_a_workload_of_another_package_is_in_the_suite_and_refuses_engines_it_has_not(
    installed: Path,
) -> None:
    program = """
from wattstep import engines, workloads
from wattstep.errors import InvalidValueError
from wattstep.schema.workload import Preparation
assert "toy" in workloads.names() and "lenet" in workloads.names()
try:
    engines.find("toyframe").prepare(workloads.find("lenet"), Preparation(batch_size=1))
except InvalidValueError as error:
    print(error)
"""
    assert_says(python("-c", program, sites=[installed]), "lenet", "toyframe (engines: torch)")


OTHER_TRAININGS = """
import sys
from wattstep.cli import run_command_line

def called(*arguments):
    sys.argv = ["wattstep", *arguments, "--engine", "toyframe", "--quiet"]
    return run_command_line()

print(called("fits", "toy", "--batch", "2", "--out", "fits"))
print(called("sweep", "toy", "--batch", "2", "--steps", "3", "--cooldown", "none", "--out", "sweep"))
print(called("memory", "toy"), called("daily", "toy"), file=sys.stderr)
"""


def test_an_engine_is_asked_for_by_every_command_that_trains_and_what_it_lacks_is_refused(
    installed: Path, tmp_path: Path
) -> None:
    path = os.pathsep.join(map(str, (installed, Path(wattstep.__file__).parents[1])))
    done = subprocess.run(
        [sys.executable, "-c", OTHER_TRAININGS], cwd=tmp_path, capture_output=True, text=True,
        check=True, timeout=300, env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    assert [line for line in done.stdout.splitlines() if line.isdecimal()] == ["0", "0"]
    for folder in ("fits", "sweep"):
        (run,) = (tmp_path / folder).rglob("run.json")
        assert read(run)["engine"] == "toyframe 0.3"
    *said, codes = done.stderr.splitlines()
    assert codes == "2 2"
    assert saying(said, "toyframe", "memory its tensors")
    assert saying(said, "toy", "classes", "toyframe")


def test_a_sensor_of_another_package_is_looked_for_and_read(installed: Path, told: Path) -> None:
    absent = read(told / "one" / "run.json")["absent"]
    assert_says(absent["toy_flow"], "cooling water")
    program = """
import tempfile
from pathlib import Path
from wattstep.record.sensors import SENSORS, load
root = Path(tempfile.mkdtemp())
(root / "sys").mkdir()
(root / "sys" / "flow").write_text("42\\n")
print(SENSORS["toy_flow"], load("toy_flow").probe(root, 1).reads[0].channels[0].name)
"""
    assert python("-c", program, sites=[installed]) == "toyframe.sensor:Flow flow.water.rate\n"


def test_each_of_them_is_one_file_and_one_line() -> None:
    lines = (PACKAGE / "entry_points.txt").read_text(encoding="utf-8").split("\n\n")
    places = [part.strip().splitlines()[1].partition(" = ")[2].partition(":")[0] for part in lines]
    files = {PACKAGE / f"{place.replace('.', '/')}.py" for place in places}
    assert len(files) == 5
    assert files | {PACKAGE / "toyframe" / "__init__.py"} == set(PACKAGE.rglob("*.py"))


def test_an_engine_with_tracer_and_trainer_is_sixty_lines_that_its_page_shows() -> None:
    engine = (PACKAGE / "toyframe" / "engine.py").read_text(encoding="utf-8")
    assert sum(bool(line.strip()) for line in engine.splitlines()) <= 60
    page = PAGE.read_text(encoding="utf-8")
    for name in ("__init__", "engine", "workload"):
        assert (PACKAGE / "toyframe" / f"{name}.py").read_text(encoding="utf-8") in page


# A training and somebody's script by the command line, and a training by the Python interface.
TRAININGS_HERE = """
import sys
from pathlib import Path
import wattstep
from wattstep.cli import run_command_line

toy = ["toy", "--engine", "toyframe", "--steps", "3", "--trace", "none", "--no-canary"]
Path("script.py").write_text("print(1)")
run, profile = ["run", *toy, "--out", "one"], ["profile", "--out", "two", "script.py"]
for command, *arguments in (run, profile):
    sys.argv = ["wattstep", command, "--quiet", *arguments]
    assert run_command_line() == 0, arguments
run = wattstep.train("toy", engine="toyframe", steps=3, trace="none", canary=False, out="three")
print(run.info.workload, any(name.startswith("wattstep.remote") for name in sys.modules))
"""


def test_a_training_here_does_not_pass_through_the_room_for_other_devices(
    installed: Path, tmp_path: Path
) -> None:
    """Neither in this process nor in one that it starts."""
    blocker = BLOCKER.replace('"transformers"', '"wattstep.remote"')
    (tmp_path / "sitecustomize.py").write_text(blocker)
    printed = python("-c", TRAININGS_HERE, sites=[tmp_path, installed], cwd=tmp_path)
    assert printed.splitlines()[-1] == "toy False"


class Bare(Engine):
    """An engine that gives nothing but a trainer."""

    name = "no_such_framework"

    def prepare(
        self, workload: Specification, preparation: Preparation, **settings: Any
    ) -> Trainer:
        return BareTrainer()


class BareTrainer(Trainer):
    def __init__(self) -> None:
        self.engine = Bare()

    def step(self, mark: Mark = ignore_phase) -> float:
        return 0.0


def test_what_a_framework_lacks_is_refused_by_its_name(tmp_path: Path) -> None:
    engine, trainer = Bare(), BareTrainer()
    asked = Asked(device={}, threads=1, precisions=(), caches={}, free=0, seconds=1.0)
    with refused("missing-framework", "no_such_framework"):
        engine.load()
    for ask in (
        lambda: engine.bytes_of_tensors(lambda address, size: 0),
        lambda: engine.device_memory("cuda"),
        lambda: engine.ceilings(asked, print),
        lambda: trainer.save(tmp_path / "weights"),
        lambda: trainer.load(tmp_path / "weights"),
    ):
        with pytest.raises(InvalidValueError, match="no_such_framework"):
            ask()
    assert engine.threads() is None
    assert trainer.threads is None
    assert crowded_default(trainer.threads, 64.0) is None


def test_what_an_engine_must_give_is_asked_for_when_it_is_made() -> None:
    class Empty(Engine):
        name = "empty"

    with pytest.raises(TypeError, match="prepare"):
        Empty()  # type: ignore[abstract]


def test_a_name_of_ours_stays_ours() -> None:
    from wattstep.schema.registry import Registry

    registry = Registry("wattstep.no_such_group", {"torch": "ours:ENGINE"})
    assert dict(registry) == {"torch": "ours:ENGINE"}
    assert "numpy" not in registry
    with pytest.raises(KeyError):
        registry["numpy"]
