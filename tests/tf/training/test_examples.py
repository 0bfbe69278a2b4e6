"""Run the programs of ``examples/`` at a small size, as users run them."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
import sys
from pathlib import Path

import pytest

from checkmate.backends.tf.environment import METERED
from tests.benchmarks import training
from tests.programs import run_python
from tests.quick_start import QUICK

EXAMPLES = Path(__file__).parents[3] / "examples"
PROGRAMS = [(path.name,) for path in sorted(EXAMPLES.glob("*.py")) if path.name != "hub.py"]
# Little is won there: at this size most of the memory is the state of short loops, and a base is not trained.
FIXED = {"translation.py", "fine_tuning.py"}
# Its plain step varies from run to run, so at 80 % the order of a schedule may be enough.
BY_ORDER = {"dcgan.py"}
TWICE = {"vae.py", "physics.py"}
HUB = [("hub.py", network) for network in ("bert", "gpt2", "resnet")]
SIZE = r"([\d.,]+ [KMG]?i?B)"
KEPT = re.compile(rf"measured peak {SIZE} of {SIZE}")
MISSED = re.compile(
    rf"measured peak {SIZE}(?: \(.* of others\))?, .* over the budget of {SIZE}.*; "
    "(?:raise the budget to|use a smaller)"
)

# One of each kind: its own ``train_step``, a loop with two tapes, no Keras. Half a minute each.
FEW = ("vae.py", "dcgan.py", "plain_tensorflow.py")
STAGE = re.compile(r"^checkmate \[ *\d+ s\] (\w+): ", re.MULTILINE)
EARLIER = "from an earlier run's plan"


def test_there_are_sixteen_examples_and_they_are_short() -> None:
    assert len(PROGRAMS) + len(HUB) >= 16
    for (name,) in [*PROGRAMS, ("hub.py",)]:
        text = (EXAMPLES / name).read_text()
        assert len(text.splitlines()) <= 105 and "checkmate.rematerialize" in text


def test_nothing_beside_the_examples_hides_a_module_that_they_import() -> None:
    """Test that ``import jax`` in Keras finds no folder of ours: Python looks beside a program first."""
    modules = {*sys.stdlib_module_names, *importlib.metadata.packages_distributions(), "jax", "torch"}
    assert not modules & {path.stem for path in EXAMPLES.iterdir()}


def run_of(name: str, *words: str) -> str:
    chosen = {**METERED, **QUICK}
    if name in TWICE:  # peaks of several threads differ between runs, which is no matter of a plan
        chosen |= {"TF_NUM_INTRAOP_THREADS": "1", "TF_NUM_INTEROP_THREADS": "1"}
    done = run_python(EXAMPLES / name, *words, "--small", **chosen)
    return done.stdout + done.stderr


@pytest.mark.heavy
@pytest.mark.parametrize("words", [*PROGRAMS, *HUB], ids=" ".join)
def test_an_example_trains_within_its_budget(words: tuple[str, ...]) -> None:
    if words[0] == "hub.py" and importlib.util.find_spec("keras_hub") is None:
        pytest.skip("keras-hub is not installed")
    said = run_of(*words)
    plans = [
        line
        for line in said.splitlines()
        if line.startswith("checkmate: batch of ") and "measured peak " in line
    ]
    assert plans, said[-3000:]
    for plan in plans:
        # At this size what the allocator leaves between two tensors may be more than the last of the budget.
        within, over = KEPT.search(plan), MISSED.search(plan)
        assert within or over, plan
        assert not within or bytes_of(within[1]) <= bytes_of(within[2])
        assert words[0] in FIXED or not over or bytes_of(over[1]) <= 1.1 * bytes_of(over[2]), plan
    recomputed = max(int(count) for count in re.findall(r"(\d+) recomputation", "\n".join(plans)))
    assert words[0] in FIXED | BY_ORDER or recomputed > 0, said[-3000:]
    assert EARLIER not in said and {"trace", "measure", "solve"} <= set(STAGE.findall(said))
    losses = re.findall(r"loss: (-?[\d.]+)", said)
    assert len(losses) >= 2 and len(set(losses)) > 1
    if words[0] in TWICE:
        again = run_of(*words)
        # The second run traces, measures the kept schedule, and trains.
        assert EARLIER in again, again[-3000:]
        assert STAGE.findall(again.partition(EARLIER)[0]) == ["trace", "measure"]


def bytes_of(text: str) -> float:
    number, unit = text.replace(",", "").split()
    return float(number) * 2 ** (10 * ("BKMG".index(unit[0])))


@pytest.mark.parametrize(
    "program",
    [
        pytest.param(name, marks=pytest.mark.heavy if name in FEW else pytest.mark.long)
        for name in training.PROGRAMS
    ],
)
def test_an_example_computes_the_same_with_the_same_kernels(program: str) -> None:
    found = training.exact_row(program, small=True, compiled=True)
    assert "problem" not in found, found["problem"]
    assert found["steps"] >= 20
    # A sum of three terms or more begins with the one whose memory can be reused.
    assert found["differing_steps"] == 0 or found["difference"] <= 1e-6, found
