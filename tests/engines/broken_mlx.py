"""An MLX whose first layers get no gradient."""

import json
from pathlib import Path
from typing import Any

from wattstep.engines.exported.aten import GRAPH
from wattstep.engines.mlx.engine import MlxEngine
from wattstep.engines.mlx.export import write as write_right


class BrokenEngine(MlxEngine):
    writes = f"{__name__}:write"


def write(source: Any, folder: Path) -> Any:
    sentences = write_right(source, folder)
    path = folder / GRAPH
    graph = json.loads(path.read_text())
    first = next(node for node in graph["nodes"] if node["op"] == "linear")
    cut = {"name": "cut", "op": "detach", "args": [first["args"][0]], "kwargs": {}}
    first["args"][0] = {"of": "cut"}
    graph["nodes"].insert(graph["nodes"].index(first), cut)
    path.write_text(json.dumps(graph))
    return sentences
