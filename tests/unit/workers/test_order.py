"""Test messages that come too late or too early.

They go to the solver, the placing and the animation process.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from checkmate.ipc.child import Inbox
from checkmate.ipc.messages import Cancel, Message, MessageError
from checkmate.ipc.steps import pack_steps
from checkmate.memory.placement import Placement
from checkmate.workers import animation, placer, solver
from checkmate.workers.messages.animation import AnimationFrame, AnimationSample, BeginAnimation
from checkmate.workers.messages.placer import Placed, PlaceSchedule
from checkmate.workers.messages.solver import FindLeastMemory, SolveBudget, SolveSkipped
from tests.graphs_strategies import training_chain


class Sent:
    """A channel that keeps what is sent."""

    def __init__(self) -> None:
        self.messages: list[Message] = []

    def send(self, message: Message) -> None:
        self.messages.append(message)


@pytest.mark.parametrize("later", [Cancel(1), SolveBudget(2, 2**20, 1.0), FindLeastMemory(2, None, 1.0)])
@pytest.mark.parametrize("asked", [SolveBudget(1, 2**20, 1.0), FindLeastMemory(1, 0.1, 1.0)])
def test_an_outdated_solve_is_not_begun(asked: Message, later: Message) -> None:
    channel, inbox = Sent(), Inbox()
    inbox.put(asked)
    inbox.put(later)
    solver._serve(channel, inbox, None, inbox.tasks.get())  # type: ignore[arg-type]
    assert channel.messages == [SolveSkipped(1)]


def test_an_outdated_schedule_is_not_placed_to_the_end() -> None:
    graph, channel, inbox = training_chain(9), Sent(), Inbox()
    older, newer = (PlaceSchedule(job, pack_steps(range(graph.n))) for job in (1, 2))
    inbox.put(older)
    inbox.put(newer)
    for asked in (older, newer):
        placer._place(channel, inbox, graph, asked)  # type: ignore[arg-type]
    (answer,) = channel.messages
    assert isinstance(answer, Placed) and answer.job == 2
    assert len(Placement.from_bytes(answer.placement).allocated) == graph.n


def test_a_frame_before_the_beginning_is_refused() -> None:
    channel, inbox = Sent(), Inbox()
    inbox.put(AnimationFrame(0, b"\0\0\0"))
    with pytest.raises(MessageError, match="expected BeginAnimation, not AnimationFrame"):
        animation._make(channel, inbox)  # type: ignore[arg-type]
    assert not channel.messages


@pytest.mark.parametrize("numbers", [[0, 0, 1], [1, 2], [0, 2]], ids=["twice", "no first", "a gap"])
def test_a_frame_that_is_lost_or_comes_twice_is_refused(numbers: list[int], tmp_path: Path) -> None:
    inbox, path, picture = Inbox(), tmp_path / "film.gif", bytes(3 * 4 * 4)
    inbox.put(BeginAnimation(path, 4, 4, (10, 10, 10), ((255, 255, 255),), 1))
    inbox.put(AnimationSample(0, picture))
    for number in numbers:
        inbox.put(AnimationFrame(number, picture))
    with pytest.raises(MessageError, match="expected picture"):
        animation._make(Sent(), inbox)  # type: ignore[arg-type]
    assert not path.exists()
