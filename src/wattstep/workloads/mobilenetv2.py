"""MobileNetV2 on images: trained in full, in its last layer alone, or in its biases alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from wattstep.records.workload import Preparation, Published, Training, WorkloadFacts
from wattstep.workloads.data.cifar10 import DEVIATION, MEAN, read_images
from wattstep.workloads.supervised import (
    SupervisedTraining,
    build_on,
    encode_images,
    trainable,
)

# Expansion, output channels, blocks and stride of the first block (table 2 of the paper).
STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
LAST = 1280
# Biases shift what frozen layers hand on, and no normalisation of the batch takes that back.
RATES = {"everything": 0.05, "last layer": 0.05, "biases": 0.01}
# Images whose statistics a frozen backbone normalises by.
SETTLED_ON = 8

Tuned = Literal["everything", "biases", "last layer"]


def _conv_norm(
    inputs: int, outputs: int, kernel: int, *, stride: int = 1, groups: int = 1
) -> tuple[nn.Module, nn.Module]:
    return (
        nn.Conv2d(
            inputs, outputs, kernel, stride=stride, padding=kernel // 2, groups=groups, bias=False
        ),
        nn.BatchNorm2d(outputs),
    )


class InvertedResidual(nn.Module):
    """Widens, filters each channel by itself, and narrows without an activation at the end."""

    def __init__(self, inputs: int, outputs: int, *, stride: int, expansion: int) -> None:
        super().__init__()
        wide = expansion * inputs
        self.expand = (
            nn.Sequential(*_conv_norm(inputs, wide, 1), nn.ReLU6(inplace=True))
            if expansion > 1
            else nn.Identity()
        )
        self.depthwise = nn.Sequential(
            *_conv_norm(wide, wide, 3, stride=stride, groups=wide), nn.ReLU6(inplace=True)
        )
        self.project = nn.Sequential(*_conv_norm(wide, outputs, 1))
        self.has_shortcut = stride == 1 and inputs == outputs

    def forward(self, features: Tensor) -> Tensor:
        """(B, inputs, H, W) to (B, outputs, H / stride, W / stride)."""
        out: Tensor = self.project(self.depthwise(self.expand(features)))
        return features + out if self.has_shortcut else out


class MobileNetV2(nn.Module):
    """MobileNet of inverted residuals.

    Source: Sandler et al., arXiv 1801.04381, table 2.

    Args:
        classes: That it tells apart.
        tuned: What trains. Anything else is frozen, and its batch normalisation keeps its
            statistics even in training mode. The biases are those of the batch normalisations
            (no convolution has any), and the last layer trains with them, as in TinyTL (Cai et
            al., arXiv 2007.11622). TinyTL also saves the memory of what only frozen weights
            need; torch keeps the inputs of frozen convolutions all the same (Bhatia and Dangel,
            arXiv 2404.12406).
    """

    def __init__(self, *, classes: int = 10, tuned: Tuned = "everything") -> None:
        super().__init__()
        channels = 32
        self.features = nn.Sequential(
            nn.Sequential(*_conv_norm(3, channels, 3, stride=2), nn.ReLU6(inplace=True))
        )
        for expansion, outputs, blocks, stride in STAGES:
            for number in range(blocks):
                self.features.append(
                    InvertedResidual(
                        channels, outputs, stride=1 if number else stride, expansion=expansion
                    )
                )
                channels = outputs
        self.features.append(nn.Sequential(*_conv_norm(channels, LAST, 1), nn.ReLU6(inplace=True)))
        self.classifier = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(LAST, classes)
        )
        self.apply(_initialise)
        self._frozen = tuned != "everything"
        if self._frozen:
            _freeze(self.features, but_biases=tuned == "biases")

    def forward(self, images: Tensor) -> Tensor:
        """Scores (B, classes) of images (B, 3, H, W)."""
        scores: Tensor = self.classifier(self.features(images))
        return scores

    def train(self, mode: bool = True) -> MobileNetV2:
        """Training mode, of which frozen features know nothing."""
        super().train(mode)
        if self._frozen:
            self.features.eval()
        return self

    def settle(self, images: Tensor) -> None:
        """Takes the statistics of the batch normalisations from images (B, 3, H, W).

        Weights that were learnt would bring theirs along; random ones have none, and would
        let the signal fade from layer to layer.
        """
        norms = [each for each in self.features.modules() if isinstance(each, nn.BatchNorm2d)]
        momenta = [each.momentum for each in norms]
        for each in norms:
            each.momentum = 1.0
        with torch.no_grad():
            self.features.train()(images)
        for each, momentum in zip(norms, momenta, strict=True):
            each.momentum = momentum
        self.train(self.training)


def _freeze(features: nn.Module, *, but_biases: bool) -> None:
    features.requires_grad_(False)
    if but_biases:
        for name, parameter in features.named_parameters():
            parameter.requires_grad_(name.endswith("bias"))


def _initialise(module: nn.Module) -> None:
    """After He et al., arXiv 1502.01852."""
    if isinstance(module, nn.Conv2d):
        nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    elif isinstance(module, nn.Linear):
        nn.init.normal_(module.weight, std=0.01)
        nn.init.zeros_(module.bias)


def _facts(name: str, title: str, task: str) -> WorkloadFacts:
    return WorkloadFacts(
        name=name,
        title=title,
        domain="computer vision",
        task=task,
        dominant_layer="conv",
        dataset="CIFAR-10",
        input_shape=(3, 224, 224),
        source="Sandler et al., MobileNetV2: Inverted residuals and linear bottlenecks, "
        "arXiv 1801.04381",
        published=Published(classes=1000, image_size=224),
        classes=10,
        image_size=224,
        # The last feature map, a 32th, must have more than one pixel to normalise over.
        least_image_size=33,
    )


@dataclass(frozen=True, kw_only=True)
class MobileNetV2Workload:
    """MobileNetV2 with stochastic gradient descent; CIFAR-10's images are enlarged.

    Nothing is downloaded: what is frozen are random weights. They cost what learnt ones would,
    in time, energy and memory; they reach less accuracy.
    """

    facts: WorkloadFacts
    tuned: Tuned

    def build(self, *, classes: int | None, image_size: int | None) -> MobileNetV2:
        """As `Workload.build`; the images' size changes no parameter."""
        return MobileNetV2(classes=classes or 10, tuned=self.tuned)

    def prepare(self, preparation: Preparation) -> Training:
        """As `Workload.prepare`; seeds torch's own generator, of which dropout draws, too."""
        model = build_on(self, preparation)
        size = preparation.image_size_for(self.facts)
        samples = read_images(preparation.data_dir)
        encode = encode_images(mean=MEAN, deviation=DEVIATION, size=size)
        if isinstance(model, MobileNetV2) and self.tuned != "everything":
            step = max(1, len(samples.inputs) // SETTLED_ON)
            model.settle(encode(torch.from_numpy(samples.inputs[::step][:SETTLED_ON].copy())))
        return SupervisedTraining(
            samples=samples,
            model=model,
            optimizer=torch.optim.SGD(
                trainable(model),
                lr=preparation.rate(RATES[self.tuned], at_batch=256),
                momentum=0.9,
                weight_decay=4e-5,
            ),
            encode=encode,
            preparation=preparation,
        )


FULL = MobileNetV2Workload(
    facts=_facts("mobilenetv2", "MobileNetV2", "image classification"), tuned="everything"
)
LAST_LAYER = MobileNetV2Workload(
    facts=_facts(
        "mobilenetv2-last-layer",
        "MobileNetV2, last layer only",
        "image classification, fine-tuning of the classifier on frozen (random) features",
    ),
    tuned="last layer",
)
BIAS_ONLY = MobileNetV2Workload(
    facts=_facts(
        "mobilenetv2-bias-only",
        "MobileNetV2, biases only",
        "image classification, fine-tuning of biases and classifier on frozen (random) weights",
    ),
    tuned="biases",
)
