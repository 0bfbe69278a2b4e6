"""Animated pictures: GIF, PNG and WebP. All frames have one size and share one palette."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from checkmate.errors import UsageError
from checkmate.formats.files import write_bytes

if TYPE_CHECKING:
    from PIL.Image import Image

KINDS = {".gif": "GIF", ".png": "PNG", ".apng": "PNG", ".webp": "WEBP"}
_COLORS = 255  # of a GIF's 256; the last one means: unchanged since the frame before
_SWATCH = 24  # pixels a side


def require_animation(path: Path) -> str:
    """Return the kind of picture that ``path`` names, as Pillow calls it, or raise UsageError."""
    kind = KINDS.get(path.suffix.lower())
    if kind is None:
        raise UsageError(
            f"{path.name} is not the name of an animated picture", hint="end it in .gif, .png or .webp"
        )
    return kind


class Animation:
    """Frames with one palette: with one for each, what stands still would change its shade.

    ``size`` is in pixels. ``samples``: frames (RGB, 8 bit, rows without padding) from which the palette is
    made. ``colors`` must be in it, however rare they are.
    """

    def __init__(
        self, size: tuple[int, int], samples: Sequence[bytes], colors: Sequence[tuple[int, int, int]]
    ) -> None:
        self._size = size
        self._palette = _palette(size, samples, colors)
        self._frames: list[Image] = []

    def __len__(self) -> int:
        return len(self._frames)

    def add(self, frame: bytes) -> None:
        from PIL import Image

        picture = Image.frombytes("RGB", self._size, frame)
        # No dithering: its noise would move on plain areas and double the file's size.
        self._frames.append(picture.quantize(palette=self._palette, dither=Image.Dither.NONE))

    def save(self, path: Path, milliseconds: Sequence[int]) -> int:
        """Write a loop in which frame i is shown for ``milliseconds[i]``; return the file's bytes.

        Raises:
            UsageError: the name's ending is not that of an animated picture. FormatError: the place cannot be
            written to.
        """
        kind = require_animation(path)
        body = io.BytesIO()
        options: dict[str, Any] = {"duration": list(milliseconds), "loop": 0}
        first, rest = self._frames[0], self._frames[1:]
        if kind == "WEBP":
            first.convert("RGB").save(
                body,
                kind,
                save_all=True,
                append_images=(f.convert("RGB") for f in rest),
                lossless=True,
                **options,
            )
        else:
            more = {"optimize": True, "disposal": 1} if kind == "GIF" else {}
            first.save(body, kind, save_all=True, append_images=rest, **more, **options)
        write_bytes(path, body.getvalue())
        return body.tell()


def _palette(
    size: tuple[int, int], samples: Sequence[bytes], colors: Sequence[tuple[int, int, int]]
) -> Image:
    from PIL import Image

    width, height = size
    per_row = max(1, width // _SWATCH)
    sheet = Image.new(
        "RGB", (width, height * len(samples) + _SWATCH * (1 + len(colors) // per_row)), colors[0]
    )
    for number, sample in enumerate(samples):
        sheet.paste(Image.frombytes("RGB", size, sample), (0, number * height))
    for number, color in enumerate(colors):
        corner = (number % per_row * _SWATCH, len(samples) * height + number // per_row * _SWATCH)
        sheet.paste(color, (*corner, corner[0] + _SWATCH, corner[1] + _SWATCH))
    return sheet.quantize(_COLORS, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
