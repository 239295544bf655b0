"""The workloads on torch: one model a file, shared blocks, and the training of most of them."""

from __future__ import annotations

from wattstep import workloads
from wattstep.workloads.torch.workload import TorchWorkload

__all__ = ["TorchWorkload", "find"]


def find(name: str) -> TorchWorkload:
    """The workload of that name on torch.

    Raises:
        InvalidValueError: There is no such workload, or it does not train on torch.
    """
    return TorchWorkload(workloads.find(name))
