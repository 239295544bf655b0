"""OpenCL devices: what there is, their clocks, programs, and products of matrices that are tuned to them."""
