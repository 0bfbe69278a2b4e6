from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.end2end.test_run import ROOT, start

STEPS = ROOT / "tests" / "tf" / "step_models.py"
pytestmark = [
    pytest.mark.heavy,
    pytest.mark.skipif(
        "not __import__('importlib.util').util.find_spec('tensorflow')", reason="needs TensorFlow"
    ),
]


def test_an_export_says_what_it_leaves_out(tmp_path: Path) -> None:
    quick = ["--costs", "analytic", "--solver", "keep-all", "--budget", "1GiB"]
    process = start(tmp_path, "run", f"{STEPS}:autoencoder", "--allow-code", "-b", 8, *quick, "-o", "out")
    out, err = process.communicate(timeout=600)
    assert process.returncode == 0, err
    notes = json.loads((tmp_path / "out" / "report.json").read_text())["notes"]
    for name in ("predict", "evaluate"):
        sentence = f"the export has no {name}, which could not be traced: "
        assert f"note: {sentence}" in out
        assert sum(note.startswith(sentence) for note in notes) == 1


def test_a_step_is_run_within_its_budget_and_its_export_trains(tmp_path: Path) -> None:
    """Test a step whose variables include one that is only written."""
    quick = ["--costs", "analytic", "--solver", "greedy"]
    step = [f"{STEPS}:plain_step", "--allow-code", "--budget", "70%", *quick]
    process = start(tmp_path, "run", *step, "-o", "out", "--json")
    out, err = process.communicate(timeout=600)
    assert process.returncode == 0, err
    assert "verify: comparing variables and results, same kernels" in err
    report = json.loads(out)
    assert report["ok"] and report["batch_size"] == 16 and report["recomputations"] > 0
    compared, peak = report["gradients"], report["peak_bytes"]
    assert (compared["compared"], compared["steps"]) == ("variables and results", 2)
    assert compared["equal"] and compared["bitwise"] and compared["state_bitwise"]
    assert 0 < peak["measured"] <= report["budget_bytes"] < peak["plain_measured"]
    assert 0 < peak["reloaded_measured"] <= report["budget_bytes"]
    assert report["budget_bytes"] == int(0.7 * peak["plain_measured"])
    script = (tmp_path / "out" / "train_example.py").read_text()
    assert "('images', (16, 32, 32, 3), 'float32'" in script and "('labels', (16,), 'int64'" in script
    blocked = tmp_path / "checkmate.py"
    blocked.write_text("raise ImportError('the example must not need checkmate')\n")
    done = subprocess.run(
        [sys.executable, tmp_path / "out" / "train_example.py", "4"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    losses = [float(loss) for loss in re.findall(r"loss ([\d.]+), peak", done.stdout)]
    assert len(losses) == 4 and len(set(losses)) == 4, "it does not train"
