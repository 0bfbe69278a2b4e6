"""A GPU that is there and not used is told of, once."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("jax")

import jax.numpy as jnp

import checkmate.jax
from checkmate.backends.jax import device as subject
from checkmate.backends.jax.device import lost_gpu
from checkmate.solvers.problem import SolveOptions


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
