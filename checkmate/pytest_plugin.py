"""A plugin of pytest: the mark ``limit_training_memory("12 GiB")`` and the fixture ``training_memory``."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from checkmate.units import format_bytes, format_bytes_apart, parse_bytes

_MARK = "limit_training_memory"
_CALLED = pytest.StashKey[bool]()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", f'{_MARK}("12 GiB"): the most bytes that a step given to training_memory may request'
    )


@pytest.fixture
def training_memory(request: pytest.FixtureRequest) -> Callable[..., int]:
    """Return a function of a model that returns the bytes that its plain training step requests at its peak.

    It takes what ``checkmate.profile`` does, such as ``batch_size=8``, or a function of a module that returns
    that: a Keras model, or a step of Keras, JAX or PyTorch with an example. Nothing is trained. The test
    fails where that is more than its mark ``limit_training_memory`` allows.
    """
    limit = _limit(request.node)

    def training_memory(model: Any, **step: Any) -> int:
        from checkmate.planning.step_memory import step_memory

        request.node.stash[_CALLED] = True
        if inspect.isfunction(model):
            model, step = f"{inspect.getfile(model)}:{model.__qualname__}", {"allow_code": True, **step}
        found = step_memory(model, quiet=True, **step)
        if limit is not None and found.peak_bytes > limit:
            peak, most = format_bytes_apart(found.peak_bytes, limit)
            layers = sorted(found.layers.items(), key=lambda each: -each[1].at_peak)[:5]
            held = ", ".join(f"{name} {format_bytes(layer.at_peak)}" for name, layer in layers)
            pytest.fail(
                f"the training step of {found.model} requests {peak} at its peak, over the limit of {most}; "
                f"{format_bytes(sum(found.fixed.values()))} are fixed, and most is held by {held}",
                pytrace=False,
            )
        return found.peak_bytes

    return training_memory


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Iterator[None]:
    """Fail a marked test that measures nothing: its limit would hold for ever."""
    result = yield
    if pyfuncitem.get_closest_marker(_MARK) is not None and _CALLED not in pyfuncitem.stash:
        pytest.fail(f"the test is marked {_MARK}, and never calls training_memory(model)", pytrace=False)
    return result


def _limit(item: pytest.Item) -> int | None:
    mark = item.get_closest_marker(_MARK)
    if mark is None:
        return None
    try:
        (size,) = mark.args
        return parse_bytes(str(size))
    except ValueError as error:
        raise pytest.UsageError(f"{_MARK} takes one size, like {_MARK}('12 GiB'): {error}") from error
