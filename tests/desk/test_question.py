from __future__ import annotations

import pytest

from tests.desk.desk import Desk
from tests.desk.question import ask
from tests.desk.screen import on_a_screen

pytestmark = [pytest.mark.heavy, on_a_screen]


def test_what_fills_the_peak_and_what_dropping_it_costs() -> None:
    with Desk(None, theme="dark") as desk:
        found = ask(desk)
    assert (found["clicks"], found["keys"]) == (2, 1)
