"""A function is called once a module is there, whoever imports it, and the module is none the wiser."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from wattstep.engines.after_import import after_import


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    (tmp_path / "late_module.py").write_text("VALUE = 3\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield "late_module"
    sys.modules.pop("late_module", None)


def test_it_is_called_once_right_after_the_import(module: str) -> None:
    seen: list[int] = []
    finders = list(sys.meta_path)
    after_import(module, lambda: seen.append(sys.modules[module].VALUE))
    assert seen == []
    loaded = importlib.import_module(module)
    assert seen == [3]
    importlib.reload(loaded)
    assert seen == [3]
    assert sys.meta_path == finders


def test_it_is_called_at_once_where_the_module_is_there(module: str) -> None:
    importlib.import_module(module)
    seen: list[str] = []
    after_import(module, lambda: seen.append("called"))
    assert seen == ["called"]


def test_the_module_looks_as_if_nobody_had_waited_for_it(module: str) -> None:
    after_import(module, lambda: None)
    loaded = importlib.import_module(module)
    assert type(loaded.__spec__.loader).__name__ == "SourceFileLoader"
    assert loaded.__file__.endswith("late_module.py")


def test_a_module_that_is_not_there_raises_what_it_would(module: str) -> None:
    after_import("no_such_module_at_all", lambda: None)
    with pytest.raises(ModuleNotFoundError, match="no_such_module_at_all"):
        importlib.import_module("no_such_module_at_all")
