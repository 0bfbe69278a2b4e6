"""Of cards that a step fits, only what is known and proved is said."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from checkmate import planning
from checkmate.catalog.cards import Cards, CardSize, common_cards
from checkmate.cli.main import main
from checkmate.cli.output import fit_exit_code
from checkmate.formats import write_graph
from checkmate.frontiers.cards import CardFit, card_rows, label, text
from checkmate.ir import Graph
from checkmate.solvers.known_frontier import Frontier
from tests.graphs_strategies import training_chain


def cards_of(*budgets: int, reserve: int = 7) -> Cards:
    return Cards(reserve, tuple(CardSize(budget + reserve, (f"card {budget}",)) for budget in budgets))


def small(graph: Graph, share: float) -> tuple[int, list[int]]:
    budget = int(planning.keep_everything_peak(graph) * share)
    found = planning.solve(graph, budget, solver="greedy")
    assert found.peak_bytes is not None
    return found.peak_bytes, found.require_schedule().steps.tolist()


def test_each_row_says_what_is_known_and_no_more() -> None:
    graph = training_chain(6)
    plain = planning.keep_everything_peak(graph)
    peak, steps = small(graph, 0.8)
    frontier = Frontier(graph)
    frontier.add(range(graph.n), solver="keep-all")
    frontier.add(steps, solver="greedy")
    cards = cards_of(peak - 2, peak - 1, peak, plain)
    known = [CardFit.UNKNOWN, CardFit.FITS, CardFit.KEEPS]
    assert [row.fit for row in card_rows(frontier, cards, plain)] == [CardFit.UNKNOWN, *known]
    frontier.add_bound(peak - 2, math.inf)
    rows = card_rows(frontier, cards, plain)
    assert [row.fit for row in rows] == [CardFit.TOO_SMALL, *known]
    said = [label(row, graph.base_cost) for row in rows]
    assert said[0] == "does not fit, proved" and said[1].startswith("not known")
    assert said[2].startswith("fits at +") and "above the best" in said[2] and said[3] == "keeps everything"
    assert [row.proved for row in rows] == [True, False, False, True]
    frontier.add_bound(peak, frontier.best(peak).cost)
    row = card_rows(frontier, cards, plain)[2]
    assert row.proved and label(row, graph.base_cost).endswith(", proved least")
    whole = text(graph, plain, cards, rows)
    assert "card" in whole and "assumed" in whole


def test_the_exit_code_says_fits_proved_not_and_not_known() -> None:
    codes = [fit_exit_code(fits=fits, refuted=refuted) for fits, refuted in ((True, False), (False, True))]
    assert [*codes, fit_exit_code(fits=False, refuted=False)] == [0, 3, 4]


def test_the_table_is_sorted_and_leaves_something_of_each_card() -> None:
    cards = common_cards()
    memory = [size.memory_bytes for size in cards.sizes]
    assert memory == sorted(set(memory)) and 0 < cards.reserve_bytes < memory[0]
    names = [name for size in cards.sizes for name in size.cards]
    assert len(set(names)) == len(names) and all(size.cards for size in cards.sizes)


@pytest.mark.parametrize(
    ("reserve", "fits", "code"), [("1GiB", CardFit.KEEPS, 0), ("1TiB", CardFit.TOO_SMALL, 3)]
)
def test_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], reserve: str, fits: CardFit, code: int
) -> None:
    graph = training_chain(6)
    file = tmp_path / "chain.json"
    write_graph(file, graph)
    asked = ["cards", str(file), "--reserve", reserve, "--time-limit", "2"]
    assert main([*asked, "--json", "--quiet"]) == code
    told = json.loads(capsys.readouterr().out)
    assert told["format"] == "checkmate-cards" and told["graph"]["fingerprint"] == graph.fingerprint
    assert {row["fit"] for row in told["rows"]} == {fits.value}
    assert all(row["proved"] for row in told["rows"])
    assert (told["rows"][0]["cost"] is None) == (fits is CardFit.TOO_SMALL)
    assert main([*asked, "--quiet"]) == code
    assert ("does not fit, proved" in capsys.readouterr().out) == (fits is CardFit.TOO_SMALL)


def test_a_file_that_is_not_there_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cards", "no-such.json", "--json"]) == 2
    assert "no-such.json" in json.loads(capsys.readouterr().out)["error"]["message"]
