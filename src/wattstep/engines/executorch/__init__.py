"""ExecuTorch: torch's runtime for phones and microcontrollers, on its portable kernels."""
