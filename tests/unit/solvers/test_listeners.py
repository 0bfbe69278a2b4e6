"""Test the shared listeners and tolerances."""

from __future__ import annotations

import numpy as np

from checkmate.progress import never
from checkmate.solvers.listeners import CancelListener, CostCapListener, ForwardingListener
from checkmate.solvers.problem import Listener
from checkmate.solvers.tolerances import round_up_if_whole


class Recorder:
    def __init__(self) -> None:
        self.calls: list[tuple[object, ...]] = []

    def __getattr__(self, name: str) -> object:
        return lambda *given: self.calls.append((name, *given)) or name == "cancelled"


def test_silent_listeners_never_cancel() -> None:
    assert not Listener().cancelled()
    assert CancelListener(lambda: True).cancelled() and not CancelListener(never).cancelled()


def test_everything_is_passed_on() -> None:
    recorder = Recorder()
    listener = ForwardingListener(recorder)
    listener.preparing("compiling")
    listener.incumbent([0, 1], 2.0)
    listener.bound(1.0, ("given order",))
    listener.smaller([0], 3, 4.0)
    listener.bound_bytes(2, ())
    assert listener.cancelled()
    assert recorder.calls == [
        ("preparing", "compiling"),
        ("incumbent", [0, 1], 2.0),
        ("bound", 1.0, ("given order",)),
        ("smaller", [0], 3, 4.0),
        ("bound_bytes", 2, ()),
        ("cancelled",),
    ]


def test_a_cost_cap_is_settled_by_a_schedule_or_by_a_bound() -> None:
    cheap = CostCapListener(10.0, never)
    cheap.incumbent([0], 11.0)
    assert not cheap.cancelled()
    cheap.incumbent([1], 10.0)
    assert cheap.cancelled()
    dear = CostCapListener(10.0, never)
    dear.bound(12.0, ("given order",))
    assert not dear.cancelled() and dear.lower_bound == 0.0
    dear.bound(12.0, ())
    assert dear.settled and dear.lower_bound == 12.0
    assert not CostCapListener(None, never).cancelled() and CostCapListener(None, lambda: True).cancelled()


def test_a_bound_is_rounded_up_only_if_all_costs_are_whole() -> None:
    assert round_up_if_whole(np.array([1.0, 2.0]), 2.2) == 3
    assert round_up_if_whole(np.array([1.0, 2.0]), 2.0 + 1e-9) == 2
    assert round_up_if_whole(np.array([1.5, 2.0]), 2.2) == 2.2
