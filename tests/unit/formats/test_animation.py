from __future__ import annotations

from pathlib import Path

import pytest

from checkmate.errors import FormatError, UsageError
from checkmate.formats.animation import Animation, require_animation

SIZE = (60, 40)
COLORS = [(255, 255, 255), (0, 114, 178), (255, 196, 0), (181, 82, 140)]
TIMES = [80, 80, 80, 1500]


def frame(number: int) -> bytes:
    """Draw white with a bar of each colour; one yellow pixel moves along."""
    rows = []
    for y in range(SIZE[1]):
        row = [COLORS[3] if y < 4 else COLORS[1] if x < 20 else COLORS[0] for x in range(SIZE[0])]
        if y == 20:
            row[30 + number] = COLORS[2]
        rows.append(row)
    return b"".join(bytes(color) for row in rows for color in row)


def made() -> Animation:
    animation = Animation(SIZE, [frame(0), frame(3)], COLORS)
    for number in range(4):
        animation.add(frame(number))
    return animation


@pytest.mark.parametrize("ending", ["gif", "png", "webp"])
def test_frames_come_back_exactly(tmp_path: Path, ending: str) -> None:
    image_module = pytest.importorskip("PIL.Image")
    path = tmp_path / f"film.{ending}"
    assert made().save(path, TIMES) == path.stat().st_size
    assert [p.name for p in tmp_path.iterdir()] == [path.name]
    with image_module.open(path) as image:
        assert (image.n_frames, image.size, image.info["loop"]) == (4, SIZE, 0)
        for number in range(4):
            image.seek(number)
            assert image.convert("RGB").tobytes() == frame(number)
            if ending != "webp":  # WebP tells each time one frame late
                assert image.info["duration"] == TIMES[number]


def test_a_wrong_name_and_a_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not the name of an animated picture"):
        require_animation(tmp_path / "film.mp4")
    with pytest.raises(FormatError, match="cannot write"):
        made().save(tmp_path / "nowhere" / "film.gif", TIMES)
    assert list(tmp_path.iterdir()) == []
