from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from checkmate.charts.frontier import curve_svg, svg_text
from checkmate.formats.files import read_json
from checkmate.frontiers.curve import curve_of, read_curve
from checkmate.reports.gather import KINDS, RUN, gather
from checkmate.reports.html import Note, Picture, Section, Table, sections_page
from checkmate.units import format_bytes, format_overhead
from tests.unit.reports import writers
from tests.unit.reports.test_page import WHEN, Parsed
from tests.unit.reports.writers import Written


def words(section: Section) -> Iterator[str]:
    yield section.title
    yield from section.facts
    for figure, what in section.cards:
        yield f"{figure}: {what}"
    for block in section.blocks:
        if isinstance(block, Table):
            yield block.title
            yield from block.columns
            yield from (cell for row in block.rows for cell in row)
        elif isinstance(block, Note):
            yield from block.lines
        else:
            yield block.caption


def only(path: Path) -> Section:
    (section,) = gather([path]).sections
    return section


def rows(section: Section, title: str) -> list[dict[str, str]]:
    (found,) = [
        block for block in section.blocks if isinstance(block, Table) and block.title.startswith(title)
    ]
    return [dict(zip(found.columns, row, strict=True)) for row in found.rows]


def test_an_exported_step_of_jax(written: Written) -> None:
    section = only(written.folder / "jax_export.json")
    assert section.title == "chain: exported by jax.export"
    assert section.cards[0][0] == "NOT as promised" and section.cards[1][0] == "22.0 KiB"
    (reloaded,) = [row for row in rows(section, "Bytes") if row[""] == "the step read from the file"]
    assert reloaded["temporary"] == "18.0 KiB" and reloaded["shared"] == "2.00 KiB"
    assert any("over the budget" in text for text in words(section))


def test_every_kind_is_written_here(written: Written) -> None:
    formats = {read_json(path)["format"] for path in written.folder.rglob("*.json*")}
    assert formats == {*KINDS, *RUN}


def test_every_section_is_a_page_with_its_source(written: Written) -> None:
    found = gather([written.folder])
    assert found.left_out == () and len(found.sections) == len(writers.WRITERS) + 2  # two curves, the run
    for section in found.sections:
        parsed = Parsed(sections_page("one", [section], WHEN))
        assert section.title in parsed.text and parsed.tags.count("svg") == sum(
            isinstance(block, Picture) for block in section.blocks
        )
        assert section.sources and all(" of 20" in source for source in section.sources)


def test_a_curve_shows_what_was_found(written: Written) -> None:
    found = written.told["curve.json"]
    section = only(written.folder / "curve.json")
    shown = rows(section, "Budgets")
    assert len(shown) == len(found.rows)
    for row, told in zip(shown, found.rows, strict=True):
        assert row["budget"] == format_bytes(told.budget_bytes)
        assert (
            row["what is known"].split(",")[0] in ("infeasible", "optimal")
            or "above the best possible" in row["what is known"]
        )
        if told.point is not None:
            assert row["extra cost, solved"] == format_overhead(told.point.cost, found.graph.base_cost)
            assert row["lower bound, proved"] == format_overhead(told.lower_bound, found.graph.base_cost)
    assert [row["known strategy"] for row in rows(section, "Known strategies")] == ["chen-sqrt", "griewank"]


def test_a_curve_is_read_as_it_was_written(written: Written) -> None:
    """Test a curve and its picture, from the sweep and from its file."""
    path, found = written.folder / "curve.json", written.told["curve.json"]
    curve = read_curve(path, read_json(path))
    assert curve == curve_of(found)
    assert curve_svg(curve) == svg_text(found)


def test_bounds_of_the_budgets_replace_those_that_a_file_lacks(written: Written) -> None:
    path = written.folder / "curve.json"
    told = read_json(path)
    del told["bounds"]
    curve = read_curve(path, told)
    whole = read_curve(path, read_json(path))

    def bound(of: Any, budget: int) -> float:
        return min((low for at, low in of.bounds if at >= budget), default=of.base_cost, key=lambda low: -low)

    assert curve.bounds
    assert all(
        bound(curve, budget) <= bound(whole, budget) for budget, _ in whole.bounds
    )  # weaker, never stronger


def test_the_largest_batch_says_what_is_proved(written: Written, tmp_path: Path) -> None:
    told = written.told["batch.json"]
    section = only(written.folder / "batch.json")
    assert f"{told['batch']:,}: batch, proved largest" in words(section)
    assert {row["strategy"]: row["batch"] for row in rows(section, "Largest")}[
        "keep everything, given order"
    ] == str(told["plain_batch"])
    (tmp_path / "b.json").write_text(
        json.dumps({**told, "proved": False, "upper_bound_batch": 9, "cancelled": True})
    )
    section = only(tmp_path / "b.json")
    assert f"{told['batch']:,}: batch, largest found; proved: none above 9 fits" in words(section)
    assert "stopped before its time" in section.facts


def test_a_measured_batch(written: Written, tmp_path: Path) -> None:
    told = written.told["batch.json"]
    assert (
        "for the step of that size, which was not measured: a graph has no step to run"
        in only(written.folder / "batch.json").facts
    )
    ran = {**told, "measured": {"batch": 7, "peak_bytes": 2**30, "why_not": None}}
    (tmp_path / "s.json").write_text(json.dumps(ran))
    assert (
        "7: largest batch traced and run within the budget: 1.00 GiB on the allocator's meter, measured"
        in words(only(tmp_path / "s.json"))
    )


def test_the_largest_input(tmp_path: Path) -> None:
    told = {
        "format": "checkmate-max-batch",
        "version": 1,
        "name": "unet",
        "dimension": "input",
        "input": [64, 96],
        "batch": 8,
        "plain_input": [32, 64],
        "memory_limit_input": [96, 128],
        "refuted_input": None,
        "proved": False,
        "budget_bytes": 2**30,
        "peak_bytes": 2**30,
        "fixed_bytes": 5,
        "max_overhead": None,
        "cost": 12.0,
        "base_cost": 10.0,
        "cost_limit": 13.0,
        "seconds": 1.0,
        "cancelled": False,
    }
    (tmp_path / "i.json").write_text(json.dumps(told))
    section = only(tmp_path / "i.json")
    assert "64 × 96: input at batch 8, largest found" in words(section)
    assert [row["pixels"] for row in rows(section, "Largest")] == ["32 × 64", "64 × 96", "–", "96 × 128"]


def test_a_run_is_one_section_of_its_three_files(written: Written) -> None:
    for given in ([written.folder / "out"], [written.folder / "out" / "report.json"]):
        (section,) = gather(given).sections
        assert [source.split()[0] for source in section.sources] == [
            "report.json",
            "schedule.json",
            "graph.json",
        ]
        assert "as promised: loss, gradients, peak" in words(section)
        assert "bitwise equal: gradients, with the same kernels, measured" in words(section)
        (peak, *_) = rows(section, "The scheduled step")
        assert (peak["predicted"], peak["measured"]) == (format_bytes(900000), format_bytes(950000))


def test_a_run_that_is_not_as_promised_says_so(written: Written, tmp_path: Path) -> None:
    told = read_json(written.folder / "out" / "report.json")
    told.update(ok=False, problems=["the peak is over the budget"])
    told["gradients"].update(bitwise=False, equal=False)
    (tmp_path / "report.json").write_text(json.dumps(told))
    section = only(tmp_path / "report.json")
    assert {"NOT as promised: loss, gradients, peak", "Problem: the peak is over the budget"} <= set(
        words(section)
    )
    assert "DIFFERENT: gradients, with the same kernels, measured" in words(section)


def test_a_run_of_a_step_of_ones_own_says_what_was_compared(written: Written, tmp_path: Path) -> None:
    told = read_json(written.folder / "out" / "report.json")
    told["gradients"].update(compared="variables and results", steps=2, overall_relative_error=0.0)
    told["gradients"].update(
        worst={"name": "w", "relative_error": 0.0}, worst_of_largest={"name": "w", "error": 0.0}
    )
    told["loss"] = {"plain": None, "optimized": None}
    (tmp_path / "report.json").write_text(json.dumps(told))
    section = only(tmp_path / "report.json")
    assert {
        "as promised: loss, variables and results, peak",
        "bitwise equal: variables and results, with the same kernels, measured",
        "With default kernels the variables and results do not differ.",
    } <= set(words(section))
    assert not any(row[""] == "loss" for row in rows(section, "The scheduled step"))


def test_a_run_at_another_speed_says_both_predictions(written: Written, tmp_path: Path) -> None:
    told = read_json(written.folder / "out" / "report.json")
    for today, said in ((6.0, True), (10.0, False)):
        told["seconds"] = {"predicted": 10.8, "predicted_today": today, "measured": 6.1}
        (tmp_path / "report.json").write_text(json.dumps(told))
        sentence = "Scaled by the plain step as it was measured, a step was predicted to take 6 s."
        assert (sentence in words(only(tmp_path / "report.json"))) is said


def test_a_schedule_finds_its_graph_beside_it_or_among_those_given(tmp_path: Path) -> None:
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
    writers.write_scheduled(tmp_path / "here", schedule="s.json", g="s.graph.json")
    writers.write_scheduled(tmp_path / "here", "other", schedule="other.json", g="apart.json")
    (tmp_path / "here" / "apart.json").rename(tmp_path / "there" / "g.json")
    here, there = tmp_path / "here", tmp_path / "there"
    alone = only(here / "other.json")
    assert not any(isinstance(block, Picture) for block in alone.blocks)
    assert any("no memory curve" in line for line in words(alone))
    both = gather([here / "other.json", here / "s.json", there / "g.json"]).sections
    assert [section.title for section in both] == ["other: a schedule", "chain: a schedule"]
    assert [len(section.sources) for section in both] == [2, 2]
    assert all(any(isinstance(block, Picture) for block in section.blocks) for section in both)
    assert only(there / "g.json").title == "other: a graph"


def test_an_exploration_is_replayed(written: Written) -> None:
    section = only(written.folder / "explored.json.gz")
    assert [row["peak, predicted"] for row in rows(section, "Schedules")] == ["40 B", "60 B"]
