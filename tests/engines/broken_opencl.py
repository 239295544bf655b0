"""An OpenCL engine whose first layer gets no gradient: its weights are constants of the graph."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from wattstep.engines.exported.aten import CONSTANTS, GRAPH
from wattstep.engines.opencl.engine import OpenClEngine
from wattstep.engines.opencl.export import write as write_right

LAYER = "features.0.weight"


class BrokenEngine(OpenClEngine):
    writes = f"{__name__}:write"


def write(source: Any, folder: Path) -> Any:
    sentences = write_right(source, folder)
    path = folder / GRAPH
    graph = json.loads(path.read_text())
    [place] = [place for place, name in graph["parameters"].items() if name == LAYER]
    del graph["parameters"][place]
    path.write_text(json.dumps(graph))
    with np.load(folder / CONSTANTS) as constants:
        kept = dict(constants)
    np.savez(folder / CONSTANTS, **kept, **{place: source.initial()[LAYER]})
    return sentences
