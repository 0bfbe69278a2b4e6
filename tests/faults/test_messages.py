"""Test that a harmed message ends in an answer or an error; ``python -m tests.faults.messages`` harms all."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from checkmate.errors import CancelledError
from checkmate.processes import conversation
from checkmate.processes.messages import Hello, JobProgress, Message, MessageError, MessageTable
from checkmate.progress import Progress, never
from checkmate.request import ModelRequest
from checkmate.solvers.pathcut import in_process
from checkmate.solvers.pathcut.in_process import ProverProcess
from checkmate.workers.window_messages import Profile, ProfiledGraph
from tests.faults.conversations import PROTOCOLS
from tests.faults.protocols import until
from tests.faults.recorded import play, record
from tests.faults.relay import FAULTS, damaged, type_of
from tests.graphs_strategies import training_chain
from tests.sent import Sent

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
    with pytest.raises(MessageError):
        list(MessageTable().reader().feed(damaged(frame, part)))


def test_a_prover_whose_end_is_lost_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_process, "_SILENT_S", 0.2)
    monkeypatch.setattr(conversation, "module_command", lambda module: SILENT)
    with ProverProcess(training_chain(4)) as prover:
        prover.prove(40, seconds=0.0)
        assert prover._talk is not None
        child = prover._talk.child
        assert not prover.state().over
        assert until(lambda: prover.state().over, 30.0)
        assert child.poll() is not None and prover.state().bound == prover.graph.base_cost


def test_recorded_answers_are_played_for_the_same_question(tmp_path: Path) -> None:
    def work(channel: Sent, asked: Profile, cancelled: Callable[[], bool]) -> Message:
        for number, stage in enumerate(["trace", *5 * ["measure"]]):
            channel.send(JobProgress(asked.job, Progress(stage, message=str(number))))
        return ProfiledGraph(asked.job, False, b"graph")

    asked, said = Profile(3, ModelRequest("m.keras", batch_size=2), "analytic"), Sent()
    recorded = record(tmp_path, work, said, asked, never)
    assert recorded == ProfiledGraph(3, False, b"graph") and len(said.messages) == 6
    played = Sent()
    assert play(tmp_path, played, replace(asked, job=8), never) == ProfiledGraph(8, False, b"graph")
    assert [message.progress.message for message in played.messages] == ["0", "1", "3", "5"]
    assert {message.job for message in played.messages} == {8}
    with pytest.raises(CancelledError):
        play(tmp_path, Sent(), asked, lambda: True)
