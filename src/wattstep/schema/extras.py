"""Optional libraries: loaded where they are used, named with their pip extra where they are missing."""

from __future__ import annotations

import gc
import importlib
import importlib.util
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from wattstep.errors import MissingPartError

# Top-level module to the extra in pyproject.toml that installs it.
EXTRAS: dict[str, str] = {
    "torch": "torch",
    "sklearn": "suite",
    "PIL": "suite",
    "gymnasium": "atari",
    "ale_py": "atari",
    "transformers": "suite",
    "bitsandbytes": "bits",
    "MNN": "mnn",
    "onnxruntime": "onnxruntime",
    "executorch": "executorch",
    "mlx": "mlx",
    "onnx": "onnx",
    "pyopencl": "opencl",
    "distributed": "cluster",
    "duckdb": "query",
    "msgspec": "traces",
    "flatbuffers": "traces",
    "perfetto": "traces",
    "google": "traces",
    "lightning": "lightning",
    "accelerate": "transformers",
    "mlflow": "mlflow",
    "wandb": "wandb",
    "tensorboard": "tensorboard",
    "starlette": "serve",
    "uvicorn": "serve",
}


def require(module: str) -> ModuleType:
    """Imports a module that needs an optional library, or is one.

    Raises:
        MissingPartError: The library is not installed, and the message names the extra; or it is
            installed and cannot be loaded.
    """
    if (loaded := sys.modules.get(module)) is not None:
        return loaded
    try:
        with staying():
            return importlib.import_module(module)
    except (ImportError, OSError) as error:
        library = _library_of(error)
        if library not in EXTRAS:
            raise
        if isinstance(error, ModuleNotFoundError) and _top(error.name) == library:
            raise _missing(library) from error
        with loading(library):
            raise


@contextmanager
def staying() -> Iterator[None]:
    """What is made meanwhile, hundreds of thousands of objects of torch's, is not looked through for garbage.

    In the end all counts as old: modules stay. Where nothing was collected before, that is somebody else's to decide.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        if not gc.get_freeze_count():  # else others set objects aside, who take them back
            gc.freeze()
            gc.unfreeze()
        gc.enable()


@contextmanager
def loading(library: str) -> Iterator[None]:
    """Refuses a library that is installed and cannot be loaded: damaged, of another system, or without another.

    Args:
        library: As it is called to the user.

    Raises:
        MissingPartError: With what the import said.
    """
    try:
        yield
    except (ImportError, OSError) as error:
        line = next(iter(str(error).splitlines()), type(error).__name__)
        raise MissingPartError(
            f"{library} is installed, but cannot be loaded: {line}", id="unloadable-part"
        ) from error


def _library_of(error: ImportError | OSError) -> str:
    """The library that could not be imported, or whose import failed; "" for none of ours to know."""
    running = (
        _top(frame.f_globals.get("__name__")) for frame, _ in traceback.walk_tb(error.__traceback__)
    )
    names = (_top(getattr(error, "name", None)), *running)
    return next((each for each in names if each in EXTRAS), "")


def _top(module: str | None) -> str:
    return (module or "").partition(".")[0]


def find_part(library: str) -> Path:
    """The folder of an optional library, which is not imported.

    Raises:
        MissingPartError: The library is not installed; the message names the extra.
    """
    spec = importlib.util.find_spec(library)
    if spec is None or not spec.submodule_search_locations:
        raise _missing(library)
    return Path(spec.submodule_search_locations[0])


def _missing(library: str) -> MissingPartError:
    return MissingPartError(
        f'{library} is not installed: pip install "wattstep[{EXTRAS[library]}]"', id="missing-extra"
    )
