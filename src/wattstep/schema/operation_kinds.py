"""Kind of an operation by its name."""

from __future__ import annotations

import re
from typing import Final

WORKER_WAIT: Final = (
    "wattstep::wait"  # of a plan's worker for another one; a scope: it computes nothing
)

DENSE: Final = ("convolution", "matrix product", "attention", "recurrent")

# The first pattern that is found in the name decides.
_KINDS = (
    # Kernels that torch.compile makes are named by how they loop, then by all that was fused.
    ("elementwise", r"^triton_(poi|for)_"),
    ("reduction", r"^triton_(red|per)_"),
    ("optimizer", r"_foreach_|\b_fused_(adamw?|sgd|adagrad)_?\b|Optimizer\."),
    ("convolution", r"conv"),
    ("recurrent", r"lstm|gru|rnn"),
    ("attention", r"scaled_dot_product|attention|_fused_sdp"),
    (
        "matrix product",
        r"::(addmm|mm|bmm|baddbmm|matmul|linear|mv|dot|einsum)\b|^(Addmm|Mm|Bmm|Linear)Back",
    ),
    ("normalization", r"norm(?!al(_|\b))"),  # random numbers of a normal distribution are none
    ("pooling", r"pool"),
    ("embedding", r"embedding"),
    ("loss", r"loss|nll|cross_entropy|softmax"),
    (
        "activation",
        r"relu|gelu|sigmoid|tanh|silu|elu|threshold|dropout",
    ),
    ("reduction", r"::(sum|mean|amax|amin|max|min|argmax|norm)\b|^(Sum|Mean)Back"),
    (
        "data movement",
        r"copy|contiguous|::(to|cat|stack|clone|index|select|slice|view|reshape|permute|transpose|t|"
        r"expand|empty|resize|as_strided|zeros|detach|fill|zero)_?\b|"
        r"(View|Cat|Index|Select|Slice|Permute|Transpose|T|Expand|Clone|Unsafe\w+)Backward",
    ),
    ("gradient accumulation", r"AccumulateGrad"),
    (
        "elementwise",
        r"::(add|sub|mul|div|pow|sqrt|exp|log|neg|lerp|addc\w+|clamp|where|eq|ne|gt|lt|ge|le)_?\b|"
        r"^(Add|Sub|Mul|Div|Pow|Sqrt|Exp|Log|Neg)Backward",
    ),
)
_COMPILED = tuple((kind, re.compile(pattern, re.IGNORECASE)) for kind, pattern in _KINDS)


def kind_of(name: str) -> str:
    """The kind of an operation: "convolution", "matrix product", ..., else "other"."""
    for kind, pattern in _COMPILED:
        if pattern.search(name):
            return kind
    return "other"
