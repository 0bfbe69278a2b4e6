from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MODEL = f"{ROOT / 'tests' / 'tf' / 'small_models.py'}:convnet"
STEP = [MODEL, "--allow-code"]
BATCH = 96  # at 32 the regions of the limited allocator leave so little room that attempts are repeated
ROOM = 0.75  # of what the plain step needs: more than the budget, less than all of it
pytestmark = [
    pytest.mark.heavy,
    pytest.mark.skipif(
        "not __import__('importlib.util').util.find_spec('tensorflow')", reason="needs TensorFlow"
    ),
]


def checkmate(folder: Path, *arguments: object, limit: int = 0) -> tuple[int, str, str]:
    """Return exit code, output and errors of a command whose allocators are limited to so many bytes."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    if limit:
        environment["TF_CPU_BFC_MEM_LIMIT_IN_MB"] = str(limit // 2**20)
    done = subprocess.run(
        [sys.executable, "-m", "checkmate", *map(str, arguments)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=1800,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int, int]:
    """Return a folder, the plain step's bytes, and a limit below them."""
    folder = tmp_path_factory.mktemp("limited")
    asked = f"-b {BATCH} --device cpu --costs analytic -o g.json --json"
    code, out, err = checkmate(folder, "profile", *STEP, *asked.split())
    assert code == 0, err
    needed = json.loads(out)["keep_everything_peak_bytes"]
    return folder, needed, int(ROOM * needed)


@pytest.fixture(scope="module")
def ran(limited: tuple[Path, int, int]) -> dict[str, object]:
    """Return the report of a run within 60 % of the plain step's memory."""
    folder, needed, limit = limited
    budget = int(0.6 * needed)
    asked = f"-b {BATCH} --device cpu --budget {budget} --time-limit 4 -o out --json"
    code, out, err = checkmate(folder, "run", *STEP, *asked.split(), limit=limit)
    assert code == 0, err
    report = json.loads(out)
    assert report["ok"] and report["peak_bytes"]["measured"] <= budget
    return report


def test_a_run_without_the_plain_step(ran: dict, limited: tuple[Path, int, int]) -> None:
    peak, gradients, plain = ran["peak_bytes"], ran["gradients"], ran["plain_step"]
    assert peak["plain_measured"] is None and peak["plain_predicted"] >= 0.95 * limited[1]
    assert ran["seconds"]["plain_measured"] is None and ran["seconds"]["measured"] > 0
    assert not plain["fits"] and 1 <= plain["largest_batch"] < BATCH
    assert gradients["bitwise"] and 1 <= gradients["batch_size"] <= plain["largest_batch"]
    notes = " ".join(ran["notes"])
    assert "plain step: does not fit (predicted " in notes
    assert f"gradients were compared at batch {gradients['batch_size']}" in notes
    assert "op costs: measured on a scheduled step" in notes or "costs are estimated, not measured" in notes


def test_measured_memory_equals_the_prediction(ran: dict) -> None:
    peak = ran["peak_bytes"]
    assert peak["measured"] == pytest.approx(peak["predicted"], rel=0.08)
    live = ran["measured_live_bytes"]
    assert len(live) == ran["steps"] and max(live) == pytest.approx(peak["measured_requested"], rel=0.01)


@pytest.mark.long
def test_its_schedule_is_verified_under_the_same_limit(ran: dict, limited: tuple[Path, int, int]) -> None:
    folder, _, limit = limited
    asked = f"out/schedule.json -g out/graph.json --budget {ran['budget_bytes']}"
    code, out, err = checkmate(folder, "verify", *STEP, *asked.split(), limit=limit)
    assert code == 0, err
    assert "as promised" in out and "plain step does not fit (predicted " in out
    assert "bitwise equal to the plain step's (at batch " in out


@pytest.mark.long
def test_a_share_is_of_the_predicted_peak(ran: dict, limited: tuple[Path, int, int]) -> None:
    folder, _, limit = limited
    code, _, err = checkmate(
        folder, "solve", "out/graph.json", "--budget", "55%", "-o", "s.json", "--time-limit", 4
    )
    assert code == 0, err
    code, out, err = checkmate(
        folder, "export", *STEP, "s.json", "-g", "out/graph.json", "-o", "again", "--json", limit=limit
    )
    report = json.loads(out)
    assert code in (0, 5), err  # its budget counts requested bytes; whether chunks fit is not promised here
    assert report["gradients"]["bitwise"] and not report["plain_step"]["fits"]
    assert "the plain step's allocator should show" in " ".join(report["notes"])
