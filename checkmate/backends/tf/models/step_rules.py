"""Refuse training steps of user code that TensorFlow cannot trace again."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from checkmate.backends.tf import private
from checkmate.errors import LoadError
from checkmate.models.user_code import StepRules, no_maker


def step_rules() -> StepRules:
    """Return what TensorFlow asks of a step: it can be traced again."""
    return StepRules(_require_maker, _require_step)


def _require_maker(named: Any, spec: str) -> None:
    """Raise an error if a step is named in place of what makes it.

    Raises:
        LoadError: ``named`` is a ``tf.function``.
    """
    compiled = (tf.types.experimental.PolymorphicFunction, tf.types.experimental.ConcreteFunction)
    if isinstance(named, compiled):
        raise no_maker(spec)


def _require_step(subject: Any, spec: str) -> None:
    """Raise an error if a step cannot be traced again.

    Raises:
        LoadError: it is a concrete function, or a method of an object that is gone.
    """
    if isinstance(subject, tf.types.experimental.ConcreteFunction):
        raise LoadError(
            f"{spec} returned a concrete function, which is traced for one layout already",
            hint="return the tf.function that it came from",
        )
    if private.method_owner(subject) == (True, None):
        raise LoadError(
            f"{spec} returned a method of an object that is gone: a tf.function does not keep its object",
            hint="keep the object outside of the function, or return a function that calls the method",
        )
