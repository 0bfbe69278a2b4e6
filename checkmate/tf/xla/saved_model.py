"""Write a scheduled step that XLA compiles where it is loaded."""

from __future__ import annotations

from pathlib import Path

from checkmate.ir.schedule import Schedule
from checkmate.tf.emit.saved_model import save_function, with_names
from checkmate.tf.emit.small_chunks import SmallChunks
from checkmate.tf.trace.coarsen import FoldedStep
from checkmate.tf.xla.emission import XlaEmission
from checkmate.tf.xla.emit import tied_step


def save_compiled_step(folded: FoldedStep, schedule: Schedule, xla: XlaEmission, directory: Path) -> None:
    """Write a SavedModel whose ``train_step`` runs ``schedule`` under XLA.

    It takes and returns what the one of ``checkmate.tf.emit.saved_model.save_step`` does. XLA compiles it at
    its first call.

    Raises:
        ExportError: TensorFlow could not write it.
    """
    body = with_names(folded, tied_step(folded, schedule, tied=xla.tied))
    chunks = SmallChunks(None, region=xla.region)
    save_function(folded, body, directory, small_chunks=chunks, compiled=True)
