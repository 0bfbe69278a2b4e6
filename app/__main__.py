"""Run ``python -m app [FILE]``: open the window."""

import sys

from app.bootstrap import explore

sys.exit(explore(sys.argv[1] if len(sys.argv) > 1 else None))
