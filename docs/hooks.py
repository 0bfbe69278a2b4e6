"""Stop the build of the site where a generated page is out of date."""

from __future__ import annotations

import sys
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError

sys.path.insert(0, str(Path(__file__).parent))

import generate_commands
import generate_python
import render_figures


def on_pre_build(config: MkDocsConfig) -> None:
    """Compare the generated pages with what they are generated from."""
    for maker in (generate_commands, generate_python):
        if maker.PAGE.read_text(encoding="utf-8") != maker.page():
            raise PluginError(f"{maker.PAGE} is out of date; run: python {maker.__file__}")
    for page in render_figures.pages():
        text = page.read_text(encoding="utf-8")
        if text != render_figures.filled(text, render_figures.figures):
            raise PluginError(f"{page} is out of date; run: python {render_figures.__file__}")
