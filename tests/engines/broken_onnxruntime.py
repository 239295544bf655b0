"""An ONNX Runtime whose gradient of one parameter is two percent too large."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from wattstep.engines.onnxruntime.engine import OnnxRuntimeEngine
from wattstep.engines.onnxruntime.export import write as write_right

NAME = "classifier.1.weight_grad"


class BrokenEngine(OnnxRuntimeEngine):
    writes = f"{__name__}:write"


def write(source: Any, folder: Path) -> Any:
    sentences = write_right(source, folder)
    path = folder / "backward.onnx"
    model = onnx.load(path)
    maker = next(node for node in model.graph.node if NAME in node.output)
    maker.output[list(maker.output).index(NAME)] = "right"
    factor = numpy_helper.from_array(np.array(1.02, np.float32), "factor")
    model.graph.initializer.append(factor)
    model.graph.node.append(helper.make_node("Mul", ["right", "factor"], [NAME]))
    onnx.save(model, path)
    return sentences
