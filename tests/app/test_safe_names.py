"""Test that no name from a file becomes markup in what the window saves."""

from __future__ import annotations

from datetime import datetime

import pytest

from app.models.exploration import Exploration
from app.presenters.report_page import html_report
from tests.safety.test_names import NAMES, Tags, named


@pytest.mark.parametrize("name", NAMES)
def test_the_page_that_is_shared(name: str, qapp) -> None:
    plain, exploration = Exploration(), Exploration()
    plain.set_graph(named("plain"))
    exploration.set_graph(named(name))
    when = datetime(2026, 1, 1)
    expected, page = (Tags(html_report(each.reported(), when)) for each in (plain, exploration))
    assert page.odd == expected.odd == []
    assert page.tags.count("script") == expected.tags.count("script")
    assert sorted(set(page.tags)) == sorted(set(expected.tags))
