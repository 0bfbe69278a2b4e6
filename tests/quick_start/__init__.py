"""Let the programs that tests start import TensorFlow quickly.

They are run as users run them, but for two seconds of a processor that the garbage collector would take in
each: while TensorFlow is imported, and at the end.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

_HERE = Path(__file__).parent

QUICK: Mapping[str, str] = {"PYTHONPATH": os.pathsep.join((str(_HERE), str(_HERE.parents[1])))}
"""Variables for such a program. Python imports ``sitecustomize`` from that path before anything else."""
