"""Test where to aim next, against allocators and compilers that are made up here."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from checkmate.planning.aim import USED, WORTH, Aim, Reading

ROOM = 10_000
Meter = Callable[[int], int]


def smooth(requested: int) -> int:
    return int(1.1 * requested)


def lumpy(requested: int) -> int:
    """Return what a fragmented allocator shows. It is more for some smaller requests."""
    return requested + (1700 if requested // 700 % 2 else 600)


def cost(requested: int) -> float:
    """Return the cost of the cheapest schedule: the less memory, the dearer."""
    return 1.0 + max(0, 12_000 - requested) / 20_000


def play(meter: Meter, target: int) -> tuple[list[Reading], Aim]:
    """Return all shots until the aim is settled, and the aim."""
    aim = Aim(ROOM, target, rate=1.15, base_cost=1.0)
    return shoot(aim, meter), aim


def shoot(aim: Aim, meter: Meter, least: int = 3000) -> list[Reading]:
    """Return all shots until the aim is settled. No schedule requests less than ``least``."""
    shots: list[Reading] = []
    for _ in range(30):
        if aim.settled:
            break
        if aim.target < least:
            aim.found_nothing()
            continue
        shots.append(Reading(aim.target, aim.target, meter(aim.target), cost(aim.target)))
        aim.took(shots[-1])
    assert aim.settled
    return shots


@pytest.mark.parametrize("target", [3500, 6000, 8000, 9500, 20_000])
@pytest.mark.parametrize("meter", [smooth, lumpy])
def test_it_ends_soon_with_a_schedule_that_fits_and_uses_the_room(meter: Meter, target: int) -> None:
    shots, aim = play(meter, target)
    fitting = [shot for shot in shots if shot.shown <= ROOM]
    assert aim.fitted and fitting and len(shots) <= 8
    best = min(fitting, key=lambda shot: shot.cost)
    cheapest = min(shot.cost for shot in shots)
    assert best.shown >= USED * ROOM or best.cost - cheapest <= WORTH or meter is lumpy
    assert best.shown >= 0.9 * ROOM


def test_no_memory_is_spent_where_the_cost_cannot_fall() -> None:
    aim = Aim(ROOM, 5000, rate=1.0, base_cost=1.0)
    aim.took(Reading(5000, 5000, 5200, 1.0 + WORTH / 2))
    assert aim.settled and aim.fitted


def test_a_dear_schedule_far_below_the_room_is_not_the_end() -> None:
    aim = Aim(ROOM, 5000, rate=1.0, base_cost=1.0)
    aim.took(Reading(5000, 5000, 5200, 1.2))
    assert not aim.settled and 9000 < aim.target <= ROOM


def test_it_gives_up_where_nothing_is_found() -> None:
    shots, aim = play(lambda requested: requested + 8000, 6000)
    assert not aim.fitted and shots[-1].requested < 3700
    nothing = Aim(ROOM, 5000, rate=1.0, base_cost=1.0)
    nothing.found_nothing()
    assert nothing.settled and not nothing.fitted


@pytest.mark.parametrize("target", [7000, ROOM - 1])
def test_the_whole_is_tried_once_if_nothing_was_found(target: int) -> None:
    aim = Aim(ROOM, target, rate=1.0, base_cost=1.0, whole=ROOM)
    aim.found_nothing()
    assert aim.target == ROOM and not aim.settled
    aim.found_nothing()
    assert aim.settled and not aim.fitted


def test_a_target_is_never_at_or_below_one_without_a_schedule() -> None:
    aim = Aim(ROOM, 9000, rate=1.0, base_cost=1.0)
    aim.took(Reading(9000, 9000, 15_000, 2.0))  # over by more than half of it
    floor = aim.target
    aim.found_nothing()
    assert floor < aim.target < 9000
    aim.took(Reading(aim.target, aim.target, 3 * ROOM, 2.0))
    assert aim.target > floor


@pytest.mark.parametrize("meter", [smooth, lumpy])
def test_less_room_lowers_the_aim_and_what_fitted_is_forgotten(meter: Meter) -> None:
    shots, aim = play(meter, 8000)
    over = max((shot for shot in shots if shot.shown <= ROOM), key=lambda shot: shot.target)
    aim.begin_again(9000, over)
    assert not aim.settled and not aim.fitted and aim.target < over.target
    again = shoot(aim, meter)
    fitting = [shot for shot in again if shot.shown <= 9000]
    assert aim.fitted and len(again) <= 8 and all(shot.target < over.target for shot in again)
    assert max(shot.shown for shot in fitting) >= 0.85 * 9000
