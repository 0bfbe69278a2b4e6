from __future__ import annotations

import gc
import subprocess
import sys
import weakref

import pytest

from checkmate.machine.garbage import IMMORTAL, only_newer_garbage


class Circle:
    def __init__(self) -> None:
        self.own = self


def is_hidden(it: object) -> bool:
    """Tell whether the collector no longer looks at an object."""
    return not any(one is it for one in gc.get_objects())


@pytest.fixture
def nothing_hidden():
    """Show the collector all objects of this process, for one test."""
    hidden = gc.get_freeze_count()
    gc.unfreeze()
    yield
    gc.unfreeze()
    if hidden > IMMORTAL:
        gc.freeze()


def test_older_garbage_is_collected_first_and_newer_garbage_inside(nothing_hidden) -> None:
    older = weakref.ref(Circle())
    with only_newer_garbage():
        assert older() is None
        hidden = gc.get_freeze_count()
        newer = weakref.ref(Circle())
        gc.collect()
        assert newer() is None and hidden > IMMORTAL
        stays = Circle()
    assert gc.get_freeze_count() < IMMORTAL
    gone = weakref.ref(stays)
    del stays
    gc.collect()
    assert gone() is None


def test_all_is_shown_again_after_an_error(nothing_hidden) -> None:
    with pytest.raises(KeyError), only_newer_garbage():
        raise KeyError
    assert gc.get_freeze_count() < IMMORTAL


def test_what_the_program_hid_stays_hidden(nothing_hidden) -> None:
    mine = Circle()
    gc.freeze()
    with only_newer_garbage():
        assert is_hidden(mine) and not is_hidden(Circle())
    assert is_hidden(mine)


def test_the_command_line_ends_without_a_last_look() -> None:
    code = "import atexit, gc; atexit.register(lambda: print(gc.get_freeze_count() > 1000))\n"
    code += "from checkmate.__main__ import main; main()"
    ran = subprocess.run(
        [sys.executable, "-c", code, "--version"], capture_output=True, text=True, check=False
    )
    assert ran.stdout.splitlines()[-1] == "True", ran.stdout + ran.stderr
