"""How a training on OpenCL moves its values between host and device."""

from typing import Final

COPYING: Final = "copying"  # inputs and outputs of every operation cross
RESIDENT: Final = "resident"  # batches and the loss cross
FUSED: Final = "fused"  # likewise, with joined kernels, shared memory, and copies beside them
MODES: Final = (COPYING, RESIDENT, FUSED)
