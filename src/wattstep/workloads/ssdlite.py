"""SSDLite with MobileNetV3-Large: a single-shot detector of about 3 million parameters."""

from __future__ import annotations

import itertools
import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from wattstep.records.workload import Preparation, Published, Training, WorkloadFacts
from wattstep.workloads.data.detection import CLASSES, DEVIATION, MEAN, SIDE, read_scenes
from wattstep.workloads.mobilenetv3 import LARGE_FOR_DETECTION, Bottleneck, stack
from wattstep.workloads.supervised import SupervisedTraining, build_on, encode_images

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
RATE = 0.15


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


def _conv_norm(
    inputs: int, outputs: int, kernel: int, *, stride: int = 1, groups: int = 1
) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(
            inputs, outputs, kernel, stride=stride, padding=kernel // 2, groups=groups, bias=False
        ),
        Norm(outputs, eps=1e-3),
        nn.ReLU6(inplace=True),
    )


def _halve(inputs: int, outputs: int) -> nn.Sequential:
    """The next, smaller map."""
    middle = outputs // 2
    return nn.Sequential(
        _conv_norm(inputs, middle, 1),
        _conv_norm(middle, middle, 3, stride=2, groups=middle),
        _conv_norm(middle, outputs, 1),
    )


def _predictor(channels: int, outputs: int) -> nn.Sequential:
    """What SSD does by a 3×3 convolution, SSDLite does by a depthwise and a 1×1 one."""
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
        features, found = images, []
        maps = (*self.backbone, *self.extra)
        for layer, boxes, scores in zip(maps, self.boxes, self.scores, strict=True):
            features = layer(features)
            found.append(torch.cat((_spread(boxes(features)), _spread(scores(features))), dim=2))
        return torch.cat(found, dim=1)


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
    """What is to be learnt (..., A, 4): the way from each anchor to the box it answers for."""
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
    """Which anchors (B, A) that answer for nothing are counted: three for each that does.

    Args:
        surprise: (B, A), the cross entropy of each.
        positive: (B, A), which answer for an object.
    """
    worst = surprise.masked_fill(positive, -math.inf).argsort(dim=1, descending=True)
    rank = worst.argsort(dim=1)
    return ~positive & (rank < NEGATIVES * positive.sum(dim=1, keepdim=True))


class SsdLiteWorkload:
    """SSDLite with stochastic gradient descent; evaluated by its loss (no average precision)."""

    facts = WorkloadFacts(
        name="ssdlite",
        title="SSDLite320 MobileNetV3-Large",
        domain="computer vision",
        task="object detection",
        dominant_layer="conv",
        dataset="COCO",
        input_shape=(3, 320, 320),
        source="Howard et al., Searching for MobileNetV3, arXiv 1905.02244",
        # Of COCO's 90 numbers for kinds of objects; others count the background as the 91st.
        published=Published(classes=90, image_size=320),
        classes=CLASSES,
        image_size=320,
        # The backbone's last map, a 32th, must have more than one pixel to normalise over.
        least_image_size=33,
    )

    def build(self, *, classes: int | None, image_size: int | None) -> SsdLite:
        """As `Workload.build`; classes are kinds of objects, without the background."""
        return SsdLite(classes=classes or CLASSES)

    def prepare(self, preparation: Preparation) -> Training:
        """As `Workload.prepare`; seeds torch's own generator."""
        model = build_on(self, preparation)
        size = preparation.image_size_for(self.facts)
        return SupervisedTraining(
            samples=read_scenes(preparation.data_dir),
            model=model,
            optimizer=torch.optim.SGD(
                model.parameters(),
                lr=preparation.rate(RATE, at_batch=192),
                momentum=0.9,
                weight_decay=4e-5,
            ),
            encode=encode_images(mean=MEAN, deviation=DEVIATION, size=size),
            preparation=preparation,
            criterion=DetectionLoss(image_size=size, side=SIDE),
            classifies=False,
        )


WORKLOAD = SsdLiteWorkload()
