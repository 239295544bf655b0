"""Optional libraries: loaded where they are used, named with their pip extra where they are missing."""

from __future__ import annotations

import importlib
import importlib.util
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
        MissingPartError: The library is not installed; the message names the extra.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        library = (error.name or "").partition(".")[0]
        if library not in EXTRAS:
            raise
        raise _missing(library) from error


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
