"""A GPU that is there and not used is told of, once."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("jax")

import jax
import jax.numpy as jnp

import checkmate.jax
from checkmate.backends.jax import device as subject
from checkmate.backends.jax.device import OF_PRODUCTS, Speed, card_of, lost_gpu, speed_of
from checkmate.solvers.problem import SolveOptions
from tests.benchmarks.jax_wide_networks import BATCHES, NETWORKS
from tests.jax.steps import read


@pytest.fixture
def card(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a machine with a card, its plugin, and JAX on the processor."""
    device = tmp_path / "nvidiactl"
    device.touch()
    monkeypatch.setattr(subject, "_CARDS", (device,))
    monkeypatch.setattr(subject, "_PLUGINS", ("json",))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(subject, "jax", SimpleNamespace(config=SimpleNamespace(jax_platforms=None)))
    monkeypatch.setattr(subject.jax, "default_backend", lambda: "cpu", raising=False)
    return device


def test_tensorflow_is_named_where_it_came_first(card: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorflow", SimpleNamespace())
    assert "TensorFlow was imported before" in str(lost_gpu())
    monkeypatch.delitem(sys.modules, "tensorflow")
    assert "TensorFlow" not in str(lost_gpu()) and "though there is a GPU" in str(lost_gpu())


def test_nothing_is_said_where_no_gpu_is_lost(card: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for visible in ("", "-1"):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        assert lost_gpu() is None
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    assert lost_gpu()
    for platforms, backend in (("cpu", "cpu"), (None, "gpu")):
        monkeypatch.setattr(subject.jax.config, "jax_platforms", platforms)
        monkeypatch.setattr(subject.jax, "default_backend", lambda backend=backend: backend, raising=False)
        assert lost_gpu() is None
    monkeypatch.setattr(subject.jax, "default_backend", lambda: "cpu", raising=False)
    monkeypatch.setattr(subject, "_PLUGINS", ("no_such_plugin",))
    assert lost_gpu() is None
    monkeypatch.setattr(subject, "_PLUGINS", ("json",))
    card.unlink()
    assert lost_gpu() is None


def test_a_step_tells_it_once(card: Path, capsys: pytest.CaptureFixture[str]) -> None:
    step = checkmate.jax.rematerialize(lambda x: x * x, "100%", options=SolveOptions(time_limit_s=0.1))
    for size in (4, 5):
        step(jnp.ones(size))
    assert capsys.readouterr().err.count("JAX runs on the CPU") == 1


# Milliseconds of the plain steps on an H200 (docs/results/jax/h200.json).
MEASURED = {"gpt": 68.0, "vit": 58.0, "resnet": 39.4}


def seconds(step: Any, speed: Speed, *args: Any) -> float:
    return float(sum(op.cost for op in read(step, *args, speed=speed).graph.ops))


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("NVIDIA H200", "H200"),
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA A100-SXM4-80GB", "A100 80 GB"),
        ("NVIDIA A100-SXM4-40GB", "A100 40 GB"),
        ("Tesla V100-SXM2-16GB", "V100 16 GB"),
        ("NVIDIA L40S", "L40S"),
        ("NVIDIA RTX 6000 Ada Generation", "RTX 6000 Ada"),
        ("NVIDIA GeForce RTX 4090", "GeForce RTX 4090"),
        ("NVIDIA GH200 480GB", "A100 40 GB"),  # not in the table, as what follows
        ("AMD Instinct MI300X", "A100 40 GB"),
    ],
)
def test_a_driver_s_name_is_a_card_of_the_table(kind: str, name: str) -> None:
    assert card_of(kind).name == name


@pytest.mark.parametrize("network", NETWORKS)
def test_plain_steps_are_counted_as_long_as_they_took(network: str) -> None:
    made = NETWORKS[network](lambda block: block, BATCHES[network])
    counted = 1000 * seconds(made.step, speed_of("gpu", "NVIDIA H200"), made.state, made.batch)
    assert MEASURED[network] / 2 < counted < 2 * MEASURED[network]


def test_products_of_short_floats_are_quicker_also_inside_a_loop() -> None:
    card, speed = card_of("NVIDIA H200"), speed_of("gpu", "NVIDIA H200")

    def step(x: Any, w: Any) -> Any:
        return jax.lax.scan(lambda x, w: (x @ w, None), x, w)[0]

    def of(dtype: Any) -> float:
        x, w = (jax.ShapeDtypeStruct(shape, dtype) for shape in ((4096, 4096), (8, 4096, 4096)))
        return seconds(step, speed, x, w)

    assert of(jnp.bfloat16) == pytest.approx(8 * 2 * 4096**3 / (OF_PRODUCTS * card.half))
    assert of(jnp.float32) == pytest.approx(8 * 2 * 4096**3 / (OF_PRODUCTS * card.matrix))


def test_a_gpu_hides_operations_behind_bytes_and_a_cpu_adds_them() -> None:
    wide = jax.ShapeDtypeStruct((1 << 20,), jnp.float32)
    gpu = speed_of("gpu", "NVIDIA H200")
    moved = 2 * 4 * (1 << 20)
    assert seconds(jnp.negative, gpu, wide) == moved / gpu.bytes > (1 << 20) / gpu.vector
    assert seconds(jnp.negative, speed_of("cpu", "cpu"), wide) == pytest.approx(
        (1 << 20) / 1e11 + moved / 2e10
    )
