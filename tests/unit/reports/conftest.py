"""Write every kind of result once, for all tests of the page."""

from __future__ import annotations

import pytest

from tests.unit.reports import writers


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> writers.Written:
    folder = tmp_path_factory.mktemp("results")
    told = {name: write(folder / name) for name, write in writers.WRITERS.items()}
    (folder / "out").mkdir()
    writers.write_run(folder / "out")
    return writers.Written(folder, told)
