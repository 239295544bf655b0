"""What needs no training works in an environment that has no torch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import urllib.request
import venv
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any

import pytest
from tests.wording import assert_says

import wattstep

SOURCE = Path(wattstep.__file__).parents[1]
NVIDIA_SMI = """\
timestamp, index, power.draw [W]
2024/05/01 10:00:00.000, 0, 20.00 W
2024/05/01 10:00:00.100, 0, 40.00 W
2024/05/01 10:00:00.200, 0, 40.00 W
2024/05/01 10:00:00.300, 0, 20.00 W
"""


def needs_torch() -> set[str]:
    """Distributions that are torch, or cannot do without it."""
    installed = {name(each): each for each in distributions()}
    found = {"torch"}
    required = {each: needs(installed[each]) for each in installed}
    while more := {n for n, wanted in required.items() if n not in found and wanted & found}:
        found |= more
    return found


def name(distribution: Distribution) -> str:
    return str(distribution.metadata["Name"]).lower().replace("_", "-")


def needs(distribution: Distribution) -> set[str]:
    """What it requires without any extra."""
    wanted = [text for text in distribution.requires or () if "extra ==" not in text]
    return {
        text.split(";")[0].split("[")[0].strip("()<>=!~., 0123456789").split()[0].lower()
        for text in wanted
    }


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment with all that is installed here but torch."""
    root = tmp_path_factory.mktemp("no-torch")
    venv.create(root, symlinks=True, with_pip=False)
    (site,) = root.glob("lib/python*/site-packages")
    needing = needs_torch()
    left_out = {
        file.parts[0]
        for each in distributions()
        if name(each) in needing
        for file in each.files or ()
    }
    for entry in Path(sysconfig.get_paths()["purelib"]).iterdir():
        if entry.name not in left_out and not entry.name.startswith("__editable__"):
            (site / entry.name).symlink_to(entry)
    (site / "wattstep_source.pth").write_text(f"{SOURCE}\n")
    return root / "bin" / "python"


def command(python: Path, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "XDG_CACHE_HOME": str(cwd / "cache")}
    environment.pop("PYTHONPATH", None)
    return subprocess.run(
        [str(python), "-m", "wattstep", *arguments],
        env=environment, cwd=cwd, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip


def answer(python: Path, *arguments: str, cwd: Path) -> Any:
    done = command(python, *arguments, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_environment_has_no_torch(python: Path) -> None:
    done = subprocess.run([str(python), "-c", "import torch"], capture_output=True, text=True)
    assert_says(done.stderr, "ModuleNotFoundError", "'torch'")


def test_the_facts_of_a_workload_are_told_and_what_is_not_counted_is_said(
    python: Path, tmp_path: Path
) -> None:
    (row,) = answer(python, "suite", "resnet50", "--json", cwd=tmp_path)["workloads"]
    assert (row["title"], row["dataset"]) == ("ResNet50", "CIFAR-10")
    assert row["input_shape"] == [3, 32, 32]
    assert row["published"] == {"classes": 1000, "image_size": 224, "parameters": None}
    assert row["parameters"] is None
    assert_says(row["not_counted"], 'pip install "wattstep[torch]"')
    page = command(python, "suite", "resnet50", cwd=tmp_path)
    assert_says(page.stdout, "torch", "not installed")
    table = command(python, "suite", "--quiet", cwd=tmp_path)
    assert table.returncode == 0
    assert "resnet50" in table.stdout


def test_a_training_is_refused_with_what_to_install(python: Path, tmp_path: Path) -> None:
    done = command(python, "run", "lenet", "--steps", "3", "--quiet", cwd=tmp_path)
    assert done.returncode == 2
    assert_says(done.stderr, "torch", 'pip install "wattstep[torch]"')


def test_doctor_looks_at_the_machine(python: Path, tmp_path: Path) -> None:
    assert answer(python, "doctor", "--json", cwd=tmp_path)["sensors"]


@pytest.fixture(scope="module")
def imported(python: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run that was made of a log of power."""
    folder = tmp_path_factory.mktemp("imported")
    (folder / "power.csv").write_text(NVIDIA_SMI)
    done = command(
        python, "import", "--telemetry", "power.csv", "--out", "runs/log", "--json", cwd=folder
    )
    assert done.returncode == 0, done.stderr
    return folder


def test_a_log_is_imported_and_reported(python: Path, imported: Path) -> None:
    document = answer(python, "report", "runs/log", "--json", cwd=imported)
    assert document["runs"]
    assert (imported / "report.html").stat().st_size > 0


def test_runs_are_asked_in_sql(python: Path, imported: Path) -> None:
    pytest.importorskip("duckdb")
    rows = answer(
        python, "query", "select count(*) as n from runs", "--runs", "runs", "--json", cwd=imported
    )
    assert "1" in json.dumps(rows)


def test_the_store_is_shown_in_a_browser(python: Path, imported: Path) -> None:
    pytest.importorskip("starlette")
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    served = subprocess.Popen(
        [str(python), "-m", "wattstep", "serve", "runs", "--port", "0"],
        env=environment, cwd=imported, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    with served:
        assert served.stdout is not None
        try:
            line = next(text for text in served.stdout if "http://" in text)
            address = "http://" + line.split("http://")[1].split()[0]
            with urllib.request.urlopen(address, timeout=600) as page:
                assert b"log" in page.read()
        finally:
            served.terminate()


def test_python_finds_no_torch_by_another_way(python: Path) -> None:
    """Whatever is loaded for a run's document, torch is not."""
    program = (
        "import sys, wattstep.run, wattstep.report.json_document, wattstep.record.recorder, "
        "wattstep.train.loop; print('torch' in sys.modules)"
    )
    done = subprocess.run([str(python), "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


if sys.platform != "linux":
    pytest.skip("the environment is made of links", allow_module_level=True)
