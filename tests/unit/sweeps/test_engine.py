from __future__ import annotations

import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkmate.errors import EngineUnavailableError
from checkmate.sweeps.engine import Engine, open_pool, parse_engine

ENGINES = st.one_of(
    st.just(Engine()),
    st.builds(lambda count: Engine(count=count), st.integers(1, 999)),
    st.builds(
        lambda host, port: Engine(f"{host}:{port}"),
        st.from_regex(r"[a-z][a-z0-9.-]{0,20}", fullmatch=True),
        st.integers(1, 65535),
    ),
)


@given(ENGINES)
def test_an_engine_reads_as_it_is_written(engine: Engine) -> None:
    assert parse_engine(str(engine)) == engine
    assert parse_engine(f" {engine} ") == engine


def test_an_address_of_six_numbers() -> None:
    assert parse_engine("dask://[::1]:8786") == Engine("[::1]:8786")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "process",
        "processes:",
        "processes:0",
        "processes:-1",
        "processes:two",
        "processes:²",
        "processes://4",
        "dask",
        "dask:",
        "dask://",
        "dask://host",
        "dask://:8786",
        "dask://host:",
        "dask://host:0",
        "dask://host:65536",
        "dask://host:port",
        "dask:host:8786",
        "dask:////host:8786",
        "dask://host:8786/x",
        "dask://a b:1",
        "spark://host:1",
        "ray://host:10001",
    ],
)
def test_texts_that_name_no_engine_are_refused(text: str) -> None:
    with pytest.raises(
        ValueError, match=r"is not an engine; write processes, processes:4 or dask://host:8786"
    ):
        parse_engine(text)


def test_nobody_at_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr("checkmate.sweeps.engine._CONNECT_S", 0.5)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and not listening
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with (
            pytest.raises(EngineUnavailableError, match=f"no dask scheduler answers at {address}"),
            open_pool(Engine(address)),
        ):
            raise AssertionError("it opened")


def test_fewer_workers_than_there_are() -> None:
    with open_pool(Engine(count=5), jobs=2) as pool:
        assert pool.slots() == 2
    with open_pool(Engine(), jobs=3) as pool:
        assert pool.slots() == 3
