"""Test that names known without TensorFlow are those of Keras."""

from __future__ import annotations

import keras

from checkmate.catalog.model_names import _application_names


def test_the_applications_in_the_source_are_those_of_keras() -> None:
    assert sorted(_application_names()) == [name for name in dir(keras.applications) if name[:1].isupper()]
