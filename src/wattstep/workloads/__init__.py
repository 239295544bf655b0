"""The workloads: what is trained, by name; a framework is loaded only when one is asked for."""

from __future__ import annotations

import difflib

from wattstep.errors import InvalidValueError
from wattstep.parts import load_part
from wattstep.records.workload import Workload

# Adding a workload: its file here, its line below, its line in tests/workloads.
WORKLOADS: dict[str, str] = {
    "alexnet": "wattstep.workloads.alexnet:ALEXNET",
    "alexnet-224": "wattstep.workloads.alexnet:ALEXNET_224",
    "autoencoder": "wattstep.workloads.autoencoder:WORKLOAD",
    "bert": "wattstep.workloads.bert:WORKLOAD",
    "char-cnn": "wattstep.workloads.char_cnn:WORKLOAD",
    "dcgan": "wattstep.workloads.dcgan:DCGAN",
    "densenet100": "wattstep.workloads.densenet:DENSENET100",
    "densenet40": "wattstep.workloads.densenet:DENSENET40",
    "dqn": "wattstep.workloads.dqn:WORKLOAD",
    "ds-cnn": "wattstep.workloads.ds_cnn:WORKLOAD",
    "googlenet": "wattstep.workloads.googlenet:GOOGLENET",
    "gpt": "wattstep.workloads.gpt:WORKLOAD",
    "inceptionv1": "wattstep.workloads.googlenet:INCEPTIONV1",
    "lenet": "wattstep.workloads.lenet:WORKLOAD",
    "lora": "wattstep.workloads.lora:WORKLOAD",
    "mobilenetv1-vww": "wattstep.workloads.mobilenetv1:WORKLOAD",
    "mobilenetv2": "wattstep.workloads.mobilenetv2:FULL",
    "mobilenetv2-bias-only": "wattstep.workloads.mobilenetv2:BIAS_ONLY",
    "mobilenetv2-last-layer": "wattstep.workloads.mobilenetv2:LAST_LAYER",
    "mobilenetv3-small": "wattstep.workloads.mobilenetv3:WORKLOAD",
    "resnet101": "wattstep.workloads.resnet:RESNET101",
    "resnet152": "wattstep.workloads.resnet:RESNET152",
    "resnet50": "wattstep.workloads.resnet:RESNET50",
    "resnet8": "wattstep.workloads.resnet8:WORKLOAD",
    "seq2seq": "wattstep.workloads.seq2seq:WORKLOAD",
    "squeezenet": "wattstep.workloads.squeezenet:SQUEEZENET",
    "squeezenet-224": "wattstep.workloads.squeezenet:SQUEEZENET_224",
    "ssdlite": "wattstep.workloads.ssdlite:WORKLOAD",
    "vgg16": "wattstep.workloads.vgg:VGG16",
    "vgg19": "wattstep.workloads.vgg:VGG19",
    "vit-tiny": "wattstep.workloads.vit:WORKLOAD",
    "whisper-tiny": "wattstep.workloads.whisper:WORKLOAD",
    "xception": "wattstep.workloads.xception:XCEPTION",
}


def names() -> tuple[str, ...]:
    """The names that `find` knows, sorted."""
    return tuple(sorted(WORKLOADS))


def find(name: str) -> Workload:
    """The workload of that name; loads the framework that it trains on.

    Raises:
        InvalidValueError: There is no such workload.
        MissingPartError: The framework is not installed.
    """
    check_name(name)
    module, _, attribute = WORKLOADS[name].partition(":")
    workload: Workload = getattr(load_part(module), attribute)
    return workload


def check_name(name: str) -> None:
    """Refuses a name that `find` does not know, without loading anything.

    Raises:
        InvalidValueError: There is no such workload.
    """
    if name not in WORKLOADS:
        raise InvalidValueError(_unknown(name))


def _unknown(name: str) -> str:
    close = difflib.get_close_matches(name.lower(), names(), n=1)
    hint = f"; did you mean {close[0]}?" if close else ""
    return f"no workload is called {name!r}{hint} (there are: {', '.join(names())})"
