"""Read and write ``checkmate-certificate`` version 1.

It is a proof that others can check. ``checkmate.certificate.verify`` says what its fields mean.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from checkmate.errors import ScheduleError
from checkmate.formats.files import Fields, read_json, write_json
from checkmate.formats.graph import require_version
from checkmate.ir.graph import Graph

FORMAT, VERSION = "checkmate-certificate", 1
_WRITTEN_BY = "checkmate certify G.json --budget B -o C.json writes one"


def read_certificate(path: Path, graph: Graph) -> dict[str, Any]:
    """Return the certificate in ``path``, which must be for ``graph``.

    Only its outline is looked at: ``verify`` judges the rest.

    Raises:
        FormatError: the file is no certificate. ScheduleError: it is for another graph.
    """
    fields = Fields(path, read_json(path))
    require_version(fields, FORMAT, VERSION, _WRITTEN_BY)
    fields.whole("budget_bytes")
    fields.ids("cuts")
    fields.get("proof", list)
    if not graph.accepts_fingerprint(fields.get("graph_fingerprint", str)):
        raise ScheduleError(
            f"{path} is for another graph than {graph.name}", hint="make one with checkmate certify"
        )
    return dict(fields.data)


def write_certificate(path: Path, content: Mapping[str, Any]) -> None:
    """Write a certificate; gzip where ``path`` ends in ``.gz``.

    Raises:
        FormatError: the file cannot be written.
    """
    write_json(path, {"format": FORMAT, "version": VERSION, **content})
