"""Find out what TensorFlow can do here, for ``checkmate doctor``.

Nothing is imported before its stage, because any part may be broken. A GPU is used if there is one, with as
little of its memory as TensorFlow takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Stage = Callable[[str, Callable[[], Any]], bool]
"""Do one piece of work and report its outcome; return whether it succeeded."""

_SIDE = 256  # rows and columns of the matrices that are multiplied: 256 KiB each


def look(stage: Stage) -> None:
    if not stage("tensorflow", _tensorflow):
        return
    stage("keras", _keras)
    stage("gpus", _gpus)
    if not stage("program", _program):
        return
    if stage("settings", _settings):
        stage("profiler", _profiler)
    stage("xla", _xla)


def _tensorflow() -> dict[str, Any]:
    import tensorflow as tf

    build = tf.sysconfig.get_build_info()
    names = ("is_cuda_build", "cuda_version", "cudnn_version", "cuda_compute_capabilities")
    return {"version": tf.__version__, **{name: build[name] for name in names if name in build}}


def _keras() -> dict[str, Any]:
    import keras

    policy = keras.config.dtype_policy().name
    return {"version": keras.__version__, "backend": keras.backend.backend(), "policy": policy}


def _gpus() -> list[dict[str, Any]]:
    import tensorflow as tf

    found = tf.config.list_physical_devices("GPU")
    for gpu in found:
        tf.config.experimental.set_memory_growth(gpu, True)
    details = [tf.config.experimental.get_device_details(gpu) for gpu in found]
    return [
        {
            "name": str(entry.get("device_name", "GPU")),
            "capability": list(entry.get("compute_capability", ())),
        }
        for entry in details
    ]


def _program() -> str:
    from checkmate.backends.tf.emit import saved_model
    from checkmate.backends.tf.xla import compiled

    return f"{saved_model.__name__} {compiled.__name__}"


def _kind() -> str:
    import tensorflow as tf

    return "gpu" if tf.config.list_physical_devices("GPU") else "cpu"


def _settings() -> dict[str, Any]:
    from checkmate.backends.tf.devices import settings_here

    settings = settings_here(_kind())
    return {"kind": settings.kind, **settings.facts()}


def _profiler() -> dict[str, int]:
    import tensorflow as tf

    from checkmate.backends.tf.profiler import trace_run

    @tf.function(jit_compile=False)  # type: ignore[untyped-decorator]  # TensorFlow is untyped here
    def step(x: Any) -> Any:
        return tf.reduce_sum(tf.nn.relu(x @ x))

    x = tf.ones((_SIDE, _SIDE))
    step(x).numpy()
    trace = trace_run(lambda: step(x).numpy(), device=_kind())
    return {"ops": len(trace.runs), "allocations": len(trace.memory)}


def _xla() -> str:
    import tensorflow as tf

    @tf.function(jit_compile=True)  # type: ignore[untyped-decorator]
    def doubled(x: Any) -> Any:
        return x + x

    found = float(doubled(tf.constant(1.5)).numpy())
    if found != 3.0:
        raise ArithmeticError(f"1.5 + 1.5 was {found}")
    return "compiled"
