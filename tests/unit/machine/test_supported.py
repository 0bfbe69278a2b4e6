from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from checkmate.errors import UnsupportedVersionError
from checkmate.listing import listing
from checkmate.machine import supported

ROOT = Path(__file__).resolve().parents[3]


def install(monkeypatch: pytest.MonkeyPatch, **found: str) -> None:
    """Let the names in ``found`` be all that is installed. They are the package index's names."""
    installed = {name.replace("_", "-"): version for name, version in found.items()}
    monkeypatch.setattr(
        supported, "versions", lambda names: {name: installed[name] for name in names if name in installed}
    )


@pytest.mark.parametrize(
    "found",
    [
        {},
        {"tensorflow": "2.19.0", "keras": "3.12.0"},
        {"tensorflow": "2.20.1", "keras": "3.13.2"},
        {"tensorflow": "2.21.0rc1", "keras": "3.15.1"},
        {"tensorflow_cpu": "2.21.0"},
        {"tensorflow": "2.20.0", "tf_nightly": "2.23.0.dev20261026"},
    ],
)
def test_releases_that_work(monkeypatch: pytest.MonkeyPatch, found: dict[str, str]) -> None:
    install(monkeypatch, **found)
    assert supported.why_unsupported() == ""
    supported.require_supported()


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        ({"tensorflow": "2.18.0"}, "Checkmate needs TensorFlow 2.19 to 2.21; found 2.18.0"),
        ({"tensorflow": "1.15.5", "keras": "2.3.1"}, "Checkmate needs TensorFlow 2.19 to 2.21; found 1.15.5"),
        ({"tensorflow": "3.0.0"}, "Checkmate needs TensorFlow 2.19 to 2.21; found 3.0.0"),
        ({"tensorflow": "2.22.0"}, "Checkmate needs TensorFlow 2.19 to 2.21; found 2.22.0"),
        (
            {"tensorflow_cpu": "2.9.1"},
            "Checkmate needs TensorFlow 2.19 to 2.21; found 2.9.1 (tensorflow-cpu)",
        ),
        (
            {"tensorflow": "2.21.0", "keras": "2.15.0"},
            "Checkmate needs Keras 3.12 or a later Keras 3; found 2.15.0",
        ),
        (
            {"tensorflow": "2.21.0", "keras": "3.11.3"},
            "Checkmate needs Keras 3.12 or a later Keras 3; found 3.11.3",
        ),
        (
            {"tensorflow": "2.21.0", "keras": "4.0.0"},
            "Checkmate needs Keras 3.12 or a later Keras 3; found 4.0.0",
        ),
    ],
)
def test_releases_that_do_not(monkeypatch: pytest.MonkeyPatch, found: dict[str, str], sentence: str) -> None:
    install(monkeypatch, **found)
    with pytest.raises(UnsupportedVersionError) as caught:
        supported.require_supported()
    assert str(caught.value) == sentence
    assert caught.value.hint == "pip install 'tensorflow>=2.19,<2.22' 'keras>=3.12,<4'"


def test_the_list_says_why_something_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tensorflow")
    install(monkeypatch, tensorflow="2.18.0")
    (exporter,) = listing("exporters")
    assert not exporter["available"] and exporter["why"] == "needs TensorFlow 2.19 to 2.21; found 2.18.0"


def test_pip_keeps_to_the_same_limits() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert f"tensorflow{supported.TENSORFLOW_RANGE}" in project["dependencies"]
    assert f"keras{supported.KERAS_RANGE}" in project["dependencies"]
    assert project["optional-dependencies"]["cuda"] == [f"tensorflow[and-cuda]{supported.TENSORFLOW_RANGE}"]
