"""Write the page of all commands and options from the parser.

``python docs/generate_commands.py`` writes ``docs/pages/reference/commands.md``. With ``--check`` it only
says whether the page is up to date (exit code 1: it is not).
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path

from page_file import write_or_check

from checkmate.cli.main import build_parser

PAGE = Path(__file__).parent / "pages" / "reference" / "commands.md"

_HEAD = """\
# Commands

<!-- Written by docs/generate_commands.py from the program's own parser. Change the parser, not this page. -->

Every command and every option, as `checkmate COMMAND --help` prints them. See also
[how to write a budget](../command-line.md#budgets), [how to name a model](../command-line.md#models) and the
[exit codes](../reliability.md#exit-codes).

## Options of several commands

Every command takes the first three. Of the others, a command names those that it takes.

| argument | meaning |
|---|---|
| `--json` | print one JSON object on standard output; progress stays on standard error |
| `--quiet` | no progress on standard error |
| `--debug` | show tracebacks and logs |
"""
_SEVERAL = 3  # an option of as many commands is explained once
_COMMON = {"--json", "--quiet", "--debug", "--help"}
_Commands = argparse._SubParsersAction  # argparse has no public name for it


def page() -> str:
    """Return the page as Markdown."""
    found = list(commands(build_parser()))
    counted = Counter(_row(each) for parser, _ in found for each in options(parser) if each.option_strings)
    shared = [row for row, count in counted.items() if count >= _SEVERAL]
    parts = [_HEAD + "".join(f"{row}\n" for row in shared)]
    return "\n".join([*parts, *(text for parser, help in found for text in _section(parser, help, shared))])


def commands(parser: argparse.ArgumentParser) -> Iterator[tuple[argparse.ArgumentParser, str]]:
    """Yield each command's parser with its one-line help, parts included."""
    for action in parser._actions:
        if not isinstance(action, _Commands):
            continue
        helps = {choice.dest: choice.help or "" for choice in action._choices_actions}
        for name, command in action.choices.items():
            yield command, helps.get(name, "")
            yield from commands(command)


def options(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """Return what a command takes, without what every command takes."""
    return [
        action
        for action in parser._actions
        if not isinstance(action, _Commands) and not _COMMON.intersection(action.option_strings)
    ]


def _section(parser: argparse.ArgumentParser, help: str, shared: Collection[str]) -> Iterator[str]:
    depth = "##" if parser.prog.count(" ") == 1 else "###"
    yield f"{depth} {parser.prog}\n"
    yield f"{_sentence(parser.description or help)}\n"
    parts = [action for action in parser._actions if isinstance(action, _Commands)]
    if parts:
        names = ", ".join(f"`{name}`" for name in parts[0].choices)
        yield f"Its parts: {names}.\n"
    if parser.epilog:
        example = parser.epilog.removeprefix("Example: ")
        yield f"Example: `{example}`\n" if example != parser.epilog else f"{_escaped(example)}\n"
    taken = options(parser)
    rows = [row for row in map(_row, taken) if row not in shared]
    if rows:
        yield "\n".join(["| argument | meaning |", "|---|---|", *rows, ""])
    also = [f"`{action.option_strings[-1]}`" for action in taken if _row(action) in shared]
    if also:
        yield f"Also {', '.join(also)}.\n"
    for group in parser._action_groups:
        if group.description:
            yield f"*{_escaped((group.title or '').capitalize())}.* {_sentence(group.description)}\n"


def _row(action: argparse.Action) -> str:
    return f"| {_name(action)} | {_help(action)} |"


def _sentence(text: str) -> str:
    text = _escaped(text.strip())
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") or not text else ".")


def _name(action: argparse.Action) -> str:
    if not action.option_strings:
        shown = action.metavar or action.dest
        words = shown if isinstance(shown, str) else " ".join(shown)
        return "`" + words.replace("|", "\\|") + "`"
    names = ", ".join(f"`{name}`" for name in action.option_strings)
    return names if action.nargs == 0 else f"{names} `{_placeholder(action)}`"


def _placeholder(action: argparse.Action) -> str:
    if isinstance(action.metavar, str):
        return action.metavar.replace("|", "\\|")
    if isinstance(action.metavar, tuple):
        return " ".join(action.metavar)
    if action.choices is not None:
        return "\\|".join(map(str, action.choices))
    return action.dest.upper()


def _help(action: argparse.Action) -> str:
    values = {key: value for key, value in vars(action).items() if value is not argparse.SUPPRESS}
    text = (action.help or "") % {**values, "prog": "checkmate"} if action.help else ""
    if not action.option_strings and action.choices is not None:
        text = f"{text}; " if text else ""
        text += "one of " + ", ".join(map(str, action.choices))
    return _escaped(text)


def _escaped(text: str) -> str:
    text = " ".join(text.replace("%%", "%").split())
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")


if __name__ == "__main__":
    sys.exit(write_or_check(PAGE, page(), "docs/generate_commands.py"))
