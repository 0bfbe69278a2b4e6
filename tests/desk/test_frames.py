from __future__ import annotations

import numpy as np
import pytest

from app.theme import DARK, LIGHT, Theme
from checkmate.formats import write_graph
from tests.desk import course
from tests.desk.desk import Desk
from tests.desk.frames import Pixels, Verdict, emptied, filled_tiles
from tests.desk.screen import on_a_screen
from tests.generated_graphs import training_dag

heavy = pytest.mark.heavy


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    path = tmp_path_factory.mktemp("graphs") / "graph.json"
    graph = training_dag(3, 50)
    write_graph(path, graph)
    with Desk(path, theme="dark") as made:
        made.until_open(graph.n)
        made.until(lambda: made.state["known"] >= 4, "some schedules are known")
        yield made


def whole(verdict: Verdict) -> bool:
    assert verdict.frames > 10 and verdict.changed > 3, verdict
    assert verdict.bad_frames == 0, verdict
    return True


@heavy
@on_a_screen
def test_no_panel_is_empty_while_the_slider_is_dragged(desk) -> None:
    verdict = desk.watch(course.drag(desk, 3.0))
    assert whole(verdict) and verdict.answers


@heavy
@on_a_screen
def test_no_panel_is_empty_while_the_animation_plays(desk) -> None:
    assert whole(desk.watch(course.play(desk, 1.5)))


@heavy
@on_a_screen
def test_no_panel_is_empty_while_the_wheel_zooms(desk) -> None:
    verdict = desk.watch(course.zoom(desk, 5), but=course.EMPTIED)
    assert whole(verdict) and verdict.answers


@heavy
@on_a_screen
def test_no_panel_is_empty_in_another_size(desk) -> None:
    assert whole(course.resize(desk, [(1150, 760), (1400, 900)]))


@heavy
@on_a_screen
def test_no_panel_is_empty_and_none_is_left_behind_in_another_theme(desk) -> None:
    for theme in (LIGHT, DARK):
        frames: list[Pixels] = []
        course.name_theme(desk, theme.name)
        verdict = desk.watch(course.take_theme(desk, theme.name), kept=frames)
        assert verdict.frames > 10 and verdict.changed >= 1 and verdict.bad_frames == 0, verdict
        assert frames and not any(share_of(LIGHT, one) > 0.01 < share_of(DARK, one) for one in frames)
        assert share_of(theme, frames[-1]) > 0.2


def share_of(theme: Theme, frame: Pixels) -> float:
    """Return the share of a frame that has the colour of the theme's panels."""
    color = np.uint32(int(theme.tokens["panel"].removeprefix("#"), 16))
    return float(((frame & np.uint32(0xFFFFFF)) == color).mean())


@pytest.mark.long  # on a busy machine the graph may come after the harness stops waiting
@on_a_screen
def test_the_first_graph_comes_on_screen_at_once() -> None:
    assert whole(course.first_graph("light"))


@heavy
@on_a_screen
def test_no_panel_is_empty_while_addresses_follow_the_slider(desk) -> None:
    x, y, wide, _ = desk.panel("graph")
    desk.hand.click(x + wide - 20, y + 12)
    desk.hand.key("shift+v")
    desk.until(lambda: "addresses" in desk.state["panels"], "the allocator's view is there")
    desk.still()
    verdict = desk.watch(course.drag(desk, 3.0))
    desk.hand.key("shift+v")
    assert whole(verdict) and verdict.answers


@heavy
@on_a_screen
def test_no_panel_is_empty_when_another_graph_opens(desk, tmp_path) -> None:
    other = tmp_path / "other.json"
    write_graph(other, training_dag(5, 40))
    course.name_other(desk, other)
    assert whole(desk.watch(course.open_other(desk, "network5")))


def test_an_emptied_panel_is_noticed() -> None:
    still = np.zeros((240, 240), np.uint32)
    still[::7] = 1  # every tile has two colours
    content = filled_tiles(still)
    assert content.all() and content.shape == (8, 8)
    frame = still.copy()
    frame[:60] = 5
    assert emptied(filled_tiles(frame), content, content) == 0.25
    verdict = Verdict()
    for share in (0.0, 0.25, 0.75):
        verdict.judge({"graph": share, "curve": 0.0})
    assert (verdict.frames, verdict.bad_frames) == (3, 2)
    assert verdict.blank == {"graph": 1} and verdict.half == {"graph": 1}
    assert emptied(filled_tiles(frame), content, np.zeros_like(content)) == 0.0  # nothing is there afterwards
