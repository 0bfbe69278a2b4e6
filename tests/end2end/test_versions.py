from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("tensorflow")

ROOT = Path(__file__).resolve().parents[2]
SENTENCE = "Checkmate needs TensorFlow 2.19 to 2.21; found 2.18.0"
COMMAND = "pip install 'tensorflow>=2.19,<2.22' 'keras>=3.12,<4'"
PYTHON = """
import sys, checkmate
try:
    checkmate.{call}
except checkmate.CheckmateError as error:
    print(error, error.hint, "tensorflow" in sys.modules, sep="|")
"""


@pytest.fixture
def old(tmp_path: Path) -> dict[str, str]:
    """Return an environment where TensorFlow is installed as 2.18.0."""
    facts = tmp_path / "old" / "tensorflow-2.18.0.dist-info"
    facts.mkdir(parents=True)
    (facts / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: tensorflow\nVersion: 2.18.0\n", encoding="utf-8"
    )
    path = os.pathsep.join(filter(None, (str(facts.parent), str(ROOT), os.environ.get("PYTHONPATH"))))
    return {**os.environ, "PYTHONPATH": path}


def run(old: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python with ``arguments`` in that environment."""
    return subprocess.run([sys.executable, *arguments], env=old, capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "unet", "--budget", "60%", "-o", "OUT"),
        ("profile", "unet", "-o", "OUT"),
        ("max-batch", "unet", "--budget", "1GiB"),
        ("list", "devices"),
    ],
)
def test_the_command_line(old: dict[str, str], tmp_path: Path, arguments: tuple[str, ...]) -> None:
    out = tmp_path / "out.json"
    done = run(old, "-m", "checkmate", *(str(out) if word == "OUT" else word for word in arguments), "--json")
    assert done.returncode == 2 and not out.exists()
    assert done.stderr.splitlines() == [f"checkmate: {SENTENCE}", f"  {COMMAND}"]
    assert json.loads(done.stdout)["error"]["message"] == SENTENCE


@pytest.mark.parametrize(
    "call",
    [
        "profile(checkmate.ModelRequest('unet'))",
        "rematerialize(object(), '1GiB')",
        "train_step(object(), '1GiB')",
    ],
)
def test_python_before_tensorflow_is_imported(old: dict[str, str], call: str) -> None:
    done = run(old, "-c", PYTHON.format(call=call))
    assert done.stdout.strip() == f"{SENTENCE}|{COMMAND}|False", done.stderr


def test_the_window(old: dict[str, str], tmp_path: Path) -> None:
    pytest.importorskip("PySide6")
    picture = tmp_path / "window.png"
    done = run(old, "-m", "checkmate", "explore", "unet", "--screenshot", str(picture))
    assert done.returncode == 2 and not picture.exists()
    assert done.stderr.splitlines()[-2:] == [f"checkmate: {SENTENCE}", f"  {COMMAND}"]


def test_commands_without_tensorflow_still_work(old: dict[str, str], chain_file: Path) -> None:
    done = run(old, "-m", "checkmate", "info", str(chain_file))
    assert done.returncode == 0 and "chain: 16 ops" in done.stdout
