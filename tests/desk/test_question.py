from __future__ import annotations

import pytest

from tests.desk.desk import Desk
from tests.desk.question import ask
from tests.desk.screen import missing

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.skipif(bool(missing()), reason=f"not installed: {', '.join(missing())}"),
]


def test_what_fills_the_peak_and_what_dropping_it_costs() -> None:
    with Desk(None, theme="dark") as desk:
        found = ask(desk)
    assert (found["clicks"], found["keys"]) == (2, 1)
