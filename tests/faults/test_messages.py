"""Test that a harmed message ends in an answer or an error.

``python -m tests.faults.messages PROTOCOL`` harms every message.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from checkmate.ipc.messages import Hello, MessageTable
from checkmate.ipc.protocol import FrameDecoder, ProtocolError
from checkmate.solvers.compile import compilation as compiling
from checkmate.solvers.compile.messages import COMPILE_MESSAGES, KernelDone
from checkmate.solvers.pathcut import in_process
from checkmate.solvers.pathcut.in_process import ProverProcess
from tests.faults.conversations import PROTOCOLS
from tests.faults.relay import FAULTS, damaged, type_of
from tests.graphs_strategies import training_chain

SILENT = [sys.executable, "-c", "import time; time.sleep(60)"]


@pytest.mark.long
@pytest.mark.parametrize("name", PROTOCOLS)
def test_one_message_of_each_direction_is_harmed(name: str) -> None:
    command = [sys.executable, "-m", "tests.faults.messages", name, "--most", "1", "--patience", "60"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr[-2000:]
    assert sum(json.loads(ended.stdout)["tried"].values()) == 2 * len(FAULTS)


@pytest.mark.parametrize("part", ["lengths", "header"])
def test_the_harness_damages_what_it_says(part: str) -> None:
    frame = MessageTable().encode(Hello("a child", 7))
    assert type_of(frame) == "Hello"
    with pytest.raises(ProtocolError):
        list(FrameDecoder().feed(damaged(frame, part)))


def compiled(frames: bytes, tmp_path: Path) -> bool:
    """Return whether a process that says only ``frames`` compiles "x"."""
    (tmp_path / "said").write_bytes(frames)
    with subprocess.Popen(
        ["cat", str(tmp_path / "said"), "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    ) as child:
        made = compiling._compiled_by(child, COMPILE_MESSAGES.reader(), "x")
        child.kill()
    return made


@pytest.mark.parametrize(
    ("said", "made"),
    [
        (["x"], True),
        (["y", "x"], True),  # an answer that comes late is not the next one's
        (["y"], False),
        ([], False),
    ],
)
def test_a_compiler_that_does_not_answer_is_given_up(
    said: list[str], made: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiling, "_SILENT_S", 0.3)
    frames = b"".join(COMPILE_MESSAGES.encode(KernelDone(name, None)) for name in said)
    assert compiled(frames, tmp_path) is made
    assert not compiled(frames[:-1], tmp_path)


def test_a_prover_whose_end_is_lost_is_over(
    monkeypatch: pytest.MonkeyPatch, until: Callable[[Callable[[], bool]], bool]
) -> None:
    monkeypatch.setattr(in_process, "_SILENT_S", 0.2)
    monkeypatch.setattr(in_process, "module_command", lambda module: SILENT)
    with ProverProcess(training_chain(4)) as prover:
        prover.prove(40, seconds=0.0)
        child = prover._child
        assert child is not None and not prover.state().over
        assert until(lambda: prover.state().over)
        assert child.poll() is not None and prover.state().bound == prover.graph.base_cost
