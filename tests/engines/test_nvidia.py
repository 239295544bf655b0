"""A machine without a usable GPU says in one line what is missing and how to get it."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.wording import assert_says

from wattstep.engines.nvidia import Build, System, look, shares_memory, why_no_gpu, why_not_on
from wattstep.engines.torch import gpu

CPU = Build(name="torch 2.13.0+cpu", cuda=None)
CUDA = Build(name="torch 2.13.0", cuda="13.0")
CARD = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.14  Thu Feb 22 01:44:30 UTC 2024\n"
OPEN = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  575.57.08  Release Build\n"
R35 = "# R35 (release), REVISION: 4.1, GCID: 33958178, BOARD: t186ref, EABI: aarch64\n"
R36 = "# R36 (release), REVISION: 4.3, GCID: 38968081, BOARD: generic, EABI: aarch64\n"
R38 = "# R38 (release), REVISION: 2.0, GCID: 41844464, BOARD: generic, EABI: aarch64\n"
NONE_THERE = "No CUDA GPUs are available"


def tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def jetson(root: Path, release: str, model: str) -> Path:
    return tree(
        root,
        {
            "etc/nv_tegra_release": release,
            "proc/device-tree/model": f"{model}\0",
            "proc/device-tree/compatible": "nvidia,p3768\0nvidia,tegra234\0",
            "dev/nvmap": "",
            "dev/nvhost-ctrl-gpu": "",
        },
    )


def told(root: Path, build: Build, said: str = NONE_THERE, visible: str | None = None) -> str:
    reason = why_no_gpu(look(root), build, visible, said)
    assert reason is not None
    assert "\n" not in reason
    return reason


@pytest.mark.parametrize(("text", "version"), [(CARD, "550.54.14"), (OPEN, "575.57.08")])
def test_a_build_for_cpus_beside_a_driver_wants_another_build(
    text: str, version: str, tmp_path: Path
) -> None:
    root = tree(tmp_path, {"proc/driver/nvidia/version": text, "dev/nvidia0": ""})
    reason = told(root, CPU, said="")
    assert_says(reason, f"driver {version} is here", "built for CUDA")


def test_a_build_for_cpus_without_a_driver_wants_both(tmp_path: Path) -> None:
    reason = told(tmp_path, CPU, said="")
    assert_says(reason, "no NVIDIA driver", "install its driver", "built for CUDA")


@pytest.mark.parametrize(
    ("release", "model", "names"),
    [
        (R35, "NVIDIA Jetson AGX Xavier", "JetPack 5, L4T R35.4.1"),
        (R36, "NVIDIA Jetson Orin Nano Developer Kit", "JetPack 6, L4T R36.4.3"),
        (R38, "NVIDIA Jetson AGX Thor Developer Kit", "JetPack 7, L4T R38.2.0"),
    ],
)
def test_a_jetson_with_a_build_for_cpus_wants_nvidias_for_its_jetpack(
    release: str, model: str, names: str, tmp_path: Path
) -> None:
    reason = told(jetson(tmp_path, release, model), CPU, said="")
    jetpack = names.partition(",")[0]
    assert f"on {model} ({names})" in reason
    assert_says(reason, "NVIDIA's own build", f"torch for {jetpack}")
    assert "PyTorch for Jetson Platform" in reason


def test_a_jetson_with_a_build_for_servers_is_told_both_versions_of_cuda(tmp_path: Path) -> None:
    root = jetson(tmp_path, R36, "NVIDIA Jetson Orin NX")
    reason = told(root, CUDA, "The NVIDIA driver on your system is too old (found version 12060).")
    assert_says(reason, "torch 2.13.0 is built", "CUDA 13.0")
    assert_says(reason, "has CUDA 12.6", "NVIDIA's own build")


def test_a_build_for_cuda_without_a_driver_wants_the_driver(tmp_path: Path) -> None:
    said = "Found no NVIDIA driver on your system."
    assert told(tmp_path, CUDA, said).startswith("no NVIDIA driver")
    root = tree(tmp_path, {"usr/bin/nvidia-smi": ""})
    assert "sudo modprobe nvidia" in told(root, CUDA, said)
    root = tree(tmp_path, {"proc/driver/nvidia/version": CARD})
    assert "a container must" in told(root, CUDA, said)


def test_a_driver_that_is_too_old_is_told_with_its_cuda(tmp_path: Path) -> None:
    root = tree(tmp_path, {"proc/driver/nvidia/version": CARD, "dev/nvidia0": ""})
    said = (
        "The NVIDIA driver on your system is too old (found version 11040). Please update your "
        "GPU driver by downloading and installing a new version"
    )
    reason = told(root, CUDA, said)
    assert_says(reason, "too old", "torch 2.13.0", "CUDA 13.0", "CUDA 11.4")
    assert "update the driver" in reason


@pytest.mark.parametrize(
    "said",
    [
        "Unexpected error from cudaGetDeviceCount(). Error 803: system has unsupported display "
        "driver / cuda driver combination",
        "Failed to initialize NVML: Driver/library version mismatch",
    ],
)
def test_a_driver_newer_than_its_libraries_wants_a_restart(said: str, tmp_path: Path) -> None:
    root = tree(tmp_path, {"proc/driver/nvidia/version": CARD, "dev/nvidia0": ""})
    assert "restart the machine" in told(root, CUDA, said)


@pytest.mark.parametrize(
    ("visible", "how"), [("", "is empty"), ("-1", "is -1"), ("  ", "is empty")]
)
def test_hidden_gpus_are_named_as_such(visible: str, how: str, tmp_path: Path) -> None:
    root = tree(tmp_path, {"proc/driver/nvidia/version": CARD, "dev/nvidia0": ""})
    assert told(root, CUDA, visible=visible).startswith(f"CUDA_VISIBLE_DEVICES {how}, which hides")


def test_nodes_that_the_user_may_not_open_want_a_group(tmp_path: Path) -> None:
    system = System(nodes=True, tegra=True, closed=("/dev/nvhost-gpu", "/dev/nvmap"))
    reason = why_no_gpu(system, CUDA, None, NONE_THERE)
    assert "may not open /dev/nvhost-gpu, /dev/nvmap" in str(reason)
    assert "video,render" in str(reason)
    if os.geteuid() != 0:  # whom nothing is closed to
        root = tree(tmp_path, {"dev/nvidia0": ""})
        (root / "dev/nvidia0").chmod(0)
        assert look(root).closed == ("/dev/nvidia0",)


def test_files_alone_refuse_no_gpu_that_was_not_asked_for(tmp_path: Path) -> None:
    assert why_no_gpu(look(tmp_path), CUDA, "") is None


def test_what_nobody_knows_is_told_in_the_frameworks_own_words(tmp_path: Path) -> None:
    root = tree(tmp_path, {"dev/nvidia0": ""})
    assert told(root, CUDA, "\nCUDA error: something new\nmore").endswith(
        "CUDA error: something new"
    )


def test_a_jetson_shares_its_memory_and_a_card_does_not(tmp_path: Path) -> None:
    assert shares_memory(jetson(tmp_path / "a", R36, "NVIDIA Jetson Orin NX"))
    assert not shares_memory(tree(tmp_path / "b", {"dev/nvidia0": ""}))
    about = "proc/driver/nvidia/gpus/000f:01:00.0/information"
    assert shares_memory(tree(tmp_path / "c", {about: "Model: \t\t NVIDIA GB10\nIRQ: 1\n"}))
    assert not shares_memory(tree(tmp_path / "d", {about: "Model: \t\t NVIDIA GB202\n"}))


@pytest.mark.parametrize(
    ("capability", "built_for", "runs"),
    [
        ((8, 7), ("sm_80", "sm_90"), True),  # machine code of the same major version
        ((8, 0), ("sm_86",), False),
        ((12, 0), ("sm_80", "compute_90"), True),  # compiled when first used
        ((5, 3), ("sm_75", "sm_80", "compute_90"), False),
        ((9, 0), ("sm_90a",), True),
        ((12, 1), ("sm_120",), True),
        ((7, 2), (), True),  # not told
    ],
)
def test_a_gpu_without_code_of_this_build_is_told(
    capability: tuple[int, int], built_for: tuple[str, ...], runs: bool
) -> None:
    assert (why_not_on("X", capability, built_for) is None) is runs


class Cuda:
    """As much of `torch.cuda` as is asked for."""

    def __init__(self, count: int, error: Exception | None = None) -> None:
        self._count, self._error = count, error

    def init(self) -> None:
        if self._error is not None:
            raise self._error

    def device_count(self) -> int:
        return self._count

    def current_device(self) -> int:
        return 0

    def get_device_name(self, number: int | None) -> str:
        return "NVIDIA A100-SXM4-40GB MIG 1g.5gb"

    def get_device_capability(self, number: int | None) -> tuple[int, int]:
        return 8, 0

    def get_arch_list(self) -> list[str]:
        return ["sm_80"]

    def get_device_properties(self, number: int) -> Any:
        return SimpleNamespace(
            name=self.get_device_name(number), major=8, minor=0, total_memory=5 * 1024**3,
            multi_processor_count=14, is_integrated=0,
        )  # fmt: skip


def asked(cuda: Cuda, processor: str, root: Path, monkeypatch: pytest.MonkeyPatch) -> str | None:
    monkeypatch.setattr(gpu, "require", lambda name: SimpleNamespace(cuda=cuda))
    return gpu.lacking(processor, root=root, environment={}, build=CUDA)


def test_of_two_gpus_either_can_be_named_and_no_third(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for processor in ("cuda", "cuda:0", "cuda:1"):
        assert asked(Cuda(2), processor, tmp_path, monkeypatch) is None
    reason = asked(Cuda(2), "cuda:2", tmp_path, monkeypatch)
    assert_says(reason, "2 GPUs", "cuda:0, cuda:1")


def test_torch_is_asked_and_what_it_says_is_understood(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cuda = Cuda(0, RuntimeError("Found no NVIDIA driver on your system."))
    assert "no NVIDIA driver" in str(asked(cuda, "cuda", tmp_path, monkeypatch))


def test_no_framework_is_said_first_and_the_cpu_needs_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu, "find_spec", lambda name: None)
    assert gpu.lacking("cpu") is None
    root = jetson(tmp_path, R36, "NVIDIA Jetson Orin NX")
    reason = str(gpu.lacking("cuda", root=root))
    assert_says(reason, "torch", "not installed")
    assert "NVIDIA's own build" in reason


def test_a_build_is_read_from_torchs_own_file() -> None:
    text = "from typing import Optional\n__version__ = '2.8.0'\ndebug = False\ncuda: Optional[str] = {}\n"
    assert gpu.parse_build(text.format("'12.6'")) == Build(name="torch 2.8.0", cuda="12.6")
    assert gpu.parse_build(text.format("None")) == Build(name="torch 2.8.0", cuda=None)


def built_for_cuda(name: str) -> Any:
    backends = SimpleNamespace(cudnn=SimpleNamespace(version=lambda: 90300))
    return SimpleNamespace(version=SimpleNamespace(cuda="12.6"), backends=backends)


def test_facts_of_a_gpu_name_its_slice_its_driver_and_its_libraries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tree(tmp_path, {"proc/driver/nvidia/version": CARD})
    monkeypatch.setattr(gpu, "require", built_for_cuda)
    facts = gpu.facts(Cuda(1), "cuda", root)
    assert facts == {
        "name": "NVIDIA A100-SXM4-40GB MIG 1g.5gb", "number": 0, "compute_capability": "8.0",
        "memory": 5 * 1024**3, "multiprocessors": 14, "shares_memory": False,
        "driver": "550.54.14", "cuda": "12.6", "cudnn": 90300,
    }  # fmt: skip
