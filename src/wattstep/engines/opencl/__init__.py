"""The engine on OpenCL: forward pass, backward pass and update as kernels of our own, on any OpenCL device."""
