"""The workloads: what is trained, by name, specified without any framework (`workloads.toml`)."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from wattstep.errors import InvalidValueError
from wattstep.schema.registry import Registry
from wattstep.schema.workload import (
    Implementation,
    OptimizerSettings,
    Published,
    SampleSource,
    Specification,
    WorkloadFacts,
)

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

CATALOGUE: Final = Path(__file__).with_name("workloads.toml")
GROUP: Final = "wattstep.workloads"  # entry points of other packages, each a Specification
_MODELS: Final = "wattstep.workloads"
_READERS: Final = "wattstep.workloads.data"


def names() -> tuple[str, ...]:
    """The names that `find` knows, sorted."""
    return tuple(sorted({*_entries(), *_added()}))


def find(name: str) -> Specification:
    """The workload of that name; loads no framework.

    Raises:
        InvalidValueError: There is no such workload.
    """
    check_name(name)
    if name in _entries():
        return _own(name)
    specification: Specification = _added().load(name)
    return specification


def check_name(name: str) -> None:
    """Refuses a name that `find` does not know.

    Raises:
        InvalidValueError: There is no such workload.
    """
    if name not in _entries() and name not in _added():
        if Path(name, "run.json").exists():
            raise InvalidValueError(
                f"{name} is a run, and this takes a workload (wattstep suite lists them); what the run "
                f"cost, memory too: wattstep show {name} --full",
                id="run-not-workload",
            )
        if name.endswith(".py"):
            raise InvalidValueError(
                f"{name} is a script, and this takes a workload (wattstep suite lists them); to record "
                f"it: wattstep profile {name}; to predict a network of it: wattstep predict {name}:make",
                id="script-not-workload",
            )
        close = difflib.get_close_matches(name.lower(), names(), n=1)
        hint = f"; did you mean {close[0]}?" if close else ""
        raise InvalidValueError(
            f"no workload is called {name!r}{hint} (there are: {', '.join(names())})",
            id="unknown-workload",
        )


@cache
def _added() -> Registry:
    return Registry(GROUP, {})


@cache
def _entries() -> Mapping[str, dict[str, Any]]:
    """The catalogue as it is written."""
    entries: dict[str, dict[str, Any]] = tomllib.loads(CATALOGUE.read_text(encoding="utf-8"))
    return entries


def _whole(name: str) -> dict[str, Any]:
    """An entry with what it takes from another one."""
    entry = dict(_entries()[name])
    like = entry.pop("like", None)
    return {**_whole(like), **entry} if like else entry


@cache
def _own(name: str) -> Specification:
    entry = _whole(name)
    samples, optimizer = entry.pop("samples", None), entry.pop("optimizer", None)
    torch = {key: f"{_MODELS}.torch.{place}" for key, place in entry.pop("torch").items()}
    own = ("loss", "accuracy", "evaluated", "architecture")
    fields = {key: _frozen(entry.pop(key)) for key in own if key in entry}
    published = Published(**{"classes": None, "image_size": None, **entry.pop("published", {})})
    facts = {**entry, "input_shape": tuple(entry["input_shape"])}
    return Specification(
        facts=WorkloadFacts(name=name, published=published, **facts),
        samples=None if samples is None else _samples(**samples),
        optimizer=None if optimizer is None else _optimizer(**optimizer),
        engines={"torch": Implementation(**torch)},
        **fields,
    )


def _samples(*, reader: str, inputs: str, **options: Any) -> SampleSource:
    return SampleSource(reader=f"{_READERS}.{reader}", inputs=inputs, options=options)


def _optimizer(
    *, name: str, rate: float, at_batch: int | None = None, decays: str = "all", **options: Any
) -> OptimizerSettings:
    frozen = {key: _frozen(value) for key, value in options.items()}
    return OptimizerSettings(name=name, rate=rate, at_batch=at_batch, decays=decays, options=frozen)


def _frozen(value: Any) -> Any:
    """TOML's lists as tuples, as torch's own defaults are."""
    if isinstance(value, dict):
        return {key: _frozen(each) for key, each in value.items()}
    return tuple(map(_frozen, value)) if isinstance(value, list) else value
