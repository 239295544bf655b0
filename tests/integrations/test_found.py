"""`wattstep.WattstepCallback` is the callback of the trainer that is there."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec

import pytest
from tests.refusals import refused

import wattstep
from wattstep import integrations


@pytest.fixture
def there(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    names: set[str] = set()
    for name in (*integrations.TRAINERS, "transformers.trainer"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(
        integrations.importlib.util,
        "find_spec",
        lambda name: ModuleSpec(name, None) if name in names else None,
    )
    return names


def test_the_installed_trainer_is_meant(there: set[str]) -> None:
    there.add("lightning")
    assert integrations._trainer() == "wattstep.integrations.lightning"


def test_of_two_the_imported_one_is_meant(there: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    there.update(integrations.TRAINERS)
    with refused("several-trainers", "from wattstep.integrations.lightning"):
        integrations._trainer()
    monkeypatch.setitem(sys.modules, "transformers.trainer", sys)
    assert integrations._trainer() == "wattstep.integrations.transformers"


def test_a_library_that_another_has_loaded_is_not_meant(
    there: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    there.update(integrations.TRAINERS)
    monkeypatch.setitem(sys.modules, "lightning", sys)
    monkeypatch.setitem(sys.modules, "transformers", sys)
    assert integrations._trainer() == "wattstep.integrations.lightning"


def test_without_a_trainer_the_recorder_is_named(there: set[str]) -> None:
    with refused("no-trainer", "wattstep.Recorder"):
        integrations._trainer()


def test_only_public_names_are_completed() -> None:
    names = dir(wattstep)
    assert "Recorder" in names
    assert "WattstepCallback" in names
    assert not [name for name in names if name.startswith("_") and name != "__version__"]
    assert "annotations" not in names
