"""SSDLite with MobileNetV3-Large: a single-shot detector of about 3 million parameters."""

from __future__ import annotations

import itertools
import math
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional

from wattstep.workloads.data.detection import CLASSES
from wattstep.workloads.torch.blocks import RELU6, conv_norm
from wattstep.workloads.torch.mobilenetv3 import LARGE_FOR_DETECTION, Bottleneck, stack

# Channels of the maps that are added to the backbone's two.
EXTRA = (512, 256, 256, 128)
MAPS = 2 + len(EXTRA)
SHAPES = 6  # anchors at each place
LEAST, LARGEST = 0.2, 0.95  # their sizes on the first and the last map
ASPECTS = (2.0, 3.0)
STRIDE = 16  # of the first map
OVERLAP = 0.5
NEGATIVES = 3  # for each positive
# By which offsets are divided, so that they have about unit spread (Liu et al.'s code).
SPREAD = (0.1, 0.1, 0.2, 0.2)


class Norm(nn.BatchNorm2d):
    """Batch normalisation that can train on a single value: then with the running statistics.

    The last map is one pixel, and a batch may be one sample; one value has no spread.
    """

    def forward(self, features: Tensor) -> Tensor:
        """(B, channels, H, W), normalised over all but the channels."""
        if features[:, 0].numel() > 1 or not self.training:
            return super().forward(features)
        return functional.batch_norm(
            features, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps
        )


_conv_norm = partial(conv_norm, norm=partial(Norm, eps=1e-3), activation=RELU6)


def _halve(inputs: int, outputs: int) -> nn.Sequential:
    """The next, smaller map."""
    middle = outputs // 2
    return nn.Sequential(
        _conv_norm(inputs, middle, 1),
        _conv_norm(middle, middle, 3, stride=2, groups=middle),
        _conv_norm(middle, outputs, 1),
    )


def _predictor(channels: int, outputs: int) -> nn.Sequential:
    """SSDLite's block: a depthwise and a 1×1 convolution in place of SSD's 3×3 one."""
    return nn.Sequential(
        _conv_norm(channels, channels, 3, groups=channels), nn.Conv2d(channels, outputs, 1)
    )


class SsdLite(nn.Module):
    """SSDLite on six maps: the widened input of the last stride's bottleneck, the backbone's
    end, and four smaller ones.

    Source: Liu et al., SSD, arXiv 1512.02325; Sandler et al., arXiv 1801.04381, section 6.2
    (SSDLite); Howard et al., arXiv 1905.02244, section 6.3 (on MobileNetV3); extra maps and
    anchors as in torchvision's ssdlite320_mobilenet_v3_large.

    Args:
        classes: Kinds of objects; the background is one more.
    """

    def __init__(self, *, classes: int = CLASSES) -> None:
        super().__init__()
        layers = list(stack(LARGE_FOR_DETECTION))
        last_stride = max(n for n, row in enumerate(LARGE_FOR_DETECTION, 1) if row.stride > 1)
        bottleneck = layers[last_stride]
        assert isinstance(bottleneck, Bottleneck)
        self.backbone = nn.ModuleList(
            (
                nn.Sequential(*layers[:last_stride], bottleneck.expand),
                nn.Sequential(bottleneck.shrink, *layers[last_stride + 1 :]),
            )
        )
        channels = [LARGE_FOR_DETECTION[last_stride - 1].wide, 6 * LARGE_FOR_DETECTION[-1].out]
        self.extra = nn.ModuleList()
        for outputs in EXTRA:
            self.extra.append(_halve(channels[-1], outputs))
            channels.append(outputs)
        self.boxes = nn.ModuleList(_predictor(each, 4 * SHAPES) for each in channels)
        self.scores = nn.ModuleList(_predictor(each, (classes + 1) * SHAPES) for each in channels)
        self.apply(_initialise)

    def forward(self, images: Tensor) -> Tensor:
        """For each anchor of images (B, 3, H, W), its offset and scores (B, anchors, 5 + classes).

        Offsets are in the terms of `encode_boxes`; the background has the first score.
        """
        features, predictions = images, []
        maps = (*self.backbone, *self.extra)
        for layer, boxes, scores in zip(maps, self.boxes, self.scores, strict=True):
            features = layer(features)
            predictions.append(
                torch.cat((_spread(boxes(features)), _spread(scores(features))), dim=2)
            )
        return torch.cat(predictions, dim=1)


def _spread(predictions: Tensor) -> Tensor:
    """(B, 6 · K, H, W) to (B, H · W · 6, K)."""
    batch, channels, height, width = predictions.shape
    return predictions.permute(0, 2, 3, 1).reshape(
        batch, height * width * SHAPES, channels // SHAPES
    )


def _initialise(module: nn.Module) -> None:
    """Small normal weights, as the reference has for training from random ones."""
    if isinstance(module, nn.Conv2d):
        nn.init.normal_(module.weight, std=0.03)
        if module.bias is not None:
            nn.init.zeros_(module.bias)


def make_anchors(image_size: int) -> Tensor:
    """The anchors (A, 4) of an image: centre, width and height, as shares of the picture.

    Sizes grow evenly from map to map; each place has two squares, the second between this map's
    size and the next one's, and upright and lying ones of aspect 2 and 3 (Liu et al., section
    2.2, equation 4).
    """
    sizes = [LEAST + (LARGEST - LEAST) * n / (MAPS - 1) for n in range(MAPS)] + [1.0]
    side = math.ceil(image_size / STRIDE)
    anchors = []
    for size, following in itertools.pairwise(sizes):
        shapes = torch.tensor(_shapes(size, following)).clamp(max=1.0)
        middle = (torch.arange(side) + 0.5) / side
        top, left = torch.meshgrid(middle, middle, indexing="ij")
        centres = torch.stack((left, top), dim=-1).reshape(-1, 1, 2).expand(-1, SHAPES, 2)
        anchors.append(
            torch.cat((centres, shapes.expand(side * side, -1, -1)), dim=2).flatten(0, 1)
        )
        side = math.ceil(side / 2)
    return torch.cat(anchors)


def _shapes(size: float, following: float) -> list[tuple[float, float]]:
    between = math.sqrt(size * following)
    pairs = [(size * math.sqrt(aspect), size / math.sqrt(aspect)) for aspect in ASPECTS]
    return [(size, size), (between, between), *pairs, *((high, wide) for wide, high in pairs)]


def to_centres(corners: Tensor) -> Tensor:
    """Boxes (..., 4) of left, top, right and bottom as centre, width and height."""
    start, end = corners[..., :2], corners[..., 2:]
    return torch.cat(((start + end) / 2, end - start), dim=-1)


def overlaps(boxes: Tensor, anchors: Tensor) -> Tensor:
    """Intersection over union (..., N, A) of boxes (..., N, 4) and anchors (A, 4), as centres."""
    boxes, anchors = boxes[..., :, None, :], anchors[None]
    start = torch.maximum(
        boxes[..., :2] - boxes[..., 2:] / 2, anchors[..., :2] - anchors[..., 2:] / 2
    )
    end = torch.minimum(
        boxes[..., :2] + boxes[..., 2:] / 2, anchors[..., :2] + anchors[..., 2:] / 2
    )
    shared = (end - start).clamp(min=0).prod(dim=-1)
    return shared / (boxes[..., 2:].prod(dim=-1) + anchors[..., 2:].prod(dim=-1) - shared)


def encode_boxes(boxes: Tensor, anchors: Tensor) -> Tensor:
    """Regression targets (..., A, 4): the way from each anchor to the box it answers for."""
    places = (boxes[..., :2] - anchors[:, :2]) / anchors[:, 2:]
    sizes = torch.log(boxes[..., 2:] / anchors[:, 2:])
    return torch.cat((places, sizes), dim=-1) / torch.tensor(SPREAD, device=boxes.device)


def match(boxes: Tensor, anchors: Tensor) -> Tensor:
    """The object (B, A) that each anchor answers for, or -1 for none.

    It is the one that it overlaps most, if by more than half; and each object has the anchor
    that overlaps it most, however little (Liu et al., section 2.2, "Matching strategy").

    Args:
        boxes: (B, objects, 4) as centres.
        anchors: (A, 4).
    """
    shared = overlaps(boxes, anchors)
    most, objects = shared.max(dim=1)
    objects[most <= OVERLAP] = -1
    best = shared.argmax(dim=2)
    for number in range(boxes.shape[1]):
        objects.scatter_(1, best[:, number : number + 1], number)
    return objects


class DetectionLoss:
    """Smooth L1 of the boxes and cross entropy of the classes, a mean over matched anchors.

    Of the anchors that answer for nothing, the three worst for each that does are counted (Liu
    et al., section 2.2, "Hard negative mining").

    Args:
        image_size: Height and width of what the model sees.
        side: Of the scene that the targets' boxes are measured in, in pixels.
    """

    def __init__(self, *, image_size: int, side: int) -> None:
        self._anchors = make_anchors(image_size)
        self._side = side

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The loss of outputs (B, A, 5 + classes) and targets (B, objects, 5)."""
        anchors = self._anchors.to(targets.device)
        boxes = to_centres(targets[..., 1:] / self._side)
        objects = match(boxes, anchors)
        positive = objects >= 0
        chosen = objects.clamp(min=0)
        mine = boxes.gather(1, chosen[..., None].expand(-1, -1, 4))
        wanted = encode_boxes(mine, anchors)
        distance = functional.smooth_l1_loss(
            outputs[..., :4][positive], wanted[positive], reduction="sum"
        )
        classes = torch.where(positive, targets[..., 0].gather(1, chosen) + 1, 0)
        surprise = functional.cross_entropy(
            outputs[..., 4:].transpose(1, 2), classes, reduction="none"
        )
        counted = positive | hardest(surprise.detach(), positive)
        return (distance + surprise[counted].sum()) / positive.sum()


def hardest(surprise: Tensor, positive: Tensor) -> Tensor:
    """Mask of anchors (B, A) that are counted though they answer for nothing: three for each that does.

    Args:
        surprise: (B, A), the cross entropy of each.
        positive: (B, A), which answer for an object.
    """
    worst = surprise.masked_fill(positive, -math.inf).argsort(dim=1, descending=True)
    rank = worst.argsort(dim=1)
    return ~positive & (rank < NEGATIVES * positive.sum(dim=1, keepdim=True))
