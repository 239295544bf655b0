"""An OpenCL device for tests: whatever the machine has, PoCL of pip at least."""

from __future__ import annotations

import os

import pytest

from wattstep.errors import MissingPartError
from wattstep.opencl.device import Device, Opened, find_devices


@pytest.fixture(scope="session")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Opened:
    pytest.importorskip("pyopencl")
    # Shared by all workers of a test run, of which each would compile everything again.
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base) / "pocl"
    folder.mkdir(exist_ok=True)
    os.environ.setdefault("POCL_CACHE_DIR", str(folder))
    try:
        return Opened(find_devices()[0])
    except MissingPartError as error:
        pytest.skip(str(error))


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture
def device() -> Device:
    return made_device()


def made_device(**settings: object) -> Device:
    facts: dict[str, object] = {
        "number": 0, "name": "Mali-G76", "platform": "ARM", "driver": "2.1", "version": "OpenCL 2.0",
        "kind": "gpu", "units": 10, "memory": 10**9, "largest_buffer": 10**8, "local_memory": 32768,
        "largest_group": 384, "group_sizes": (384, 384, 384), "vector_width": 4, "unified": True,
        "target": "", "handle": None,
    }  # fmt: skip
    return Device(**{**facts, **settings})  # type: ignore[arg-type]
