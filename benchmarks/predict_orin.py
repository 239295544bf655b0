"""Predictions beside two trainings of a Jetson AGX Orin whose rails were published.

    python benchmarks/predict_orin.py

VGG9 on CIFAR-10 (Jetson-Energy-Monitor, MIT) at 32 pixels: batch 64, Adam, four forward passes a step
averaged; 213 ms, 17.30 W, 3.69 J a step; at 64 pixels 3.51 times the time and 3.55 times the energy. Its
power mode was not recorded: each is shown. TinyLlama-1.1B (TetraRL, MIT): bf16, AdamW, batch 2 of 16
tokens; forward, backward, optimizer 62, 104, 292 ms, with a synchronisation after each.

Needs transformers for the second; nothing is trained, and no weights are loaded.
"""

from __future__ import annotations

import argparse
from typing import Any

import torch
from torch import nn

import wattstep
from wattstep import devices
from wattstep.predict.time import StepTime

BATCH = 64
MEASURED = {"ms": 213.0, "W": 17.30, "J": 3.69, "times": 3.51, "energy_times": 3.55}
PHASES = {"forward": 62.0, "backward": 104.0, "optimizer": 292.0}
PEAK_MIB = 10_538
CONFIGURATION: dict[str, Any] = {
    "hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 22, "num_attention_heads": 32,
    "num_key_value_heads": 4, "vocab_size": 32000, "use_cache": False,
}  # fmt: skip


class VGG9(nn.Module):
    """Seven convolutions and two linear layers, run several times and averaged."""

    def __init__(self, size: int, classes: int, passes: int = 4) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        inputs = 3
        for width in (64, 64, 0, 128, 128, 0, 256, 256, 256, 0):
            if width:
                convolution = nn.Conv2d(inputs, width, 3, padding=1, bias=False)
                layers += [convolution, nn.BatchNorm2d(width), nn.ReLU()]
                inputs = width
            else:
                layers.append(nn.AvgPool2d(2))
        self.features = nn.Sequential(*layers, nn.Flatten())
        self.head = nn.Sequential(
            nn.Linear(256 * (size // 8) ** 2, 1024), nn.ReLU(), nn.Linear(1024, classes)
        )
        self.passes = passes

    def forward(self, images: torch.Tensor) -> Any:
        return sum(self.head(self.features(images)) for _ in range(self.passes)) / self.passes


class TinyLlama(nn.Module):
    """Its architecture; scores with the classes second, as cross entropy takes them."""

    def __init__(self) -> None:
        super().__init__()
        from transformers import LlamaConfig, LlamaForCausalLM

        self.model = LlamaForCausalLM(LlamaConfig(**CONFIGURATION))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.model(input_ids=tokens).logits.transpose(1, 2)


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    print("VGG9, fp32, batch 64: predicted in each mode, measured in one that nobody recorded")
    print(f"{'mode':8s} {'step, ms':>9s} {'power, W':>9s} {'energy, J':>9s} {'time 64/32':>10s} {'energy':>7s}")  # fmt: skip
    row = "{:8s} {ms:9.0f} {W:9.1f} {J:9.2f} {times:10.2f} {energy_times:7.2f}"
    print(row.format("measured", **MEASURED))
    for mode in devices.find("agx-orin").modes:
        small, large = (
            wattstep.predict(
                lambda size=size, classes=classes: VGG9(size, classes),
                (BATCH, 3, size, size),
                device="agx-orin", optimizer="adam", classes=classes, mode=mode,
            )
            for size, classes in ((32, 10), (64, 200))
        )  # fmt: skip
        time, energy = float(small.step_time), float(small.energy_per_step)
        made = {
            "ms": 1e3 * time, "W": float(small.mean_power), "J": energy,
            "times": float(large.step_time) / time,
            "energy_times": float(large.energy_per_step) / energy,
        }  # fmt: skip
        print(row.format(mode, **made))
    print("\nTinyLlama-1.1B, bf16, AdamW, batch 2 of 16 tokens, MAXN")
    one = wattstep.predict(
        TinyLlama, torch.zeros(2, 16, dtype=torch.int64), device="agx-orin", optimizer="adamw", precision="bf16",
        mode="MAXN",
    )  # fmt: skip
    assert isinstance(one.time, StepTime)
    alone, measured = one.time.alone, sum(PHASES.values())
    whole = sum(alone.values())
    for phase, seconds in alone.items():
        print(
            f"{phase:10s} {100 * seconds / whole:5.1f} % predicted, {100 * PHASES[phase] / measured:5.1f} % measured"
        )
    mib = float(one.allocated_memory) / (1 << 20)
    print(f"peak of tensors {mib:,.0f} MiB predicted, {PEAK_MIB:,} measured")
    assert one.power is not None
    parts = one.power[1]
    print(f"VDD_GPU_SOC {parts['gpu'].value + parts['soc'].value:.1f} W predicted, 14.4 measured")
    print(f"VDD_CPU_CV {parts['cpu'].value:.2f} W predicted, 2.25 measured")


if __name__ == "__main__":
    main()
