"""Whether CUPTI may be called: over trees of files as boards, laptops and containers have them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.wording import assert_says

from wattstep.engines import cupti
from wattstep.engines.cupti import cupti_refused, cupti_taken

USER, VIDEO = 12345, 54321  # nobody's numbers
ORIN = ("dev/nvgpu/igpu0/prof", "dev/nvgpu/igpu0/prof-ctx", "dev/nvgpu/igpu0/prof-dev")


def tree(
    root: Path, *nodes: str, tegra: bool = True, mode: int = 0o660, admin: int | None = None
) -> Path:
    if tegra:
        compatible = root / "proc/device-tree/compatible"
        compatible.parent.mkdir(parents=True)
        compatible.write_bytes(
            b"nvidia,p3768-0000+p3767-0000\0nvidia,p3767-0000\0nvidia,tegra234\0"
        )
    for node in nodes:
        path = root / node
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        path.chmod(mode)
    if admin is not None:
        params = root / "proc/driver/nvidia/params"
        params.parent.mkdir(parents=True)
        params.write_text(f"EnableMSI: 1\nRmProfilingAdminOnly: {admin}\n")
    return root


def asked(
    root: Path, cuda: str | None, euid: int = USER, groups: tuple[int, ...] = ()
) -> str | None:
    return cupti_refused(root, euid=euid, groups=groups, cuda_version=cuda)


@pytest.mark.parametrize("cuda", ["10.2", "11.4", "12.6"])
def test_on_tegra_up_to_cuda_12_it_needs_root(tmp_path: Path, cuda: str) -> None:
    root = tree(tmp_path, *ORIN, mode=0o666)
    assert_says(asked(root, cuda), "CUPTI", "root", f"CUDA {cuda}")
    assert asked(root, cuda, euid=0) is None


def test_a_jetson_is_known_by_its_release_where_there_is_no_device_tree(tmp_path: Path) -> None:
    release = tmp_path / "etc/nv_tegra_release"
    release.parent.mkdir()
    release.write_text("# R32 (release), REVISION: 7.1")
    assert asked(tmp_path, "10.2") is not None


def test_with_cuda_13_it_needs_every_node_of_profiling(tmp_path: Path) -> None:
    root = tree(tmp_path, *ORIN)
    gid = (root / ORIN[0]).stat().st_gid
    refused = "/dev/nvgpu/igpu0/prof must be readable and writable for CUPTI on Tegra"
    assert asked(root, "13.0") == refused
    assert asked(root, "13.0", groups=(VIDEO,)) == refused
    assert asked(root, "13.0", groups=(VIDEO, gid)) is None
    (root / ORIN[2]).chmod(0o640)
    assert "prof-dev" in str(asked(root, "13.0", groups=(gid,)))


def test_an_owner_goes_by_the_owners_rights(tmp_path: Path) -> None:
    root = tree(tmp_path, *ORIN, mode=0o066)
    for node in ORIN:
        os.chown(root / node, USER if os.geteuid() == 0 else -1, -1)
    owner = (root / ORIN[0]).stat().st_uid
    assert "readable and writable" in str(asked(root, "13.0", euid=owner))
    assert asked(root, "13.0", euid=owner + 1) is None  # others may


def test_with_cuda_13_the_driver_may_let_root_alone_profile(tmp_path: Path) -> None:
    root = tree(tmp_path, *ORIN, mode=0o666, admin=1)
    assert "RmProfilingAdminOnly" in str(asked(root, "13.0"))
    assert asked(root, "13.0", euid=0) is None


def test_thor_has_the_nodes_of_desktops(tmp_path: Path) -> None:
    root = tree(tmp_path, "dev/nvidia0", "dev/nvidiactl", mode=0o666, admin=0)
    assert asked(root, "13.0") is None
    (root / "dev/nvidia0").chmod(0o600)
    assert "/dev/nvidia0 must be" in str(asked(root, "13.0"))


def test_a_container_without_the_nodes_is_refused(tmp_path: Path) -> None:
    assert "were not found" in str(asked(tree(tmp_path), "13.0"))


def test_on_a_desktop_activity_is_traced_without_privilege(tmp_path: Path) -> None:
    root = tree(tmp_path, "dev/nvidia0", tegra=False, mode=0o600, admin=1)
    assert [asked(root, cuda) for cuda in ("11.8", "12.6", "13.0")] == [None] * 3


def test_rocm_has_no_cupti(tmp_path: Path) -> None:
    assert asked(tree(tmp_path), None) is None


def test_what_a_profiler_puts_into_its_processes_tells_that_cupti_is_taken() -> None:
    assert cupti_taken({"PATH": "/bin"}) is None
    assert cupti_taken({"CUDA_INJECTION64_PATH": ""}) is None
    assert "has CUPTI" in str(cupti_taken({"CUDA_INJECTION64_PATH": "/opt/libToolsInjection64.so"}))
    assert "Nsight Systems" in str(cupti_taken({"NSYS_PROFILING_SESSION_ID": "7"}))


def test_a_profiler_may_crash_with_cuda_13_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cupti, "cupti_refused", lambda root, **_: "closed")
    assert cupti.may_crash_here("13.0") == "closed"
    assert cupti.may_crash_here("12.6") is None
    assert cupti.may_crash_here(None) is None
    monkeypatch.setattr(cupti, "cupti_refused", lambda root, **_: None)
    assert cupti.may_crash_here("13.0") is None
