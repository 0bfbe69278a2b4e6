"""Test that our own processes import what this one runs with."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import checkmate
from checkmate.processes.children import module_command

ROOT = Path(checkmate.__file__).parents[1]


def test_nothing_is_imported_from_the_users_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("json.py", "queue.py", "checkmate/__init__.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("raise SystemExit('the wrong one')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    done = subprocess.run(
        module_command("checkmate", "--version"), capture_output=True, text=True, check=False, timeout=120
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "the wrong one" not in done.stdout and done.stdout.strip()


def test_a_checkout_that_is_not_installed_starts_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert "-P" not in module_command("checkmate")


def test_a_folder_that_was_removed_is_no_reason_to_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert "-P" in module_command("checkmate")
