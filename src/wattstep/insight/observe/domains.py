"""Domains of workloads, and the recurrent ones, by name: known here without loading a framework."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

VISION: Final = "computer vision"
LANGUAGE: Final = "language"
SPEECH: Final = "speech recognition"

_NAMES: Final = {
    VISION: (
        "alexnet", "alexnet-224", "densenet100", "densenet40", "googlenet", "inceptionv1", "lenet",
        "mlp", "mlp-16", "mlp-16-deep", "mlp-256", "mobilenetv1-vww", "mobilenetv2", "mobilenetv2-bias-only", "mobilenetv2-last-layer",
        "mobilenetv3-small", "resnet101", "resnet152", "resnet50", "resnet8", "squeezenet",
        "squeezenet-224", "ssdlite", "vgg16", "vgg19", "vit-tiny", "xception",
    ),
    LANGUAGE: ("bert", "char-cnn", "gpt", "lora", "seq2seq"),
    SPEECH: ("ds-cnn", "whisper-tiny"),
    "image generation": ("dcgan",),
    "robotics control": ("dqn",),
    "sound": ("autoencoder",),
}  # fmt: skip
# The application domain of each workload, in the words of its own facts.
DOMAINS: Final[Mapping[str, str]] = MappingProxyType(
    {name: domain for domain, names in _NAMES.items() for name in names}
)
# Those whose dominant layer is an LSTM, alone or beside convolutions.
RECURRENT: Final = frozenset({"char-cnn", "seq2seq"})
