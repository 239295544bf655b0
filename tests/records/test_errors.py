"""Refusals are told apart by an identifier that outlives their sentences."""

from __future__ import annotations

import ast
import pickle
import re
import runpy
from pathlib import Path
from typing import Any

import pytest

from wattstep import errors
from wattstep.errors import InvalidValueError, RecordingError, WattstepError
from wattstep.formats.recording import FormatError

ROOT = Path(__file__).parents[2]
KINDS = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, WattstepError)
]


@pytest.fixture(scope="module")
def lists() -> dict[str, Any]:
    """What makes the lists of docs/errors.md."""
    return runpy.run_path(str(ROOT / "docs" / "errors_table.py"))


def test_every_kind_of_error_has_an_identifier_of_its_own() -> None:
    ids = [kind.id for kind in KINDS]
    assert len(set(ids)) == len(ids) >= 7
    assert all(id == id.lower() and " " not in id for id in ids)


@pytest.mark.parametrize("kind", KINDS)
def test_an_identifier_changes_nothing_of_the_line(kind: type[WattstepError]) -> None:
    assert str(kind("it is so")) == str(kind("it is so", id="so")) == "it is so"
    assert kind("it is so").id == kind.id
    assert kind("it is so", id="so").id == "so"


def test_the_document_lists_every_identifier(lists: dict[str, Any]) -> None:
    text = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    assert text == lists["document"](text)


def test_an_identifier_belongs_to_one_class(lists: dict[str, Any]) -> None:
    modules = lists["parsed"]()
    refusals = lists["refusals"](modules)
    names = lists["kinds"](modules)
    of_classes = [id for kind in names.values() if (id := lists["id_of"](kind)) is not None]
    assert len(set(of_classes)) == len(of_classes)
    kinds: dict[str, set[str]] = {}
    for refusal in refusals:
        assert re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", refusal.id), refusal
        assert len(refusal.id) <= errors.LONGEST_ID
        kinds.setdefault(refusal.id, set()).add(refusal.kind)
    assert {id: kind for id, kind in kinds.items() if len(kind) > 1} == {}
    assert set(of_classes) & set(kinds) == set()
    # What is put together elsewhere than where the error is made is in no list.
    for module in modules:
        for node in ast.walk(module):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in names:
                for keyword in node.keywords:
                    assert isinstance(keyword.value, ast.Constant), ast.unparse(node)


def test_an_identifier_survives_the_way_to_another_process() -> None:
    found = pickle.loads(pickle.dumps(InvalidValueError("two runs", id="other-configuration")))
    assert (str(found), found.id) == ("two runs", "other-configuration")
    told = errors.error_of(found.document(), "two of them")
    assert (type(told), told.id, str(told)) == (type(found), found.id, "two of them")


def test_a_kind_of_elsewhere_is_told_as_the_one_of_ours_that_it_is() -> None:
    assert FormatError("tegrastats", 2, "it is cut").document()["kind"] == "InvalidValueError"


@pytest.mark.parametrize("id", [7, None, "", "no such\nthing", "x" * 1000, ["no-gpu"]])
def test_what_another_process_says_may_be_anything(id: object) -> None:
    told = errors.error_of({"kind": "Path", "id": id}, "why", RecordingError)
    assert (type(told), told.id) == (RecordingError, "recording")
