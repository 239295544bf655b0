"""The suite's table in the paper (its Table II), row by row, with what is wrong in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

PAPER: Final = (
    "Liu et al., Performance analysis and characterization of training deep learning models on "
    "mobile devices, arXiv 1906.04278, table II"
)
STARTS_NOT = "never starts"
A_FEW_STEPS = "a few steps, then crashes"


@dataclass(frozen=True, kw_only=True)
class PaperRow:
    """Row of the table as printed.

    Attributes:
        layers: "#Layers".
        dominant_layer: "Dominant layer".
        flops: "#Flops"; "N/A" where the paper has none.
        parameters: "#Parameters".
        dataset: "Training dataset".
        trains: "yes", or how the text says that it fails on the board of 8 GB.
        errors: Where the row cannot be right, and why; empty where it can.
    """

    layers: int
    dominant_layer: str
    flops: str
    parameters: str
    dataset: str = "CIFAR-10"
    trains: str = "yes"
    errors: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready, with the paper's name."""
        return {"paper": PAPER, **asdict(self)}


def _size(printed: str, megabytes: float, count: str) -> str:
    return (
        f"{printed} is the size of the weights in MB (4 bytes each: {megabytes:.1f} MiB), "
        f"not their number, which is {count}"
    )


# fmt: off
TABLE: Final[Mapping[str, PaperRow]] = {
    "densenet40": PaperRow(
        layers=40, dominant_layer="CONV", flops="30M", parameters="1M",
        errors=("30M operations do not fit the network: a forward pass of one image of 32×32 "
                "takes 0.53 G (multiply-adds counted as two)",),
    ),
    "resnet50": PaperRow(
        layers=50, dominant_layer="CONV", flops="4G", parameters="98M",
        errors=(_size("98M", 97.5, "25.6 M"),
                "4G is the count at 224×224 (4.09 G) in multiply-adds, not at CIFAR-10's 32×32"),
    ),
    "squeezenet": PaperRow(
        layers=40, dominant_layer="CONV", flops="837M", parameters="5M",
        errors=("it has 26 convolutions, not 40 layers",
                _size("5M", 4.8, "1.2 M"),
                "837M is near the count at 224×224 in multiply-adds, not at CIFAR-10's 32×32"),
    ),
    "vgg16": PaperRow(
        layers=16, dominant_layer="CONV", flops="4G", parameters="134M",
        errors=("134M is the count with 10 classes (138.4 M with ImageNet's 1000)",
                "4G fits neither 224×224 (15.5 G multiply-adds) nor 32×32"),
    ),
    "xception": PaperRow(
        layers=39, dominant_layer="CONV", flops="N/A", parameters="23M",
        errors=("Chollet's network has 36 layers of convolution, not 39",),
    ),
    "inceptionv1": PaperRow(
        layers=22, dominant_layer="CONV", flops="30M", parameters="5M",
        errors=("5M parameters are too few: 6.0 M with 10 classes, 7.0 M with 1000; 30M operations "
                "fit 32×32 in multiply-adds (32.3 M here)",),
    ),
    "char-cnn": PaperRow(
        layers=2, dominant_layer="LSTM+CONV", flops="23M", parameters="1M", dataset="Shakespeare",
        errors=("2 counts the layers of the LSTM alone; for what text length 23M holds is not "
                "said (ours takes 2.0 M a character, multiply-adds counted as two)",),
    ),
    "dcgan": PaperRow(
        layers=40, dominant_layer="CONV", flops="30M", parameters="1M",
        errors=("a DCGAN has 8 to 10 layers with weights (13 with normalisation), not 40",
                "1M parameters fit the generator at 32×32 alone (1.07 M); both networks have "
                "1.7 M, and 6.3 M at the published 64×64",
                "which pass 30M counts is not said: ours counts those of both networks in both "
                "updates"),
    ),
    "dqn": PaperRow(
        layers=4, dominant_layer="CONV", flops="N/A", parameters="N/A", dataset="Atari 2600 games",
        errors=("the network of Mnih et al. 2015 has 5 layers, that of 2013 has 4",),
    ),
    "alexnet": PaperRow(layers=8, dominant_layer="CONV", flops="727M", parameters="60M",
        errors=("727M is near the count at 224×224 in multiply-adds, not at CIFAR-10's 32×32",),
    ),
    "vgg19": PaperRow(
        layers=19, dominant_layer="CONV", flops="20G", parameters="548M", trains=STARTS_NOT,
        errors=(_size("548M", 548.1, "143.7 M"),
                "20G is the count at 224×224 (19.6 G) in multiply-adds, not at CIFAR-10's 32×32"),
    ),
    "bert": PaperRow(
        layers=12, dominant_layer="Embedding", flops="N/A", parameters="110M", dataset="SQuAD",
        trains=STARTS_NOT,
        errors=("the embedding takes little time: the linear layers of the encoder dominate",),
    ),
    "resnet101": PaperRow(
        layers=101, dominant_layer="CONV", flops="8G", parameters="155M", trains=STARTS_NOT,
        errors=("155M fits neither the number of weights (44.5 M) nor their size (170 MiB)",
                "8G is the count at 224×224 (7.8 G) in multiply-adds, not at CIFAR-10's 32×32"),
    ),
    "resnet152": PaperRow(
        layers=152, dominant_layer="CONV", flops="11G", parameters="220M", trains=STARTS_NOT,
        errors=("220M fits neither the number of weights (60.2 M) nor quite their size (230 MiB)",
                "11G is the count at 224×224 (11.5 G) in multiply-adds, not at CIFAR-10's 32×32"),
    ),
    "densenet100": PaperRow(
        layers=100, dominant_layer="CONV", flops="31M", parameters="7M", trains=A_FEW_STEPS,
        errors=("31M operations do not fit the network, which takes 3.5 G at 32×32 (multiply-adds counted as two)",),
    ),
    "seq2seq": PaperRow(
        layers=2, dominant_layer="LSTM", flops="28G", parameters="348M", dataset="IWSLT15",
        trains=A_FEW_STEPS,
        errors=("348M parameters are too many for two layers of 512 units and the vocabularies of "
                "IWSLT'15 (see ours)",),
    ),
}
# fmt: on
