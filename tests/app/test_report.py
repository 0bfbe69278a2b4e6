"""Test the report: one page without other files, with true figures."""

from __future__ import annotations

import base64
import re
import struct
import zlib
from datetime import datetime
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
from PySide6.QtGui import QImage
from PySide6.QtSvg import QSvgRenderer

from app.models.exploration import Exploration
from app.presenters.matrix_image import computed_image, held_image
from app.presenters.report_page import html_report, png
from checkmate.units import format_bytes
from tests.app.test_compare import smaller
from tests.app.windows import training_chain

WHEN = datetime(2026, 1, 2, 3, 4)
EMPTY = {"meta", "img", "circle", "rect", "line", "polyline", "polygon", "i", "br", "link", "input"}


class Balanced(HTMLParser):
    """Check that every tag is closed, in order; keep text and addresses."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text: list[str] = []
        self.addresses: list[str] = []

    def handle_starttag(self, tag, attrs) -> None:
        self.addresses += [value for name, value in attrs if name in ("src", "href")]
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs) -> None:
        self.addresses += [value for name, value in attrs if name in ("src", "href")]

    def handle_endtag(self, tag) -> None:
        if tag not in EMPTY:
            assert self.open and self.open.pop() == tag, tag

    def handle_data(self, data) -> None:
        self.text.append(data)


def page(exploration: Exploration) -> tuple[str, Balanced]:
    text, parsed = html_report(exploration.reported(), WHEN), Balanced()
    parsed.feed(text)
    parsed.close()
    assert parsed.open == []
    return text, parsed


def explored() -> Exploration:
    exploration = Exploration()
    exploration.set_graph(training_chain())
    smaller(exploration)
    return exploration


def test_page_is_whole_and_fetches_nothing() -> None:
    text, parsed = page(explored())
    assert parsed.addresses and all(
        address.startswith("data:image/png;base64,") for address in parsed.addresses
    )
    assert "http:" not in text and "https:" not in text and "@import" not in text
    assert text.count("<script") == text.count("</script>") == 2  # the data, and what shows them


def test_figures_are_those_of_the_exploration() -> None:
    exploration = explored()
    shown, plain = exploration.shown, exploration.plain
    words = " ".join(page(exploration)[1].text)
    for figure in (
        format_bytes(shown.peak_bytes),
        format_bytes(plain.peak_bytes),
        f"+{100 * shown.overhead:.1f} %",
    ):
        assert figure in words
    assert f"{shown.schedule.recomputations} of them recomputed" in words
    assert exploration.graph.fingerprint in words and "2026-01-02 03:04" in words
    assert "for the backward pass" in words and "Recompute " in words
    assert words.count("keep everything") >= 2


def test_names_from_a_file_are_text_and_nothing_else() -> None:
    from dataclasses import replace

    graph = training_chain(5)
    name = "<script>alert('x')</script>"
    exploration = Exploration()
    exploration.set_graph(replace(graph, name=name, ops=tuple(replace(op, group=name) for op in graph.ops)))
    text, parsed = page(exploration)
    assert "<script>alert" not in text and name in "".join(parsed.text)


def test_pictures_can_be_drawn() -> None:
    text, _ = page(explored())
    charts = re.findall(r"<svg .*?</svg>", text, re.DOTALL)
    assert len(charts) == 2
    for chart in charts:
        whole = chart.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
        assert QSvgRenderer(whole.encode()).isValid()
        numbers = [float(x) for x in re.findall(r'(?:points|cx|cy|x1|y1)="([\d.]+)', chart)]
        assert numbers and all(-1 <= number <= 641 for number in numbers)


def test_matrices_are_in_the_page_cell_by_cell() -> None:
    exploration = explored()
    shown = exploration.shown
    pictures = [base64.b64decode(address.partition(",")[2]) for address in page(exploration)[1].addresses]
    for data, image in zip(pictures, (computed_image, held_image), strict=True):
        drawn, wanted = QImage.fromData(data, "PNG"), image(shown.graph, shown.matrices, 360)
        assert (drawn.height(), drawn.width()) == wanted.shape
        set_ = [
            [drawn.pixelColor(x, y).alpha() > 0 for x in range(drawn.width())] for y in range(drawn.height())
        ]
        assert np.array_equal(np.array(set_), wanted > 0)


def test_png_holds_the_pixels() -> None:
    pixels = np.random.default_rng(1).integers(0, 256, (5, 7, 4), dtype=np.uint8)
    data = png(pixels)
    assert data.startswith(b"\x89PNG") and struct.unpack(">II", data[16:24]) == (7, 5)
    at = data.index(b"IDAT")
    rows = zlib.decompress(data[at + 4 : at + 4 + struct.unpack(">I", data[at - 4 : at])[0]])
    assert rows == b"".join(b"\0" + row.tobytes() for row in pixels)


def test_window_writes_it_beside_its_work(window, qtbot, tmp_path: Path) -> None:
    session, said = window.session, []
    session.failed.connect(lambda sentence, hint: said.append(sentence))
    assert not session.report(tmp_path / "early.html") and "nothing to report" in said[0]
    session.exploration.set_graph(training_chain())
    with qtbot.waitSignals([session.noticed, session.noticed], timeout=20000):
        assert session.report(tmp_path / "chain.html")
    qtbot.waitUntil(lambda: "Saved" in window.statusBar().currentMessage(), timeout=20000)
    assert (tmp_path / "chain.html").read_text().startswith("<!DOCTYPE html>")
    with qtbot.waitSignal(session.failed, timeout=20000):
        session.report(tmp_path / "nowhere" / "chain.html")
    assert "cannot write" in said[-1]
