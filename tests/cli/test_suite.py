"""`wattstep suite`: facts of every workload, counted once and remembered."""

from __future__ import annotations

import json
import runpy
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.command_line import wattstep as called

from wattstep.workloads import names
from wattstep.workloads.paper_table import TABLE

FIELDS = {
    "name", "title", "domain", "task", "parameters", "published", "trainable_parameters", "layers",
    "dominant_layer", "forward_flops_per_sample", "input_shape", "dataset", "source", "paper_table",
}  # fmt: skip


def wattstep(cache: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return called(*arguments, env={"XDG_CACHE_HOME": str(cache)})


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def suite(cache: Path) -> dict[str, dict[str, Any]]:
    done = wattstep(cache, "suite", "--json", "--quiet")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return {row["name"]: row for row in json.loads(done.stdout)["workloads"]}


def test_a_workload_has_every_field_and_its_count_is_remembered(cache: Path) -> None:
    (row,) = json.loads(wattstep(cache, "suite", "lenet", "--json").stdout)["workloads"]
    assert set(row) >= FIELDS
    # By hand: products over 5×5×1 at 28×28 places for 6 channels, and so on (LeCun et al., 1998).
    convolutions = 28 * 28 * 6 * 25 + 10 * 10 * 16 * 6 * 25
    linear = 400 * 120 + 120 * 84 + 84 * 10
    assert row["forward_flops_per_sample"] == 2 * (convolutions + linear)
    kept = cache / "wattstep" / "suite-lenet.json"
    document = json.loads(kept.read_text())
    document["value"]["parameters"] = 7
    kept.write_text(json.dumps(document))
    (row,) = json.loads(wattstep(cache, "suite", "lenet", "--json").stdout)["workloads"]
    assert row["parameters"] == 7
    kept.unlink()


def test_all_sixteen_workloads_of_the_paper_are_in_its_table() -> None:
    assert len(TABLE) == 16
    assert set(TABLE) <= set(names())


def test_the_suite_holds_every_workload_with_every_field(suite: dict[str, Any]) -> None:
    assert tuple(suite) == names()
    for row in suite.values():
        assert set(row) >= FIELDS
        assert set(row["published"]) == {"classes", "image_size", "parameters"}
        assert row["parameters"] >= row["trainable_parameters"] > 0
        assert row["layers"] > 0
        assert row["forward_flops_per_sample"] > 0
        assert row["source"]
        assert row["task"]


def test_all_sixteen_workloads_of_the_paper_are_there_with_its_row(suite: dict[str, Any]) -> None:
    assert {name for name, row in suite.items() if row["paper_table"]} == set(TABLE)
    # As printed there: figures of the paper, not ours.
    assert suite["resnet50"]["paper_table"]["parameters"] == "98M"
    assert suite["bert"]["paper_table"]["trains"] == "never starts"
    assert suite["densenet100"]["paper_table"]["trains"].endswith("crashes")


@pytest.mark.parametrize(
    ("name", "flops", "source"),
    [
        # At 224×224, multiply-adds as torchvision's tables print them ("GFLOPS"), times two.
        ("alexnet-224", 2 * 0.71e9, "AlexNet_Weights"),
        # Less 990 of 1000 classes, each a product over 512 channels at 13×13 places.
        ("squeezenet-224", 2 * (0.82e9 - 990 * 512 * 169), "SqueezeNet1_0_Weights"),
        ("mobilenetv2", 2 * 0.30e9, "MobileNet_V2_Weights"),
        ("mobilenetv3-small", 2 * 0.06e9, "MobileNet_V3_Small_Weights"),
        ("vit-tiny", 2 * 1.26e9, "DeiT-Ti: 1.3 G in Touvron et al., arXiv 2012.12877, table 5"),
    ],
)
def test_operations_at_the_published_size_are_those_of_the_literature(
    suite: dict[str, Any], name: str, flops: float, source: str
) -> None:
    # Their tables round to two digits; ten classes instead of a thousand matter little else.
    assert suite[name]["forward_flops_per_sample"] == pytest.approx(flops, rel=0.1)


def test_the_table_in_the_documents_is_what_the_command_counts(suite: dict[str, Any]) -> None:
    root = Path(__file__).parents[2]
    script = runpy.run_path(str(root / "docs" / "suite_table.py"))
    text = (root / "docs" / "suite.md").read_text(encoding="utf-8")
    assert text == script["document"](list(suite.values()))


def test_another_question_is_another_count(cache: Path) -> None:
    (row,) = json.loads(wattstep(cache, "suite", "lenet", "--classes", "12", "--json").stdout)[
        "workloads"
    ]
    assert row["parameters"] == 61_706 + 2 * 85
    assert row["classes"] == 12


def test_the_suite_reads_as_a_table(cache: Path, suite: Any) -> None:
    table = wattstep(cache, "suite", "--quiet")
    assert all(name in table.stdout for name in names())


def test_one_workload_reads_as_a_page(cache: Path) -> None:
    page = wattstep(cache, "suite", "vgg16").stdout
    assert "134,301,514 (counted)" in page
    assert "138,357,544" in page
    assert "10 classes (138.4 M with" in page
