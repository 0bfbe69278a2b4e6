"""Test one GPU of several."""

from __future__ import annotations

import pytest

from checkmate.backends.tf import devices
from checkmate.backends.tf.devices import Kernels, choose_device, kernels_here, visible_devices
from checkmate.backends.tf.environment import allocator_note, measuring_environment, only_device
from checkmate.cli.common_options import device
from checkmate.errors import UsageError
from checkmate.machine.device_memory import Gpu
from checkmate.request import ModelRequest
from tests.tf.fake_gpu import FakeGpu, folded_for_gpu


@pytest.mark.parametrize(
    ("wanted", "here", "shown"),
    [
        ("gpu", True, ["/physical_device:GPU:0"]),
        ("gpu:1", True, ["/physical_device:GPU:1"]),
        (None, True, ["/physical_device:GPU:0"]),
        ("gpu:1", False, []),
        (None, False, []),
        ("cpu", True, []),
    ],
)
def test_a_process_sees_the_one_gpu_that_it_uses(
    wanted: str | None, here: bool, shown: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    gpus = FakeGpu(monkeypatch, names=("Small", "Large"))
    found = choose_device(ModelRequest("convnet", device=wanted), here=here)
    assert gpus.shown == shown
    assert (kernels_here(found.kind) is Kernels.CUDA) is (wanted != "cpu")
    if wanted != "cpu":
        assert (found.kind, found.name) == ("gpu", "Large" if wanted == "gpu:1" else "Small")


def test_a_gpu_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    FakeGpu(monkeypatch, names=("Small", "Large"))
    with pytest.raises(UsageError, match="TensorFlow sees 2 GPUs, so there is no gpu:2") as raised:
        choose_device(ModelRequest("convnet", device="gpu:2"))
    assert "CUDA_VISIBLE_DEVICES" in raised.value.hint
    with pytest.raises(UsageError, match="unknown device 'tpu'"):
        choose_device(ModelRequest("convnet", device="tpu"))


def test_the_device_has_the_memory_on_its_own_line(monkeypatch: pytest.MonkeyPatch) -> None:
    FakeGpu(monkeypatch, names=("Small", "Large"))
    sizes = {"Small": 16 << 30, "Large": 40 << 30}
    monkeypatch.setattr(
        devices, "gpu_in_use", lambda number, name: Gpu(number, "GPU-0", name, sizes[name], sizes[name])
    )
    assert choose_device(ModelRequest("convnet", device="gpu:1")).memory_bytes == 40 << 30
    assert choose_device(ModelRequest("convnet", device="gpu")).memory_bytes == 16 << 30


def test_each_gpu_has_a_name_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    FakeGpu(monkeypatch, names=("Small", "Large"))
    assert [(row["name"], row["description"]) for row in visible_devices()][1:] == [
        ("gpu", "Small"),
        ("gpu:1", "Large"),
    ]


def test_the_command_line_takes_a_number() -> None:
    assert [device(text) for text in ("cpu", "gpu", "gpu:1")] == ["cpu", "gpu", "gpu:1"]
    with pytest.raises(Exception, match="'tpu' is not a device; write cpu, gpu or gpu:1"):
        device("tpu")


@pytest.mark.parametrize(
    ("wanted", "added"),
    [
        ("cpu", {"CUDA_VISIBLE_DEVICES": "-1"}),
        ("gpu", {}),
        (None, {}),
        ("gpu:1", {"CUDA_VISIBLE_DEVICES": "GPU-b"}),
    ],
)
def test_a_process_of_tensorflow_alone_sees_the_requests_device(
    wanted: str | None, added: dict[str, str]
) -> None:
    assert only_device(wanted, {"CUDA_VISIBLE_DEVICES": "3,GPU-b"}) == added


@pytest.mark.heavy
def test_another_allocator_is_left_aside_and_a_note_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_GPU_ALLOCATOR", "cuda_malloc_async")
    child = measuring_environment()
    assert child["TF_GPU_ALLOCATOR"] == "" and "TF_GPU_ALLOCATOR=cuda_malloc_async" in allocator_note(child)
    notes = folded_for_gpu(monkeypatch, "convnet").graph.metadata["notes"]
    assert sum("cuda_malloc_async" in note for note in notes) == 1
    monkeypatch.delenv("TF_GPU_ALLOCATOR")
    assert allocator_note(measuring_environment()) == ""
    assert not any(
        "ALLOCATOR" in note for note in folded_for_gpu(monkeypatch, "convnet").graph.metadata["notes"]
    )
