"""Draw the icon's PNG files from its SVG.

Run ``python -m resources.make_icons`` in the project's folder.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

FOLDER = Path(__file__).parent / "icons"
NAME = "checkmate-explorer"
SIZES = (16, 24, 32, 48, 64, 128, 256)  # pixels; those that desktops ask for


def main() -> int:
    """Write all of them."""
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    from PySide6.QtCore import Qt
    from PySide6.QtGui import QGuiApplication, QImage, QPainter
    from PySide6.QtSvg import QSvgRenderer

    application = QGuiApplication(sys.argv[:1])
    drawing = QSvgRenderer(str(FOLDER / f"{NAME}.svg"))
    for size in SIZES:
        image = QImage(size, size, QImage.Format.Format_ARGB32)
        image.fill(Qt.GlobalColor.transparent)
        painter = QPainter(image)
        drawing.render(painter)
        painter.end()
        if not image.save(str(FOLDER / f"{NAME}-{size}.png")):
            sys.stderr.write(f"cannot write into {FOLDER}\n")
            return 1
    application.quit()
    return 0


if __name__ == "__main__":
    sys.exit(main())
