"""A capture loads no compiler of torch's and no symbols; whatever asks for them gets the real ones, once and for good."""

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
assert "torch._dynamo" not in sys.modules
assert "_dynamo" not in vars(torch)
for name in ("sympy", "torch.fx.experimental.symbolic_shapes", "torch.distributed.tensor"):
    assert name not in sys.modules, name
assert "symbolic_shapes" not in vars(torch.fx.experimental)
"""
COMPILES = """
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
    import torch._dynamo.config
    assert torch._dynamo.graph_break() is None
    light = sys.modules["torch._dynamo"]
    assert light.eval_frame is not None
    import torch._dynamo
    assert sys.modules["torch._dynamo"] is torch._dynamo is not light
    assert torch._dynamo.config.recompile_limit > 0
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
FIRST = """
import sys
import torch
from wattstep.engines.torch.capture import capture
from wattstep.engines.torch.module_workload import ModuleWorkload
from wattstep.schema.workload import ModuleSource, OptimizerSettings, Preparation
class Asks(torch.nn.Linear):
    def forward(self, x):
        assert torch._dynamo.config.recompile_limit > 0
        return super().forward(x)
source = ModuleSource(
    make=lambda: Asks(30, 7), name="", input_shape=(30,), classes=7, optimizer=OptimizerSettings.parse("sgd")
)
family = capture(ModuleWorkload(source), Preparation(batch_size=4))
assert hasattr(sys.modules["torch._dynamo"], "eval_frame")
for each in (family.small, family.large):
    inputs = [size for size, name in zip(each.sizes, each.categories) if name == "input"]
    assert each.batch_size * 30 * 4 in inputs, (each.batch_size, inputs)
assert family.capture is None
"""


NUMBERS = """
import sys
import torch
from wattstep.engines.torch.without_compiler import without_compiler
tensor = torch.zeros(2, 3)
ASKED = {
    "guard_or_false": [(True,), (False,)], "guard_or_true": [(True,), (False,)], "expect_true": [(True,), (False,)],
    "statically_known_true": [(True,), (False,)], "guard_size_oblivious": [(True,), (False,)],
    "sym_and": [(True,), (True, False), (True, True)], "sym_or": [(False,), (True, False), (False, False)],
    "sym_eq": [(3, 3), (3, 4), ((1, 2), [1, 2]), ((1, 2), (1, 3)), ((1, 2), (1,)), (tensor.shape, (2, 3))],
    "is_symbolic": [(3,), (3.5,), (True,)], "is_nested_int": [(3,)], "has_guarding_hint": [(3,)],
    "guarding_hint_or_throw": [(3,), (True,)], "optimization_hint": [(3,)],
    "free_unbacked_symbols": [(3,), (tensor,), ([1, tensor, None],)],
    "has_free_unbacked_symbols": [(3,), (tensor,)], "has_free_symbols": [(3,), (tensor.shape,)],
}
with without_compiler():
    from torch.fx.experimental import symbolic_shapes as light
    import sympy
    Basic, asked, held = sympy.Basic, {name: getattr(light, name) for name in ASKED}, sympy
    told = {name: [asked[name](*each) for each in cases] for name, cases in ASKED.items()}
    assert not isinstance(3, Basic) and not isinstance(3, (str, Basic))
assert "sympy" not in sys.modules
from torch.fx.experimental import symbolic_shapes as real
assert real is not light and light.ShapeEnv is real.ShapeEnv and light.guard_or_false is real.guard_or_false
for name, cases in ASKED.items():
    answers = [getattr(real, name)(*each) for each in cases]
    assert [(type(each) is bool, each) for each in told[name]] == [(type(each) is bool, each) for each in answers], name
import sympy
assert held.Basic is sympy.Basic and held.Symbol is sympy.Symbol
assert isinstance(sympy.Symbol("n"), Basic)
class Of(Basic):
    pass
assert Of.__mro__[1] is sympy.Basic
size = real.ShapeEnv().create_unbacked_symint()
assert asked["is_symbolic"](size) and asked["free_unbacked_symbols"](size)
"""
SYMBOL = """
import sys
import torch
from wattstep.engines.torch.without_compiler import without_compiler
with without_compiler():
    import sympy
    light = sympy
    from sympy.core import Integer
    import sympy
    assert sympy is not light and Integer is sympy.Integer and light.Integer is Integer
    assert sys.modules["torch._dynamo"].graph_break() is None
assert "torch._dynamo" not in sys.modules
"""


def run(script: str) -> None:
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]


def test_a_capture_loads_no_compiler_and_leaves_one_to_be_loaded() -> None:
    run(CAPTURE + COMPILES)


def test_what_is_asked_for_beyond_plain_questions_is_the_real_one() -> None:
    run(ASKED)


def test_numbers_are_told_what_symbolic_shapes_tell_them() -> None:
    run(NUMBERS)


def test_symbols_are_loaded_without_the_compiler() -> None:
    run(SYMBOL)


def test_a_part_of_the_compiler_is_loaded_once() -> None:
    run(PART)


def test_storages_of_the_capture_that_loads_the_compiler() -> None:
    run(FIRST)
