"""ViT-Tiny on images: a transformer that sees patches of 16×16 pixels."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from wattstep.errors import InvalidValueError

PATCH = 16
WIDTH = 192
HEADS = 3
BLOCKS = 12


class Attention(nn.Module):
    """Every position looks at every other, in three heads of 64."""

    def __init__(self) -> None:
        super().__init__()
        self.query_key_value = nn.Linear(WIDTH, 3 * WIDTH)
        self.project = nn.Linear(WIDTH, WIDTH)

    def forward(self, tokens: Tensor) -> Tensor:
        """(B, positions, 192) to the same shape."""
        batch, positions, _ = tokens.shape
        heads = self.query_key_value(tokens).reshape(batch, positions, 3, HEADS, WIDTH // HEADS)
        query, key, value = heads.permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(query, key, value)
        out: Tensor = self.project(seen.transpose(1, 2).reshape(batch, positions, WIDTH))
        return out


class Block(nn.Module):
    """Attention, then two linear layers, each with a normalisation before and a shortcut."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(WIDTH, eps=1e-6)
        self.attention = Attention()
        self.norm2 = nn.LayerNorm(WIDTH, eps=1e-6)
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, tokens: Tensor) -> Tensor:
        """(B, positions, 192) to the same shape."""
        tokens = tokens + self.attention(self.norm1(tokens))
        out: Tensor = tokens + self.mlp(self.norm2(tokens))
        return out


class VitTiny(nn.Module):
    """The vision transformer in its smallest size, with a class token.

    Source: Touvron et al., DeiT, arXiv 2012.12877, table 1 (DeiT-Ti, without the distillation
    token), after Dosovitskiy et al., arXiv 2010.11929.

    Raises:
        InvalidValueError: The image is no whole number of patches wide.
    """

    def __init__(self, *, classes: int = 10, image_size: int = 224) -> None:
        super().__init__()
        if image_size % PATCH:
            raise InvalidValueError(
                f"--image-size {image_size}: vit-tiny sees patches of {PATCH}×{PATCH}, "
                f"so the size must be a multiple of {PATCH}",
                id="unfit-image-size",
            )
        positions = (image_size // PATCH) ** 2 + 1
        self.patches = nn.Conv2d(3, WIDTH, PATCH, stride=PATCH)
        self.class_token = nn.Parameter(torch.empty(1, 1, WIDTH))
        self.positions = nn.Parameter(torch.empty(1, positions, WIDTH))
        self.blocks = nn.Sequential(*(Block() for _ in range(BLOCKS)))
        self.norm = nn.LayerNorm(WIDTH, eps=1e-6)
        self.head = nn.Linear(WIDTH, classes)
        nn.init.trunc_normal_(self.class_token, std=0.02)
        nn.init.trunc_normal_(self.positions, std=0.02)
        self.apply(_initialise)

    def forward(self, images: Tensor) -> Tensor:
        """Scores (B, classes) of images (B, 3, H, W) of the size that it was built for."""
        patches = self.patches(images).flatten(2).transpose(1, 2)
        first = self.class_token.expand(len(images), -1, -1)
        tokens = torch.cat((first, patches), dim=1) + self.positions
        scores: Tensor = self.head(self.norm(self.blocks(tokens))[:, 0])
        return scores


def _initialise(module: nn.Module) -> None:
    """As in the paper of DeiT, appendix."""
    if isinstance(module, nn.Linear):
        nn.init.trunc_normal_(module.weight, std=0.02)
        nn.init.zeros_(module.bias)
