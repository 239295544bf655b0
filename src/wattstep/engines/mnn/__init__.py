"""The engine mnn: MNN trains one graph of forward pass, backward pass and update."""
