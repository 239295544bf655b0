"""Classification of small colour images: what the networks of computer vision have in common."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn
from torch.optim import Optimizer

from wattstep.records.workload import Preparation, Training, Workload
from wattstep.workloads.data.cifar10 import DEVIATION, MEAN, read_images
from wattstep.workloads.supervised import SupervisedTraining, build_on, encode_images


def classify_images(
    workload: Workload, preparation: Preparation, optimizer: Callable[[nn.Module], Optimizer]
) -> Training:
    """The training of a network that tells the classes of CIFAR-10 (or its stand-in) apart.

    Seeds torch's own generator, of which weights and dropout draw.

    Args:
        workload: Builds the network.
        preparation: How; images are resampled to its size.
        optimizer: Makes the optimizer of the network.

    Raises:
        InvalidValueError: The data there cannot be read, or a setting does not fit.
        MissingPartError: A library that reads the stand-in is not installed.
    """
    model = build_on(workload, preparation)
    size = preparation.image_size_for(workload.facts)
    return SupervisedTraining(
        samples=read_images(preparation.data_dir),
        model=model,
        optimizer=optimizer(model),
        encode=encode_images(mean=MEAN, deviation=DEVIATION, size=size),
        preparation=preparation,
    )
