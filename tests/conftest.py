from __future__ import annotations

import gc
import os
import shutil
import sys
import tempfile
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import platformdirs
import pytest
from hypothesis import HealthCheck, settings

from checkmate.backends.tf.environment import prepare_own_process
from checkmate.formats import write_graph
from checkmate.ir import Graph
from checkmate.machine.load import usable_cores
from checkmate.solvers.compile.compilation import compile_first
from tests.graphs_strategies import training_chain

pytest_plugins = ["tests.tiers"]

# Seconds say how busy the machine is, not whether a property holds.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# Tests start hundreds of processes. Without bytecode each compiles this program, and each pytest all tests.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
prepare_own_process()
if find_spec("triton") is not None:
    import_module("triton")  # a CUDA build of PyTorch brings it; it ends a process that has TensorFlow


def pytest_configure(config: pytest.Config) -> None:
    """Give this run a cache folder of its own: profiles of tests neither find nor leave the user's costs.
    Kernels stay compiled."""
    home, own = Path(tempfile.mkdtemp(prefix="checkmate-tests-")), "checkmate-explorer"
    config.add_cleanup(lambda: shutil.rmtree(home, ignore_errors=True))
    cache = Path(platformdirs.user_cache_dir())
    (cache / own / "kernels").mkdir(parents=True, exist_ok=True)
    (home / own).mkdir()
    (home / own / "kernels").symlink_to(cache / own / "kernels")
    for entry in cache.iterdir():
        if entry.name != own:
            (home / entry.name).symlink_to(entry)
    os.environ["XDG_CACHE_HOME"] = str(home)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Compile the search once, before each worker would."""
    if session.config.getoption("numprocesses", None):
        compile_first()


def pytest_xdist_auto_num_workers() -> int:
    return usable_cores()


def pytest_collection_finish() -> None:
    """Hide what was imported from the garbage collector. To look at TensorFlow's objects again and again
    takes a quarter of the time of tests that trace steps."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the files with heavy tests first, so that no process is left alone with a long one at the end."""
    heavy = {item.path for item in items if item.get_closest_marker("heavy")}
    items.sort(key=lambda item: item.path not in heavy)


@pytest.fixture
def chain() -> Graph:
    """Eight layers and their gradients. Keep-everything needs 90 bytes, any schedule at least 40."""
    return training_chain(8)


@pytest.fixture
def chain_file(chain: Graph, tmp_path: Path) -> Path:
    path = tmp_path / "chain.json"
    write_graph(path, chain)
    return path
