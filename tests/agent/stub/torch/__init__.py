"""A torch of the tests: as much of its surface as the agent touches, with known times, on Python 3.6 and later.

STUB_GPU: there is a GPU. STUB_REFUSED: CUPTI lacks its privilege. STUB_OLD: no torch.profiler.
"""

# ruff: noqa: F401
import os

from torch import autograd, cuda, nn, optim, utils
from torch.tensor import Tensor, is_grad_enabled, no_grad

__version__ = "1.10.0+stub"
if not os.environ.get("STUB_OLD"):
    from torch import profiler


def get_num_threads():
    return 1
