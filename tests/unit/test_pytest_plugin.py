"""Test the plugin in pytest runs of their own, as a user's project has it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]
ROOT = Path(__file__).resolve().parents[2]

TWO_SIDED = """
import pytest
from keras import Input, Model, layers

def net():
    x = Input((64,))
    model = Model(x, layers.Dense(10)(layers.Dense(256, name="wide")(x)), name="net")
    model.compile("sgd", "mse")
    return model

@pytest.mark.limit_training_memory("1 GiB")
def test_fits(training_memory):
    assert 2**17 < training_memory(net, batch_size=32) == training_memory(net(), batch_size=32) < 2**20

@pytest.mark.limit_training_memory("100 KiB")
def test_does_not(training_memory):
    training_memory(net, batch_size=32)
"""


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # it may be installed, or not
    monkeypatch.setenv("PYTEST_PLUGINS", "checkmate.pytest_plugin")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return pytester


@pytest.mark.parametrize(
    ("code", "outcome", "words"),
    [
        ('@pytest.mark.limit_training_memory("1 GiB")\ndef test(): pass', "failed", "never calls"),
        ("def test(training_memory): pass", "passed", ""),
        (
            '@pytest.mark.limit_training_memory("12 GigaBytes")\ndef test(training_memory): pass',
            "errors",
            "cannot read '12 GigaBytes' as a size",
        ),
        (
            "@pytest.mark.limit_training_memory()\ndef test(training_memory): pass",
            "errors",
            "takes one size",
        ),
    ],
)
def test_a_mark_without_meaning_fails(project: pytest.Pytester, code: str, outcome: str, words: str) -> None:
    project.makepyfile(f"import pytest\n{code}")
    found = project.runpytest_inprocess("--strict-markers")
    found.assert_outcomes(**{outcome: 1})
    assert words in found.stdout.str()


def test_the_plugin_imports_nothing_heavy() -> None:
    heavy = {"keras", "numpy", "tensorflow", "torch"}
    code = f"import checkmate.pytest_plugin, sys; print({heavy} & {{*sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


@pytest.mark.heavy
def test_a_model_is_held_to_its_mark(project: pytest.Pytester) -> None:
    pytest.importorskip("tensorflow")
    project.makepyfile(TWO_SIDED)
    found = project.runpytest_subprocess("--strict-markers")
    found.assert_outcomes(passed=1, failed=1)
    found.stdout.fnmatch_lines(
        ["the training step of *net requests * at its peak, over the limit of 100 KiB; * wide *"]
    )
