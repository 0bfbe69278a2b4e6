"""Run programs after public reports that once ended inside ``fit``.

They lie beside the repository; where they do not, they are skipped.
"""

from __future__ import annotations

import re

import pytest

from tests.programs import ROOT, run_python

CASES = ROOT.parent / "shared" / "cases"
LINE = re.compile(r"^checkmate: batch of .*", re.MULTILINE)

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.skipif(not CASES.exists(), reason="no programs lie beside the repository"),
]


def run(program: str, **environment: str) -> tuple[str, list[str]]:
    """Return what ``program`` prints, and what is said of its plans."""
    name, *words = program.split()
    chosen = {"TF_CPU_ALLOCATOR_USE_BFC": "true", "TF_ENABLE_ONEDNN_OPTS": "0"}
    ran = run_python(CASES / name, *words, **chosen, **environment)
    return ran.stdout, LINE.findall(ran.stderr)


def test_a_sparse_input_is_planned() -> None:
    expected, _ = run("12_sparse_lstm.py plain")
    found, (line,) = run("12_sparse_lstm.py remat 60%")
    losses = [re.findall(r"losses (.*)", text) for text in (expected, found)]
    assert losses[0] == losses[1] != []
    assert "plain training, since recomputation saves nothing here" in line  # its parameters take most


def test_ctc_keeps_its_budget() -> None:
    found, (line, *_) = run("ctc_dense.py keras 70%")  # another line may name a batch that fits as it is
    assert "'loss'" in found and " recomputations, " in line and " over the budget" not in line


@pytest.mark.long
@pytest.mark.parametrize(
    "program", ["03_vae_recompute_grad_xla.py remat 60%", "recompute_up.py residual 2 60% upsub sgd"]
)
def test_what_is_recomputed_by_hand_trains(program: str) -> None:
    # With a schedule or without: that depends on the order of ops.
    _, lines = run(program, JIT="0")
    assert len(lines) == 1
