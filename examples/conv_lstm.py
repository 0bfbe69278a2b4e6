"""Train a ConvLSTM to foretell the next frames, within a memory budget.

``unroll=True`` writes the loop over frames out, so that its values can be scheduled. ``--small`` takes
seconds.
"""

import argparse

import keras
import numpy as np
from keras import layers

import checkmate


def make_model(frames, size, width):
    video = keras.Input((frames, size, size, 1))
    x = video
    for _ in range(2):
        x = layers.ConvLSTM2D(width, 3, padding="same", return_sequences=True, unroll=True)(x)
        x = layers.BatchNormalization()(x)
    x = layers.Conv3D(1, 3, padding="same", activation="sigmoid")(x)
    return keras.Model(video, x, name="conv_lstm")


def make_videos(count, frames, size):
    """Return videos of a bright square that moves by one pixel a frame."""
    random = np.random.default_rng(0)
    videos = np.zeros((count, frames, size, size, 1), np.float32)
    for video in videos:
        row, column = random.integers(0, size - 4, 2)
        for number, frame in enumerate(video):
            left = (column + number) % (size - 4)
            frame[row : row + 4, left : left + 4] = 1.0
    return videos


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--budget", default="60%")
    parser.add_argument("--small", action="store_true")
    chosen = parser.parse_args()
    frames, size, width, batch = (5, 16, 8, 8) if chosen.small else (8, 32, 24, 8)
    keras.utils.set_random_seed(0)
    videos = make_videos(batch * 10, frames + 1, size)
    model = make_model(frames, size, width)
    model.compile(optimizer=keras.optimizers.Adam(1e-3), loss="binary_crossentropy")
    options = checkmate.SolveOptions(time_limit_s=1 if chosen.small else 20)
    model = checkmate.rematerialize(model, chosen.budget, options=options)
    model.fit(videos[:, :-1], videos[:, 1:], batch_size=batch, epochs=2, verbose=2)


if __name__ == "__main__":
    main()
