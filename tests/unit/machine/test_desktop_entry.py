from __future__ import annotations

import configparser
import json
import subprocess
import sys
from pathlib import Path

import pytest

from checkmate import __version__
from checkmate.cli.main import main
from checkmate.errors import ExportError, UsageError
from checkmate.machine.desktop_entry import data_folder, install_entry, remove_entry

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="desktop entries are for Linux")


def entry(data: Path) -> configparser.SectionProxy:
    parser = configparser.ConfigParser(interpolation=None)
    parser.optionxform = str  # type: ignore[assignment]
    parser.read(data / "applications" / "checkmate-explorer.desktop", encoding="utf-8")
    return parser["Desktop Entry"]


def started_by(line: str) -> list[str]:
    """Return the arguments that a desktop would start.

    By the specification, a text's escapes come first, then a shell's quotes, then field codes.
    """
    text = line.replace("\\\\", "\\")
    done = subprocess.run(["sh", "-c", f"printf '%s\\n' {text}"], capture_output=True, text=True, check=True)
    return [argument.replace("%%", "%") for argument in done.stdout.splitlines() if argument != "%f"]


def test_the_entry_starts_this_program_and_has_its_icons(tmp_path: Path) -> None:
    written = install_entry(tmp_path)
    assert all(path.is_file() for path in written) and len(written) == len(set(written))
    found = entry(tmp_path)
    assert (found["Type"], found["Name"]) == ("Application", "Checkmate Explorer")
    icons = [path for path in written if path.stem == found["Icon"] and "hicolor" in path.parts]
    assert {path.suffix for path in icons} == {".svg", ".png"}
    command = started_by(found["Exec"])
    assert command[-1] == "explore"
    done = subprocess.run([*command[:-1], "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["checkmate", __version__]


def test_odd_characters_in_the_way_to_python(tmp_path: Path, monkeypatch) -> None:
    odd = '/home/a "b" $c/100%/back\\slash/python'
    monkeypatch.setattr(sys, "executable", odd)
    install_entry(tmp_path)
    assert started_by(entry(tmp_path)["Exec"])[0] == odd


def test_written_again_and_removed(tmp_path: Path) -> None:
    other = tmp_path / "applications" / "other.desktop"
    other.parent.mkdir()
    other.write_text("[Desktop Entry]\n", encoding="utf-8")
    written = install_entry(tmp_path)
    assert install_entry(tmp_path) == written
    assert sorted(remove_entry(tmp_path)) == sorted(written)
    assert remove_entry(tmp_path) == []
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [other]


def test_the_command(tmp_path: Path, monkeypatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert main(["desktop"]) == 0
    assert f"{tmp_path}/applications/checkmate-explorer.desktop" in capsys.readouterr().out
    assert main(["desktop", "--remove", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["removed"]) == 9
    assert main(["desktop", "--remove"]) == 0
    assert "there is no entry" in capsys.readouterr().out


def test_an_obstacle_is_named(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "icons").write_text("", encoding="utf-8")
    with pytest.raises(ExportError, match="cannot make") as caught:
        install_entry(tmp_path)
    assert "XDG_DATA_HOME" in caught.value.hint
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(UsageError, match="for Linux"):
        data_folder()
