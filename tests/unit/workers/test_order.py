"""Test messages that come too late or too early.

They go to the solver, the placing and the animation process.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from checkmate.formats.graph import graph_to_json
from checkmate.memory.placement import Placement
from checkmate.processes.messages import Cancel, JobCancelled, JobFailed, Message, pack_steps
from checkmate.processes.serve import Inbox
from checkmate.workers.animation import AnimationServer
from checkmate.workers.messages import (
    BeginAnimation,
    FindLeastMemory,
    FrameTaken,
    GraphToReplay,
    Picture,
    Placed,
    PlaceSchedule,
    SolveBudget,
)
from checkmate.workers.replays import ReplayServer
from checkmate.workers.solver import SolverServer
from tests.graphs_strategies import training_chain
from tests.sent import Sent


@pytest.mark.parametrize("later", [Cancel(1), SolveBudget(2, 2**20, 1.0), FindLeastMemory(2, None, 1.0)])
@pytest.mark.parametrize("asked", [SolveBudget(1, 2**20, 1.0), FindLeastMemory(1, 0.1, 1.0)])
def test_an_outdated_solve_is_not_begun(asked: Message, later: Message) -> None:
    channel, inbox = Sent(), Inbox()
    inbox.put(asked)
    inbox.put(later)
    SolverServer(channel, inbox).answer(inbox.get())
    assert channel.messages == [JobCancelled(1)]


def test_an_outdated_schedule_is_not_placed_to_the_end() -> None:
    graph, channel, inbox = training_chain(9), Sent(), Inbox()
    older, newer = (PlaceSchedule(job, pack_steps(range(graph.n))) for job in (1, 2))
    inbox.put(older)
    inbox.put(newer)
    server = ReplayServer(channel, inbox)
    for asked in (GraphToReplay("", json.dumps(graph_to_json(graph)).encode()), older, newer):
        server.answer(asked)
    cancelled, answer = channel.messages
    assert cancelled == JobCancelled(1) and isinstance(answer, Placed) and answer.job == 2
    assert len(Placement.from_bytes(answer.placement).allocated) == graph.n


def animated(path: Path, numbers: list[int]) -> list[Message]:
    """Return what is said to a picture of one sample and three frames, with these numbers."""
    channel = Sent()
    server = AnimationServer(channel, Inbox())
    server.answer(BeginAnimation(path, 4, 4, (10, 10, 10), ((255, 255, 255),), 1))
    for number in numbers:
        server.answer(Picture(number, bytes(3 * 4 * 4)))
    return channel.messages


def test_a_frame_before_the_beginning_is_refused() -> None:
    channel = Sent()
    AnimationServer(channel, Inbox()).answer(Picture(0, b"\0\0\0"))
    (failed,) = channel.messages
    assert isinstance(failed, JobFailed) and failed.message == "expected BeginAnimation, not Picture"


@pytest.mark.parametrize("numbers", [[0, 1, 1], [1], [0, 2]], ids=["twice", "no first", "a gap"])
def test_a_frame_that_is_lost_or_comes_twice_is_refused(numbers: list[int], tmp_path: Path) -> None:
    path = tmp_path / "film.gif"
    *taken, failed = animated(path, numbers)
    assert isinstance(failed, JobFailed) and "expected picture" in failed.message
    assert all(isinstance(one, FrameTaken) for one in taken) and not path.exists()
    animated(path, [0, 1, 2, 3])
    assert path.exists()


def test_a_question_about_a_graph_that_was_lost_fails() -> None:
    for server_class, asked in (
        (SolverServer, SolveBudget(1, 2**20, 1.0)),
        (ReplayServer, PlaceSchedule(1, pack_steps([0]))),
    ):
        channel = Sent()
        server_class(channel, Inbox()).answer(asked)
        (failed,) = channel.messages
        assert isinstance(failed, JobFailed) and failed.job == 1
