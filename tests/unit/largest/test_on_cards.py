from __future__ import annotations

import json
from dataclasses import replace

import pytest

import checkmate
from checkmate.catalog.cards import Card, card_models, cards_called, common_cards
from checkmate.cli.main import main
from checkmate.errors import UsageError
from checkmate.frontiers.cards import CardFit
from checkmate.graphs.by_name import build_paper_graph
from checkmate.ir import CostOrigin, CostUnit, Graph, GraphBuilder, Schedule
from checkmate.largest import roofline
from checkmate.largest.batch import max_batch
from checkmate.largest.cards_table import text
from checkmate.largest.on_cards import plans_for_cards
from checkmate.largest.roofline import op_seconds, priced, state_seconds, step_seconds
from checkmate.largest.scaling import BatchScaling
from checkmate.memory.simulate import simulate
from checkmate.solvers.problem import SolveOptions

CARD = Card("test", 100_000, bandwidth=1e9, vector=1e9, matrix=1e10, half=1e11)
BRIEF = SolveOptions(time_limit_s=2.0)


def counted(*ops: tuple[str, float, int, str], fixed: dict[str, int] | None = None) -> Graph:
    """Return a chain of ops at batch 4. Of each: type, operations, bytes of the output and its dtype."""
    builder, before = GraphBuilder("counted"), []
    for place, (kind, cost, size, dtype) in enumerate(ops):
        value = builder.value(f"v{place}", size, shape=(4, size // 16), dtype=dtype)
        builder.op(f"op{place}", before, [value], type=kind, cost=cost)
        before = [value]
    fixed = fixed or {}
    return builder.build(
        batch_size=4,
        fixed=fixed,
        fixed_bytes=sum(fixed.values()),
        cost_unit=CostUnit.FLOP,
        cost_origin=CostOrigin.ANALYTIC,
    )


def test_an_op_takes_the_longer_of_its_operations_and_its_bytes() -> None:
    graph = counted(
        ("MatMul", 1e9, 1600, "float32"),  # 1e9 / (0.5 * 1e10)
        ("Relu", 400, 1600, "float32"),  # 3200 bytes / (0.75 * 1e9)
        ("DepthwiseConv2dNative", 1e9, 1600, "float32"),  # no tensor cores: 1e9 / (0.5 * 1e9)
        ("MatMul", 1e9, 1600, "float16"),  # 1e9 / (0.5 * 1e11)
    )
    seconds = op_seconds(graph, CARD) - roofline.START_S
    assert seconds == pytest.approx([0.2, 3200 / 0.75e9, 2.0, 0.02])


def test_a_view_takes_no_time() -> None:
    builder = GraphBuilder("view")
    read = builder.value("x", 1600)
    builder.op("make", [], [read])
    builder.op("reshape", [read], [builder.value("y", 1600, alias_of=read)])
    assert op_seconds(builder.build(cost_unit=CostUnit.FLOP), CARD)[1] == 0


def test_parameters_are_moved_more_often_than_the_optimizers_state() -> None:
    moved = {name: state_seconds(counted(("Relu", 1, 16, "float32"), fixed={name: 750}), CARD)
             for name in ("parameters", "optimizer", "inputs")}  # fmt: skip
    assert moved == pytest.approx({"parameters": 4e-6, "optimizer": 2e-6, "inputs": 1e-6})


def test_a_network_built_from_layers_counts_products_once() -> None:
    graph = build_paper_graph("paper.vgg16", 4)
    twice = replace(graph, metadata={}, ops=tuple(replace(op, cost=2 * op.cost) for op in graph.ops))
    assert op_seconds(graph, CARD) == pytest.approx(op_seconds(twice, CARD))


def test_prices_are_right_at_the_batch_they_are_made_for() -> None:
    scaling = BatchScaling(build_paper_graph("paper.vgg16", 4))
    made = priced(scaling, CARD, 12)
    assert made.at(12).cost == pytest.approx(op_seconds(scaling.at(12), CARD))
    assert made.graph.cost_unit is CostUnit.SECONDS


@pytest.mark.parametrize("kib", [40, 100, 400])
def test_a_plan_holds_on_its_card(kib: int) -> None:
    """Hold what is said of a card against a search without cards."""
    graph = counted(*[("MatMul", 1e6 * (1 + place % 3), 1600, "float32") for place in range(9)])
    scaling = BatchScaling(graph)
    card = replace(CARD, memory_bytes=kib * 1024 + 7)
    (plan,) = plans_for_cards(scaling, [card], reserve_bytes=7, max_overhead=1.0, options=BRIEF)
    assert plan.answer is CardFit.FITS and plan.plain is not None and plan.largest is not None

    def plain_fits(batch: int) -> bool:
        at = scaling.at(batch)
        return simulate(at, Schedule.plain(at)).peak_bytes <= kib * 1024

    assert plain_fits(plan.plain.batch) and not plain_fits(plan.plain.batch + 1)
    assert plan.plain.seconds == pytest.approx(step_seconds(scaling.at(plan.plain.batch), range(9), card))
    assert plan.plain.batch <= plan.largest.batch <= (plan.upper_batch or 0)
    assert 0 <= plan.largest.overhead <= 1.0
    alone = max_batch(scaling, kib * 1024, max_overhead=1.0, options=BRIEF)
    assert alone.batch <= (plan.upper_batch or 0) and plan.largest.batch <= alone.upper_batch


def test_a_card_without_room_for_one_example_is_proved_too_small() -> None:
    scaling = BatchScaling(counted(("MatMul", 1e6, 1600, "float32"), ("Relu", 4, 1600, "float32")))
    plans = plans_for_cards(
        scaling, [CARD, replace(CARD, memory_bytes=900)], reserve_bytes=600, options=BRIEF
    )
    assert [plan.answer for plan in plans] == [CardFit.FITS, CardFit.TOO_SMALL]
    assert plans[1].plain is plans[1].largest is None and plans[1].upper_batch == 0
    said = text(scaling, plans, 600, None)
    assert "not one example fits, proved" in said and "estimated" in said


def test_cancelled_keeps_the_cards_that_are_done() -> None:
    scaling = BatchScaling(counted(("MatMul", 1e6, 1600, "float32"), ("Relu", 4, 1600, "float32")))
    told: list[object] = []

    def cancelled() -> bool:
        return len(told) > 1

    plans = plans_for_cards(
        scaling, [CARD] * 3, reserve_bytes=0, options=BRIEF, report=told.append, cancelled=cancelled
    )
    assert len(plans) < 3


def test_measured_costs_say_nothing_of_another_card() -> None:
    graph = replace(counted(("MatMul", 1.0, 1600, "float32")), cost_unit=CostUnit.SECONDS)
    with pytest.raises(UsageError, match="not counts of operations") as caught:
        plans_for_cards(BatchScaling(graph), [CARD], reserve_bytes=0)
    assert 'costs="analytic"' in caught.value.hint


def test_cards_are_found_by_a_part_of_their_names() -> None:
    assert [card.name for card in cards_called(["a10"])] == ["A10"]
    assert [card.name for card in cards_called(["A100"])] == ["A100 40 GB", "A100 80 GB"]
    assert cards_called([]) == card_models()
    with pytest.raises(UsageError, match="no card called 'potato'"):
        cards_called(["T4", "potato"])


def test_the_table_is_of_one_piece() -> None:
    cards = card_models()
    assert [card.memory_bytes for card in cards] == sorted(card.memory_bytes for card in cards)
    assert len({card.name for card in cards}) == len(cards)
    assert all(card.vector <= card.matrix <= card.half for card in cards)
    assert sum(len(size.cards) for size in common_cards().sizes) == len(cards)


def test_command_and_python_say_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["paper.unet", "--devices", "T4", "--max-overhead", "0", "--time-limit", "2"]
    assert main(["plan", *asked, "--json", "--quiet"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    (plan,) = checkmate.plan("paper.unet", ["t4"], max_overhead=0.0, options=BRIEF)
    assert plan.plain is not None
    assert row["plain"]["batch"] == plan.plain.batch and row["plain"]["seconds"] == plan.plain.seconds
