"""The table of parameter counts: every workload at its published configuration, and who says so."""

import pytest

from wattstep.engines.torch.facts import count_published
from wattstep.workloads import names
from wattstep.workloads.torch import find

TORCHVISION = "torchvision's table of weights, num_params of "
TINY = "MLPerf Tiny's reference, less the running statistics that Keras counts as well: "

# Name, classes, image size, parameters, source. Sums worked out by hand from the sizes of layers
# stand in the test files of each kind: test_vision, test_tiny, test_mobile, test_language.
PUBLISHED = [
    ("alexnet", 1000, 224, 61_100_840, TORCHVISION + "AlexNet_Weights.IMAGENET1K_V1"),
    ("alexnet-224", 1000, 224, 61_100_840, TORCHVISION + "AlexNet_Weights.IMAGENET1K_V1"),
    ("autoencoder", None, None, 269_992 - 2 * 1_032, TINY + "269,992"),
    # 109,482,240 with the pooler (768² + 768), which question answering leaves out, and without
    # the two scores (2·769).
    (
        "bert", None, None, 109_482_240 - 590_592 + 1_538,
        "Devlin et al., arXiv 1810.04805, section 3: 110 M; exact: BertModel of transformers",
    ),
    (
        "char-cnn", None, None, 1_003_776,
        "ours, after Kim et al., arXiv 1508.06615; the TX2 paper, table II: 1M",
    ),
    ("dcgan", None, 64, 3_576_704 + 2_765_568, "PyTorch's DCGAN tutorial, both networks"),
    ("densenet100", 10, 32, 6_979_642, "Huang et al., arXiv 1608.06993, table 2: 7.0 M"),
    ("densenet40", 10, 32, 1_019_722, "Huang et al., arXiv 1608.06993, table 2: 1.0 M"),
    ("dqn", None, None, 1_687_206, "Mnih et al. 2015, Model architecture, six actions"),
    ("ds-cnn", 12, None, 24_908 - 2 * 576, TINY + "24,908"),
    ("googlenet", 1000, 224, 6_998_552, "Szegedy et al., arXiv 1409.4842, table 1, with biases"),
    # nanoGPT's character model has 65 characters and leaves the places out of its count: 10.65 M.
    (
        "gpt", None, None, 10_646_784 + (128 - 65) * 384 + 256 * 384,
        "nanoGPT's README: 10.65 M for 65 characters, places left out",
    ),
    ("inceptionv1", 1000, 224, 6_998_552, "Szegedy et al., arXiv 1409.4842, table 1, with biases"),
    ("lenet", 10, None, 61_706, "LeCun et al. 1998, with full connections in C3"),
    # GPT-2 small has 124,439,808; of 12 layers, rank 8 · (768 + 2304) each.
    ("lora", None, None, 124_439_808 + 12 * 8 * 3_072, "Radford et al. 2019 and Hu et al. 2021"),
    ("mlp", 16, None, 784 * 256 + 256 * 128 + 128 * 16 + 400, "Das et al., arXiv 2202.10100"),
    ("mlp-16", 16, None, 16 * 16 + 16, "Das et al., arXiv 2202.10100"),
    ("mlp-16-deep", 16, None, 3 * (16 * 16 + 16), "Das et al., arXiv 2202.10100"),
    ("mlp-256", 256, None, 256 * 256 + 256, "Das et al., arXiv 2202.10100"),
    ("mobilenetv1-vww", 2, 96, 221_794 - 2 * 2_736, TINY + "221,794"),
    ("mobilenetv2", 1000, 224, 3_504_872, TORCHVISION + "MobileNet_V2_Weights"),
    ("mobilenetv2-bias-only", 1000, 224, 3_504_872, TORCHVISION + "MobileNet_V2_Weights"),
    ("mobilenetv2-last-layer", 1000, 224, 3_504_872, TORCHVISION + "MobileNet_V2_Weights"),
    ("mobilenetv3-small", 1000, 224, 2_542_856, TORCHVISION + "MobileNet_V3_Small_Weights"),
    ("resnet101", 1000, 224, 44_549_160, TORCHVISION + "ResNet101_Weights"),
    ("resnet152", 1000, 224, 60_192_808, TORCHVISION + "ResNet152_Weights"),
    ("resnet50", 1000, 224, 25_557_032, TORCHVISION + "ResNet50_Weights"),
    ("resnet8", 10, 32, 78_666 - 2 * 240, TINY + "78,666"),
    # Embeddings of both vocabularies, two LSTMs of two layers, attention, scores.
    (
        "seq2seq", None, None,
        24_900 * 512 + 4 * 2_101_248 + 3 * 512**2 + 512 * 7_709,
        "Luong et al., arXiv 1508.04025; vocabularies of 17,191 and 7,709 words and 512 units as "
        "in TensorFlow's NMT tutorial",
    ),
    ("squeezenet", 1000, 224, 1_248_424, TORCHVISION + "SqueezeNet1_0_Weights"),
    ("squeezenet-224", 1000, 224, 1_248_424, TORCHVISION + "SqueezeNet1_0_Weights"),
    # 90 classes and the background.
    ("ssdlite", 90, 320, 3_440_060, TORCHVISION + "SSDLite320_MobileNet_V3_Large_Weights"),
    ("vgg16", 1000, 224, 138_357_544, TORCHVISION + "VGG16_Weights"),
    ("vgg19", 1000, 224, 143_667_240, TORCHVISION + "VGG19_Weights"),
    ("vit-tiny", 1000, 224, 5_717_416, "Touvron et al., arXiv 2012.12877, table 1: 5.7 M (DeiT-Ti)"),
    ("whisper-tiny", None, None, 37_760_640, "Radford et al., arXiv 2212.04356, table 1: 39 M"),
    ("xception", 1000, 299, 22_855_952, "Chollet, arXiv 1610.02357, table 3"),
]  # fmt: skip


def test_every_workload_is_in_the_table():
    assert tuple(row[0] for row in PUBLISHED) == names()


@pytest.mark.parametrize(("name", "classes", "size", "parameters", "source"), PUBLISHED)
def test_the_published_network_has_the_published_parameters(
    name, classes, size, parameters, source
):
    found = count_published(find(name))
    assert found == {"classes": classes, "image_size": size, "parameters": parameters}, source
