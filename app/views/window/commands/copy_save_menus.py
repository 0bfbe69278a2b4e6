"""Which pictures and which data each panel offers to copy or save."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from app.actions import action
from app.models.exploration import Exploration
from app.presenters import view_tables as tables
from app.presenters.paper import Shows
from app.presenters.view_tables import ViewTable
from app.state.knowledge import ListedSchedule
from app.views.common.view_saver import SavableView, ViewSaver

if TYPE_CHECKING:
    from app.views.window.explorer import Explorer


def add_copy_save_menus(saver: ViewSaver, explorer: Explorer, exploration: Exploration) -> None:
    """Add a menu to every panel."""

    def of_shown(make: Callable[[ListedSchedule], ViewTable]) -> Callable[[], ViewTable | None]:
        return lambda: None if exploration.shown is None else make(exploration.shown)

    def schedules() -> ViewTable | None:
        return None if exploration.graph is None else tables.schedules_table(explorer.schedules.rows)

    def frontier() -> ViewTable | None:
        return (
            None
            if exploration.graph is None
            else tables.frontier_table(exploration.known, exploration.frontier)
        )

    def solve() -> ViewTable | None:
        return None if exploration.solve is None else tables.solve_table(exploration.solve)

    def layers() -> ViewTable | None:
        return None if exploration.graph is None else tables.layers_table(exploration.graph)

    def moment() -> ViewTable | None:
        now = explorer.inspector.hotspot.now
        return None if now is None else tables.moment_table(now)

    def addresses() -> ViewTable | None:
        blocks = explorer.allocator.answering
        return None if blocks is None else blocks.table()

    docks = explorer.area.docks
    r, s = explorer.matrices
    add = saver.add_menu
    add(explorer.layers, SavableView("Layers", docks["layers"], layers))
    add(explorer.schedules, SavableView("Schedules", docks["schedules"], schedules))
    add(
        explorer.graph_panel,
        SavableView("Training graph", explorer.graph_view, of_shown(tables.ops_table), Shows.GRAPH),
    )
    add(
        explorer.timeline_panel,
        SavableView("Memory curve", explorer.curve, of_shown(tables.steps_table), Shows.CURVE),
        SavableView("Addresses", explorer.allocator, addresses),
        SavableView("R", r, of_shown(tables.computed_table), Shows.R),
        SavableView("S", s, of_shown(tables.held_table), Shows.S),
        more=((action("playback.save").words, explorer.film.ask),),
    )
    add(explorer.budget, SavableView("Frontier", explorer.budget.frontier, frontier, Shows.FRONTIER))
    add(explorer.solving, SavableView("Solving", docks["solving"], solve))
    add(explorer.inspector, SavableView("Memory now", docks["inspector"], moment))
