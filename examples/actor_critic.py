"""Train an actor and a critic on a game's pictures, within a budget.

The game is played by numpy; only the step that learns from it is scheduled. ``--small`` takes seconds.
"""

import argparse

import keras
import numpy as np
import tensorflow as tf
from keras import layers

import checkmate

ACTIONS = 3


class Catch:
    """Many games at once: move the paddle left or right to catch what falls."""

    def __init__(self, games, size):
        self.size, self.random = size, np.random.default_rng(0)
        self.ball = self.random.integers(0, size - 1, (games, 2))
        self.paddle = np.full(games, size // 2)

    def picture(self):
        games = np.arange(len(self.paddle))
        pixels = np.zeros((len(games), self.size, self.size, 1), np.float32)
        pixels[games, self.ball[:, 0], self.ball[:, 1]] = 1.0
        pixels[games, -1, self.paddle] = 1.0
        return pixels

    def move(self, actions):
        self.paddle = np.clip(self.paddle + actions - 1, 0, self.size - 1)
        self.ball[:, 0] += 1
        down = self.ball[:, 0] == self.size - 1
        caught = np.abs(self.ball[:, 1] - self.paddle) < 3
        reward = np.where(down, np.where(caught, 1.0, -1.0), 0.0)
        self.ball[down, 0], self.ball[down, 1] = 0, self.random.integers(0, self.size, down.sum())
        return reward.astype(np.float32), down


def make_network(size, width):
    picture = x = keras.Input((size, size, 1))
    for strides in (1, 1, 2, 1, 2):
        x = layers.Conv2D(width, 3, strides=strides, padding="same", activation="relu")(x)
    x = layers.Dense(128, activation="relu")(layers.Flatten()(x))
    return keras.Model(picture, [layers.Dense(ACTIONS)(x), layers.Dense(1)(x)])


def make_step(network, optimizer):
    @tf.function
    def step(pictures, actions, returns):
        with tf.GradientTape() as tape:
            logits, values = network(pictures, training=True)
            gain = returns - values[:, 0]
            chosen = -tf.nn.sparse_softmax_cross_entropy_with_logits(actions, logits)
            chances = tf.nn.softmax(logits)
            spread = -tf.reduce_sum(chances * tf.nn.log_softmax(logits), axis=1)
            actor = -tf.reduce_mean(chosen * tf.stop_gradient(gain) + 0.01 * spread)
            critic = tf.reduce_mean(gain**2)
            loss = actor + 0.5 * critic
        weights = network.trainable_weights
        gradients, _ = tf.clip_by_global_norm(tape.gradient(loss, weights), 0.5)
        optimizer.apply_gradients(zip(gradients, weights, strict=True))
        return {"loss": loss, "critic": critic}

    return step


def play(game, network, random, moves, discount=0.95):
    """Return pictures, actions and returns of ``moves`` in every game."""
    pictures, actions, rewards, ends = [], [], [], []
    for _ in range(moves):
        pictures.append(game.picture())
        logits = network.predict_on_batch(pictures[-1])[0]
        actions.append((logits + random.gumbel(size=logits.shape)).argmax(axis=1))
        reward, end = game.move(actions[-1])
        rewards.append(reward)
        ends.append(end)
    returns, later = [], network.predict_on_batch(game.picture())[1][:, 0]
    for reward, end in zip(reversed(rewards), reversed(ends), strict=True):
        later = reward + discount * later * ~end
        returns.insert(0, later)
    return np.concatenate(pictures), np.concatenate(actions), np.concatenate(returns)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--budget", default="75%")
    parser.add_argument("--small", action="store_true")
    chosen = parser.parse_args()
    size, width, games, moves = (32, 24, 16, 8) if chosen.small else (48, 32, 16, 16)
    keras.utils.set_random_seed(0)
    game, network, random = Catch(games, size), make_network(size, width), np.random.default_rng(1)
    step = make_step(network, keras.optimizers.Adam(3e-4))
    options = checkmate.SolveOptions(time_limit_s=1 if chosen.small else 20)
    step = checkmate.rematerialize_function(step, chosen.budget, options=options)
    for number in range(20):
        losses = step(*map(tf.constant, play(game, network, random, moves)))
        print(f"step {number}: loss: {losses['loss']:.4f}, critic: {losses['critic']:.4f}")


if __name__ == "__main__":
    main()
