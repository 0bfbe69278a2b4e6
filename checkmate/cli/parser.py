"""Argument errors of one sentence each, without argparse's block of usage."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Collection, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from checkmate.errors import UsageError

_NEGATIVE = re.compile(r"-\.?[0-9]")
_CHOICE = re.compile(r"invalid choice: '(?P<word>[^']*)' \(choose from (?P<choices>.*)\)")


class Parser(argparse.ArgumentParser):
    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._has_commands = False
        # argparse takes -3 for a value, and -3GiB for an option.
        vars(self)["_negative_number_matcher"] = _NEGATIVE

    def add_subparsers(self, **options: Any) -> Any:
        self._has_commands = True
        return super().add_subparsers(**options)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Refuse options that this command does not have, before it asks for a missing argument.

        The command itself refuses them: the parser above it would point to the help of all commands.
        """
        given = list(sys.argv[1:] if args is None else args)
        if not self._has_commands:
            self._refuse(self._unknown(given))
        found, extra = super().parse_known_args(given, namespace)
        if not self._has_commands:
            self._refuse(extra)
            self._spare_inputs(found)
        return found, extra

    def error(self, message: str) -> Any:
        wrong = _CHOICE.search(message)
        meant = ""
        if wrong is not None:
            meant = _meant(wrong["word"], [each.strip(" '") for each in wrong["choices"].split(",")])
        raise UsageError(message, hint=f"{meant}see: {self.prog} --help")

    def _unknown(self, given: Sequence[str]) -> list[str]:
        options = given[: given.index("--")] if "--" in given else given
        known = tuple(self._option_string_actions)
        return [
            each
            for each in options
            if each.startswith("--")
            and " " not in each
            and not any(name.startswith(each.partition("=")[0]) for name in known)
        ]

    def _spare_inputs(self, found: argparse.Namespace) -> None:
        output = getattr(found, "output", None)
        if not isinstance(output, Path) or not output.is_file():
            return
        for action in self._get_positional_actions():
            given = getattr(found, action.dest, None)
            for each in given if isinstance(given, list) else [given]:
                # What stands behind the last colon of a model in a file of code is its function.
                names = {str(each), str(each).rpartition(":")[0]}
                if any(Path(name).is_file() and output.samefile(name) for name in names):
                    raise UsageError(
                        f"{output} is to be read and would be overwritten", hint="give -o another name"
                    )

    def _refuse(self, unknown: Sequence[str]) -> None:
        if not unknown:
            return
        name = unknown[0].partition("=")[0]
        meant = _meant(name, self._option_string_actions) if name.startswith("--") else ""
        raise UsageError(
            f"unrecognized arguments: {' '.join(unknown)}", hint=f"{meant}see: {self.prog} --help"
        )


def _meant(word: str, known: Collection[str]) -> str:
    near = get_close_matches(word, known, n=1)
    return f"did you mean {near[0]}?  " if near else ""
