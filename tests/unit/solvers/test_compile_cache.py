"""Test that compiled kernels count only for their source files."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from checkmate.solvers.compile import cache as compile_cache


def folder_for(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(compile_cache, "__file__", str(place / "compile" / "cache.py"))
    return compile_cache.cache_folder.__wrapped__()


def test_a_copy_elsewhere_and_a_changed_file_are_compiled_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    solvers = Path(compile_cache.__file__).parents[1]
    for name in ("a", "b"):
        shutil.copytree(solvers, tmp_path / name)
    first, second = (folder_for(tmp_path / name, monkeypatch) for name in ("a", "b"))
    assert first != second and first == folder_for(tmp_path / "a", monkeypatch)
    touched = next((tmp_path / "a").glob("sequence/*.py"))
    os.utime(touched, (1, 1))
    other = folder_for(tmp_path / "a", monkeypatch)
    assert other != first
    touched.write_text("changed = True\n")
    os.utime(touched, (1, 1))
    assert folder_for(tmp_path / "a", monkeypatch) not in (first, other)
