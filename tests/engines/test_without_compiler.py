"""A capture loads no compiler of torch's; whatever asks for one gets the real one, once and for good."""

from __future__ import annotations

import subprocess
import sys

CAPTURE = """
import sys
import torch
from wattstep import engines, workloads
from wattstep.schema.workload import Preparation
engine = engines.find("torch")
engine.load()
family = engine.capture(workloads.find("resnet8"), Preparation(batch_size=4), "fp32", evaluated=True)
assert family.capture is None and family.small.count > 100
loaded = {"torch._dynamo", "torch.fx.experimental.symbolic_shapes", "sympy"} & set(sys.modules)
assert not loaded, loaded
assert "_dynamo" not in vars(torch)
"""
COMPILES = """
step = torch.optim.SGD.zero_grad
model = torch.nn.Linear(3, 3)
torch.optim.SGD(model.parameters()).zero_grad()
import torch._dynamo
assert torch._dynamo.config.recompile_limit > 0
assert torch.compile(lambda x: 2 * x, backend="eager")(torch.ones(2)).tolist() == [2, 2]
hidden = vars(torch.optim.Optimizer.zero_grad.__wrapped__)["__dynamo_disable"]
assert hidden is not torch.optim.Optimizer.zero_grad.__wrapped__
"""
ASKED = """
import sys
import torch
from wattstep.engines.torch.without_compiler import without_compiler
with without_compiler():
    from torch.fx.experimental.symbolic_shapes import guard_or_false, sym_and, sym_eq
    assert guard_or_false(True) is True and sym_and(True, False) is False
    assert sym_eq((2, 3), (2, 3)) and not sym_eq((2, 3), (2, 3, 4))
    assert torch._dynamo.graph_break() is None
    light = sys.modules["torch._dynamo"]
    assert not hasattr(light, "eval_frame") or sys.modules["torch._dynamo"] is not light
    from torch._dynamo.source import LocalSource
    import torch._dynamo
    assert sys.modules["torch._dynamo"] is torch._dynamo is not light
    assert torch._dynamo.source.LocalSource is LocalSource
    assert LocalSource is sys.modules["torch._dynamo.variables.builder"].LocalSource
    shapes = torch.fx.experimental.symbolic_shapes
    assert shapes.ShapeEnv and shapes.guard_or_false(False) is False
    number = shapes.ShapeEnv().create_unbacked_symint()
    assert guard_or_false(number == 3) is False
assert torch._dynamo is sys.modules["torch._dynamo"]
"""
PART = """
import sys
import torch
from wattstep.engines.torch.without_compiler import without_compiler
with without_compiler():
    from torch._dynamo.source import LocalSource
    assert LocalSource is sys.modules["torch._dynamo.variables.builder"].LocalSource
    assert sys.modules["torch._dynamo"].source.LocalSource is LocalSource
"""


def run(script: str) -> None:
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]


def test_a_capture_loads_no_compiler_and_leaves_one_to_be_loaded() -> None:
    run(CAPTURE + COMPILES)


def test_what_is_asked_for_beyond_plain_questions_is_the_real_one() -> None:
    run(ASKED)


def test_a_part_of_the_compiler_is_loaded_once() -> None:
    run(PART)
