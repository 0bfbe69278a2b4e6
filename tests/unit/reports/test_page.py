from __future__ import annotations

import re
from datetime import datetime
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkmate.charts import frontier, svg_chart
from checkmate.reports.html import _DARK, Note, Picture, Section, Table, inline_svg, sections_page, table

WHEN = datetime(2026, 1, 2, 3, 4)
NASTY = "<script>alert('x')</script>&amp;\"</style>"
VOID = {"meta", "br"}


class Parsed(HTMLParser):
    """Check that every tag is closed, in order. Text, addresses and scripts are kept."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.text: list[str] = []
        self.addresses: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs) -> None:
        self.tags.append(tag)
        self.addresses += [value for name, value in attrs if name in ("src", "href", "xlink:href")]
        assert not [name for name, _ in attrs if name.startswith("on")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag) -> None:
        assert self.open and self.open.pop() == tag, tag

    def handle_data(self, data) -> None:
        if not self.open or self.open[-1] != "style":
            self.text.append(data)


def chart(words: str) -> str:
    drawn = svg_chart.Chart((0.0, 1.0), (0.0, 2.0))
    drawn.axes(words, "y")
    drawn.mark("dot", 0.5, 1.0, svg_chart.ACCENT, words)
    drawn.legend_line(svg_chart.DARK, words)
    return drawn.svg(words, words)


def section(words: str) -> Section:
    blocks = (Table.of(words, ("a", "b"), [(words, "1.5")]), Picture(chart(words), words), Note((words,)))
    return Section(words, (words, "fact"), ((words, words),), blocks, sources=(words,))


def test_the_page_is_whole_fetches_nothing_and_has_no_script() -> None:
    page = sections_page("two", [section("one"), section("two")], WHEN, left_out=["left"])
    parsed = Parsed(page)
    assert parsed.addresses == ["#s1", "#s2"] and {"s1", "s2"} <= set(re.findall(r'id="(\w+)"', page))
    assert not re.search("https?:", page) and "default-src 'none'" in page
    assert "@import" not in page and "url(" not in page and "script" not in parsed.tags
    assert "2026-01-02 03:04" in " ".join(parsed.text) and "Left out" in parsed.text
    assert "prefers-color-scheme: dark" in page and "@media print" in page and "tabular-nums" in page


def test_names_from_files_are_text_and_nothing_else() -> None:
    parsed = Parsed(sections_page(NASTY, [section(NASTY)], WHEN, left_out=[NASTY]))
    assert "script" not in parsed.tags
    assert parsed.tags.count("style") == 1
    # title, h1, h2, fact, 2 of the card, h3, cell, 5 in the chart (two of them twice, for the halo), caption,
    # note, source, machine
    assert sum(NASTY in text for text in "".join(parsed.text).splitlines()) >= 8
    assert "".join(parsed.text).count(NASTY) >= 14


@given(st.text(max_size=40), st.text(max_size=40))
def test_any_text_of_a_cell_comes_back_as_it_was(first: str, second: str) -> None:
    clean = [text.replace("\r", "").replace("\x00", "") for text in (first, second)]
    parsed = Parsed(table(("x", "y"), [clean]))
    assert parsed.tags == ["div", "table", "thead", "tr", "th", "th", "tbody", "tr", "td", "td"]
    assert "".join(parsed.text).replace("\n", "").endswith("".join(clean).replace("\n", ""))


def test_numbers_stand_to_the_right_and_words_to_the_left() -> None:
    drawn = table(("name", "figure", "why"), [("a", "1", "b")], words=(0, 2))
    assert drawn.count('<td class="n">1</td>') == 1 and drawn.count('class="n"') == 2
    assert table(("a",), []) == ""


def test_a_chart_loses_nothing_but_its_name_space() -> None:
    svg = chart("words")
    inline = inline_svg(svg)
    assert inline.startswith("<svg ") and "xmlns" not in inline
    whole, bare = ElementTree.fromstring(svg), ElementTree.fromstring(inline)
    assert [e.tag.partition("}")[2] for e in whole.iter()] == [e.tag for e in bare.iter()]


def test_every_colour_of_the_charts_has_another_in_the_dark() -> None:
    """Test that no chart has black lines on a black page."""
    page = sections_page("", [], WHEN)
    names = ("WINDOW", "PANEL", "GRID", "TEXT", "GRAY", "ACCENT", "DARK", "SOFT", "PALE")
    for color in (*(getattr(svg_chart, name) for name in names), *frontier.COLORS):
        assert _DARK[color] != color and f'[fill="{color}"]' in page and f'[stroke="{color}"]' in page


def luminance(color: str) -> float:
    parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("color", [*frontier.COLORS, svg_chart.ACCENT, svg_chart.DARK, svg_chart.GRAY])
def test_words_can_be_read_in_the_dark(color: str) -> None:
    light, dark = luminance(_DARK[color]), luminance(_DARK[svg_chart.PANEL])
    assert (light + 0.05) / (dark + 0.05) > 4.5  # WCAG's contrast for text
