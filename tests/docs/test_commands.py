from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from checkmate.cli.main import build_parser
from tests.docs.pages import PAGES, TEXTS, Block, blocks, name_of, prose
from tests.quick_start import QUICK

SHELL = [block for page in TEXTS for block in blocks(page, "sh")]
PYTHON = [block for page in TEXTS for block in blocks(page, "python")]
TRAINS = re.compile("import (jax|keras|tensorflow|torch)")  # they load a backend, trace and train
RUNNABLE = [page for page in PAGES if any(block.runs for block in blocks(page, "sh"))]


def environment(folder: Path) -> dict[str, str]:
    """Let ``checkmate`` be this checkout's, drawing without a screen."""
    command = folder / "bin" / "checkmate"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m checkmate "$@"\n')
    command.chmod(0o755)
    path = f"{command.parent}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, **QUICK, "PATH": path, "QT_QPA_PLATFORM": "offscreen"}


@pytest.mark.heavy  # the parser takes every command below, in a moment
@pytest.mark.parametrize("page", RUNNABLE, ids=name_of)
def test_a_pages_commands_run_one_after_the_other(page: Path, tmp_path: Path) -> None:
    given, folder = environment(tmp_path), tmp_path / "work"
    folder.mkdir()
    for block in blocks(page, "sh"):
        if block.runs:
            done = subprocess.run(
                ["bash", "-euc", block.code],
                cwd=folder,
                env=given,
                capture_output=True,
                text=True,
                timeout=300,
            )
            assert done.returncode == 0, f"{block}: {done.stdout[-1000:]}{done.stderr[-2000:]}"
            for text in block.prints:
                assert text in done.stdout, f"{block} does not print {text!r}: {done.stdout[-2000:]}"


@pytest.mark.parametrize(
    "block",
    [
        pytest.param(block, id=str(block), marks=pytest.mark.heavy if TRAINS.search(block.code) else ())
        for block in PYTHON
        if block.runs
    ],
)
def test_marked_python_runs(block: Block, tmp_path: Path) -> None:
    if "import jax" in block.code:
        pytest.importorskip("jax")  # an extra
    if "import torch" in block.code:
        pytest.importorskip("torch")  # an extra
    done = subprocess.run(
        [sys.executable, "-c", block.code], cwd=tmp_path, env=environment(tmp_path), capture_output=True,
        text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, f"{block}: {done.stderr[-2000:]}"


@pytest.mark.parametrize("block", PYTHON, ids=str)
def test_all_python_compiles(block: Block) -> None:
    compile(block.code, str(block), "exec")


@pytest.mark.parametrize("block", SHELL, ids=str)
def test_the_parser_accepts_every_command(block: Block) -> None:
    for words in commands(block.code):
        if words[0].rpartition("/")[2] == "checkmate":
            assert build_parser().parse_args(words[1:]).command is not None, f"{block}: {words}"


def commands(code: str) -> list[list[str]]:
    """Return each command's words. Comments are left out, and settings before a command too."""
    found: list[list[str]] = []
    for line in code.replace("\\\n", " ").splitlines():
        words: list[str] = []
        for word in [*shlex.split(line, comments=True), "&&"]:
            if word != "&&":
                words.append(word)
            elif words:
                while "=" in words[0]:
                    words = words[1:]
                found.append(words)
                words = []
    return found


@pytest.mark.parametrize("page", TEXTS, ids=name_of)
def test_commands_in_sentences_exist(page: Path) -> None:
    known = set(build_parser()._subparsers._group_actions[0].choices)
    named = set(re.findall(r"`checkmate ([a-z][a-z-]*)\b", prose(page)))
    assert named <= known


def test_some_commands_run() -> None:
    assert sum(block.runs for block in SHELL) >= 8
    assert sum(block.runs for block in PYTHON) >= 1
