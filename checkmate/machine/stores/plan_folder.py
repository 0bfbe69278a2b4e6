"""Say where plans of training steps are kept.

Nothing is imported that may be broken.
"""

from __future__ import annotations

from pathlib import Path

import platformdirs


def default_folder() -> Path:
    """Return the folder of plans in the user's cache folder. It may not exist yet."""
    return Path(platformdirs.user_cache_dir("checkmate-explorer")) / "plans"
