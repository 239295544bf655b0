"""What ONNX Runtime is given and tells: layout of parameters, optimizers, operations of a profile."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from wattstep.engines.exported.folder import ExportedOptimizer, ExportedParameter
from wattstep.engines.exported.updates import Update
from wattstep.engines.onnxruntime.engine import ENGINE
from wattstep.engines.onnxruntime.layout import BLOCK, lay_out
from wattstep.engines.onnxruntime.tracer import flops_of, operation_of

torch = pytest.importorskip("torch")
pytest.importorskip("onnx")
if (REASON := ENGINE.missing()) is not None:
    pytest.skip(REASON, allow_module_level=True)
ENGINE.load()

from wattstep.engines.onnxruntime.graphs import build_update  # noqa: E402
from wattstep.engines.onnxruntime.step import parse_profile  # noqa: E402


def parameter(name: str, *shape: int, decay: float = 0.0, trainable: bool = True) -> Any:
    return ExportedParameter(name=name, shape=shape, trainable=trainable, decay=decay)


# --- where parameters lie -------------------------------------------------------------------------


def test_parameters_of_one_decay_lie_together_each_at_a_line_of_the_cache() -> None:
    layout = lay_out(
        [
            parameter("a", 3, 5, decay=0.1),
            parameter("b", 7),
            parameter("frozen", 9, trainable=False),
            parameter("c", 16, decay=0.1),
        ]
    )
    assert layout.places == {"b": 0, "a": 16, "c": 32}
    assert layout.size == 48
    assert [(each.begin, each.size, each.decay) for each in layout.blocks] == [
        (0, 16, 0.0),
        (16, 32, 0.1),
    ]


def test_a_large_parameter_is_updated_in_blocks() -> None:
    layout = lay_out([parameter("a", 2 * BLOCK + 16)])
    assert [(each.begin, each.size) for each in layout.blocks] == [
        (0, BLOCK),
        (BLOCK, BLOCK),
        (2 * BLOCK, 16),
    ]


# --- optimizers -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "make", "options"),
    [
        ("sgd", torch.optim.SGD, {}),
        ("sgd", torch.optim.SGD, {"momentum": 0.9}),
        ("sgd", torch.optim.SGD, {"momentum": 0.9, "nesterov": True}),
        ("adam", torch.optim.Adam, {"betas": (0.5, 0.99)}),
        ("adamw", torch.optim.AdamW, {"eps": 1e-6}),
        ("rmsprop", torch.optim.RMSprop, {"alpha": 0.9, "eps": 0.03, "momentum": 0.9}),
        ("rmsprop", torch.optim.RMSprop, {"centered": True}),
    ],
)
def test_five_updates_are_those_of_torch(name: str, make: Any, options: dict[str, Any]) -> None:
    import onnxruntime

    draw = np.random.default_rng(5)
    begin = {"a": draw.normal(size=(3, 5)), "b": draw.normal(size=7)}
    gradients = [
        {key: draw.normal(size=value.shape) for key, value in begin.items()} for _ in range(5)
    ]
    theirs = {key: torch.tensor(value, requires_grad=True) for key, value in begin.items()}
    optimizer = make(
        [{"params": [theirs["a"]], "weight_decay": 0.1}, {"params": [theirs["b"]], "weight_decay": 0.0}],
        lr=0.05, **options,
    )  # fmt: skip
    parameters = [parameter("a", 3, 5, decay=0.1), parameter("b", 7)]
    layout = lay_out(parameters)
    settings = ExportedOptimizer(name=name, rate=0.05, options=options)
    session = onnxruntime.InferenceSession(build_update(settings, layout).SerializeToString())
    update = Update("onnxruntime", name, options, 0.05)
    names = ("weight", *update.states)
    flat = {key: np.zeros(layout.size, np.float32) for key in (*names, "gradient")}

    def put(array: Any, values: Any) -> None:
        for key, value in values.items():
            array[layout.places[key] : layout.places[key] + value.size] = value.ravel()

    put(flat["weight"], begin)
    for step, gradient in enumerate(gradients, 1):
        for key, value in gradient.items():
            theirs[key].grad = torch.tensor(value)
        optimizer.step()
        put(flat["gradient"], gradient)
        inputs = {key: np.array(value, np.float32) for key, value in update.scalars(step).items()}
        for number, block in enumerate(layout.blocks):
            for key, array in flat.items():
                inputs[f"{key}{number}"] = array[block.begin : block.begin + block.size].copy()
        outputs = [each.name for each in session.get_outputs()]
        for output, value in zip(outputs, session.run(outputs, inputs), strict=True):
            place = output.removesuffix("_next")
            block = layout.blocks[int(place[-1])]
            flat[place[:-1]][block.begin : block.begin + block.size] = value
    for key, value in theirs.items():
        at = layout.places[key]
        mine = flat["weight"][at : at + value.numel()].reshape(value.shape)
        np.testing.assert_allclose(mine, value.detach().numpy(), rtol=2e-6, atol=2e-6)
    between = flat["weight"][7:16]  # after b, before a
    assert not between.any()


# --- what ran -------------------------------------------------------------------------------------

NOTED = {
    "cat": "Node", "pid": 7, "tid": 8, "dur": 24, "ts": 19273, "ph": "X",
    "name": "features.0@Conv0_Grad/ConvGrad_0_kernel_time",
    "args": {
        "thread_scheduling_stats": "", "output_type_shape": [{"float": [6, 1, 5, 5]}, {"float": [6]}],
        "output_size": "624", "parameter_size": "0", "activation_size": "88408", "node_index": "13",
        "input_type_shape": [{"float": [4, 6, 28, 28]}, {"float": [4, 1, 28, 28]}, {"float": [6, 1, 5, 5]}],
        "provider": "CPUExecutionProvider", "op_name": "ConvGrad",
    },
}  # fmt: skip
SESSION = {
    "cat": "Session",
    "pid": 7,
    "tid": 8,
    "dur": 9,
    "ts": 3,
    "ph": "X",
    "name": "model_run",
    "args": {},
}


def test_an_operation_of_a_profile_has_its_layer_its_kind_and_its_flops() -> None:
    (noted,) = parse_profile(json.dumps([SESSION, NOTED]), 1_000_000)
    operation = operation_of(noted, "backward")
    assert (operation.name, operation.kind, operation.phase) == (
        "ConvGrad",
        "convolution",
        "backward",
    )
    assert operation.layer == "features.0"
    assert (operation.start, operation.end) == (20_273_000, 20_297_000)
    assert operation.shapes == "4x6x28x28;4x1x28x28;6x1x5x5"
    # Of the kernel alone: the images need no gradient. 4 · 6 · 28 · 28 outputs of 25 products each.
    assert operation.flops == 2 * 4 * 6 * 28 * 28 * 25
    assert operation.bytes == 88408


@pytest.mark.parametrize(
    ("name", "inputs", "outputs", "flops"),
    [
        ("Conv", [[2, 4, 8, 8], [6, 2, 3, 3]], [[2, 6, 8, 8]], 2 * (2 * 6 * 64) * (2 * 9)),
        ("ConvGrad", [[2, 6, 8, 8], [2, 4, 8, 8], [6, 2, 3, 3]], [[2, 4, 8, 8], [6, 2, 3, 3], [6]],
         2 * 2 * (2 * 6 * 64) * (2 * 9)),
        ("Gemm", [[4, 400], [120, 400], [120]], [[4, 120]], 2 * 4 * 400 * 120),
        ("Gemm", [[4, 120], [4, 400]], [[120, 400]], 2 * 4 * 400 * 120),  # of the first one transposed
        ("MatMul", [[2, 3, 5, 7], [2, 3, 7, 9]], [[2, 3, 5, 9]], 2 * 6 * 5 * 7 * 9),
        ("MatMul", [[2, 5, 7], [7, 9]], [[2, 5, 9]], 2 * 2 * 5 * 7 * 9),
        ("Relu", [[3]], [[3]], -1),
    ],
)  # fmt: skip
def test_flops_of_products(name: str, inputs: Any, outputs: Any, flops: int) -> None:
    assert flops_of(name, inputs, outputs) == flops
