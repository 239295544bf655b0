import time

import torch.nn.modules.module  # noqa: F401
from torch.autograd import profiler
from torch.nn.modules.module import Module
from torch.tensor import Tensor, is_grad_enabled

WORK_S = 0.001


class Leaf(Module):
    def __init__(self, parameters=0):
        super().__init__()
        self.own = [Tensor(requires_grad=True) for _ in range(parameters)]

    def work(self):
        end = time.monotonic() + WORK_S
        while time.monotonic() < end:
            pass

    def forward(self, given):
        with profiler.operation(type(self).__name__):
            self.work()
        gradients = is_grad_enabled() and (given.requires_grad or bool(self.own))
        output = Tensor(given.shape[0], gradients)
        output.made_by = (self, given, output) if gradients else None
        return output


class Linear(Leaf):
    def __init__(self):
        super().__init__(2)


class ReLU(Leaf):
    pass


class Sequential(Module):
    def __init__(self, *parts):
        super().__init__()
        self.parts = {str(n): part for n, part in enumerate(parts)}

    def forward(self, given):
        for part in self.parts.values():
            given = part(given)
        return given
