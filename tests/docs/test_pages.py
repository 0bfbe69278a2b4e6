from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import checkmate
from checkmate.cli.main import build_parser
from checkmate.errors import ExitCode
from checkmate.frontiers.table import COLUMNS
from tests.docs.pages import DOCS, PAGES, ROOT, TEXTS, name_of, prose

PICTURES = DOCS / "pages" / "pictures"
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_PATH = re.compile(r"`((?:app|checkmate|tests|docs|resources)/[\w/.-]+)`")


@pytest.mark.parametrize(
    "script", ["generate_commands.py", "generate_python.py", "render_figures.py", "torch_picture.py"]
)
def test_generated_pages_are_up_to_date(script: str) -> None:
    done = subprocess.run(
        [sys.executable, str(DOCS / script), "--check"], env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_every_command_and_option_is_on_the_page() -> None:
    page = (DOCS / "pages" / "reference" / "commands.md").read_text(encoding="utf-8")
    commands = build_parser()._subparsers._group_actions[0].choices
    assert len(commands) > 10
    for name, parser in commands.items():
        assert f"\n## checkmate {name}\n" in page
        for action in parser._actions:
            for option in action.option_strings:
                assert f"`{option}`" in page or option in ("-h", "--help"), f"{name} {option}"


def test_every_public_name_is_on_the_page() -> None:
    page = (DOCS / "pages" / "reference" / "python.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^- `(\w+)", page, re.MULTILINE)) == sorted(checkmate.__all__)


def test_every_column_of_the_curve_is_on_the_page() -> None:
    page = (DOCS / "pages" / "reference" / "formats.md").read_text(encoding="utf-8")
    section = page.split("{ #frontier }")[1].split("\n## ")[0]
    cells = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    assert [name for cell in cells for name in re.findall(r"`(\w+)`", cell)] == list(COLUMNS)


def test_every_folder_of_the_tree_is_on_the_page() -> None:
    """Test the page that a newcomer reads first. A room that it does not name is not found."""
    page = (DOCS / "pages" / "architecture.md").read_text(encoding="utf-8")
    first_cells = " ".join(line.split("|")[1] for line in page.splitlines() if line.startswith("| `"))
    for room in (ROOT / "checkmate").iterdir():
        if (room / "__init__.py").exists():
            assert f"`{room.name}`" in first_cells, f"the tree does not name {room.relative_to(ROOT)}"


def test_every_exit_code_is_on_the_page() -> None:
    page = (DOCS / "pages" / "reliability.md").read_text(encoding="utf-8")
    section = page.split("{ #exit-codes }")[1].split("\n## ")[0]
    assert [int(code) for code in re.findall(r"^\| (\d+) \|", section, re.MULTILINE)] == list(ExitCode)


@pytest.mark.parametrize("page", TEXTS, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    for link in _LINK.findall(prose(page)):
        if link.startswith(("http://", "https://", "../../actions/")):  # the last are pages of the host
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{link} leads nowhere"
        if anchor:
            assert anchor in anchors(target), f"{link}: there is no such heading"


def anchors(page: Path) -> set[str]:
    """Return the names of a page's headings. They are as the site and most readers of Markdown make them."""
    found: set[str] = set()
    for heading in re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE):
        stated = re.search(r"\{ #([\w-]+) \}", heading)
        text = re.sub(r"\{.*\}", "", heading).strip().lower()
        found.add(stated[1] if stated else re.sub(r"[\s]+", "-", re.sub(r"[^\w\s-]", "", text)))
    return found


@pytest.mark.parametrize("page", TEXTS, ids=name_of)
def test_files_that_are_named_exist(page: Path) -> None:
    for path in _PATH.findall(prose(page)):
        assert (ROOT / path).exists(), f"{page.name} names {path}"


def test_pictures_are_small_and_shown() -> None:
    told = "".join(page.read_text(encoding="utf-8") for page in TEXTS)
    told += (DOCS / "mkdocs.yml").read_text(encoding="utf-8")
    for picture in PICTURES.iterdir():
        assert picture.stat().st_size <= 150_000, picture.name
        assert f"pictures/{picture.name}" in told, f"no page shows {picture.name}"


def test_every_page_is_in_the_menu() -> None:
    menu = (DOCS / "mkdocs.yml").read_text(encoding="utf-8").split("\nnav:\n")[1]
    named = set(re.findall(r"[\w/-]+\.md", menu))
    assert named == {str(page.relative_to(DOCS / "pages")) for page in PAGES}


def test_the_readme_is_short() -> None:
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 150


@pytest.mark.parametrize("template", sorted((ROOT / ".github" / "ISSUE_TEMPLATE").iterdir()), ids=name_of)
def test_issue_templates_ask_the_doctor(template: Path) -> None:
    assert "checkmate doctor" in template.read_text(encoding="utf-8")
