"""A training step of torch as a graph of its operations, carried out by a plan of where each runs."""
