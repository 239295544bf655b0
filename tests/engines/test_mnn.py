"""MNN's operations are named by what they are for; an older one is refused."""

from __future__ import annotations

import pytest
from tests.refusals import refused

from wattstep.engines.mnn.engine import MnnEngine
from wattstep.engines.mnn.graph import GraphOperation
from wattstep.engines.mnn.kinds import layer, node_type
from wattstep.engines.mnn.tracer import describe

# As MNN 3.6.1 told them of LeNet at batch 4: name, type, millions of multiply-adds, shapes.
TOLD = [
    ("conv_output_raster_0", "Raster", 0.012, "4x1x28x28"),
    ("conv_output", "Convolution", 0.47040000557899475, "4x1x28x28;6x1x5x5;6"),
    ("tanh_output", "UnaryOp", 0.0239, "4x6x28x28"),
    ("gemm_output", "Convolution", 0.192, "4x400x1x1;120x400x1x1;120"),
    ("loss", "BinaryOp", 1e-6, "scalar;scalar"),
    ("grad::conv_output0", "Deconvolution", 0.4704, "4x6x28x28;6x1x5x5"),
    ("grad::conv_output1_raster_0", "Raster", 0.07, "4x1x28x28"),
    ("grad::conv_output1_raster_3", "MatMul", 0.4704, "25x3136;6x3136"),
    ("BinaryOp7", "BinaryOp", 1e-6, "6;6"),
    ("update:features.0.weight", "BinaryOp", 1e-4, "6x1x5x5;6x1x5x5"),
]
CONV = "/model/features/features.0/Conv"
GRAPH = {
    "conv_output": GraphOperation(phase="forward", type="Convolution", node=CONV),
    "tanh_output": GraphOperation(
        phase="forward", type="TANH", node="/model/features/features.1/Tanh"
    ),
    "gemm_output": GraphOperation(
        phase="forward", type="Convolution", node="/model/classifier/classifier.1/Gemm"
    ),
    "loss": GraphOperation(phase="forward", type="MUL", node="loss"),
    "grad::conv_output0": GraphOperation(
        phase="backward", type="Deconvolution", node=CONV, operand=0
    ),
    "grad::conv_output1": GraphOperation(
        phase="backward", type="Conv2DBackPropFilter", node=CONV, operand=1
    ),
    "update:features.0.weight": GraphOperation(phase="optimizer", type="SUB"),
}


def test_operations_have_the_kind_layer_and_phase_of_what_they_run_for() -> None:
    assert [(each.kind, each.layer, each.phase, each.flops) for each in describe(TOLD, GRAPH)] == [
        ("data movement", "features.0", "forward", -1),
        # 4 images, 6 channels, 28 x 28 places, 25 weights; a multiplication and an addition each
        ("convolution", "features.0", "forward", 2 * 4 * 6 * 28 * 28 * 25),
        ("activation", "features.1", "forward", -1),
        ("matrix product", "classifier.1", "forward", 2 * 4 * 400 * 120),
        ("loss", None, "forward", -1),
        ("convolution input gradient", "features.0", "backward", 2 * 4 * 6 * 28 * 28 * 25),
        ("data movement", "features.0", "backward", -1),
        ("convolution weight gradient", "features.0", "backward", 2 * 4 * 6 * 28 * 28 * 25),
        ("elementwise", None, "backward", -1),  # no name of its own: what ran before it tells
        ("optimizer", None, "optimizer", -1),
    ]


def test_the_layer_of_a_node_is_its_path_in_torch() -> None:
    assert layer("/model/blocks/blocks.0/second/second.1/BatchNormalization") == "blocks.0.second.1"
    assert layer("/model/stem/Relu_2") == "stem"
    assert layer("/model/MatMul") is None
    assert layer("loss") is None
    assert node_type("/model/stem/Relu_2") == "Relu"


def test_an_older_version_is_refused_with_the_one_that_is_needed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("wattstep.engines.exported.engine.version", lambda name: "3.5.2")
    with refused("missing-framework", "3.5.2", "3.6 or newer"):
        MnnEngine().load()
    monkeypatch.setattr("wattstep.engines.exported.engine.version", lambda name: "3.10.0")
    assert MnnEngine().missing() is None
