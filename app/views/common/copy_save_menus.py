"""Which pictures and which data each panel offers to copy or save."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from app.actions import action
from app.models.exploration import Exploration
from app.presenters import tables
from app.presenters.tables import Table
from app.state.knowledge import Found
from app.views.common.take_out import Takeable, TakeOut

if TYPE_CHECKING:
    from app.views.window.explorer import Explorer


def put_outlets(take_out: TakeOut, explorer: Explorer, exploration: Exploration) -> None:
    """Add a menu to every panel."""

    def of_shown(make: Callable[[Found], Table]) -> Callable[[], Table | None]:
        return lambda: None if exploration.shown is None else make(exploration.shown)

    def schedules() -> Table | None:
        return None if exploration.graph is None else tables.schedules_table(exploration.known)

    def frontier() -> Table | None:
        return (
            None
            if exploration.graph is None
            else tables.frontier_table(exploration.known, exploration.frontier)
        )

    def solve() -> Table | None:
        return None if exploration.solve is None else tables.solve_table(exploration.solve)

    def layers() -> Table | None:
        return None if exploration.graph is None else tables.layers_table(exploration.graph)

    def moment() -> Table | None:
        now = explorer.inspector.hotspot.now
        return None if now is None else tables.moment_table(now)

    r, s = explorer.matrices
    put = take_out.put_on
    put(explorer.layers, Takeable("Layers", explorer.layers, layers))
    put(explorer.schedules, Takeable("Schedules", explorer.schedules, schedules))
    put(explorer.graph_panel, Takeable("Training graph", explorer.graph_view, of_shown(tables.ops_table)))
    put(
        explorer.timeline_panel,
        Takeable("Memory curve", explorer.curve, of_shown(tables.steps_table)),
        Takeable("R", r, of_shown(tables.computed_table)),
        Takeable("S", s, of_shown(tables.held_table)),
        more=((action("playback.save").words, explorer.film.ask),),
    )
    put(explorer.budget, Takeable("Frontier", explorer.budget.frontier, frontier))
    put(explorer.solving, Takeable("Solving", explorer.solving, solve))
    put(explorer.inspector, Takeable("Memory now", explorer.inspector, moment))
