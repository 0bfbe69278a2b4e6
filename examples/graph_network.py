"""Train a graph network on one large graph, within a memory budget.

Messages go along the edges by gather and segment sum, so the values of the edges are what fills the memory.
``--small`` takes seconds.
"""

import argparse

import keras
import numpy as np
import tensorflow as tf
from keras import layers, ops

import checkmate


class Messages(layers.Layer):
    """Send a message along every edge, and add what each node receives."""

    def __init__(self, width, nodes):
        super().__init__()
        self.nodes = nodes
        self.message = keras.Sequential([layers.Dense(width, activation="gelu"), layers.Dense(width)])
        self.update, self.norm = layers.Dense(width, activation="gelu"), layers.LayerNormalization()

    def call(self, state, edges):
        pairs = ops.concatenate(
            [ops.take(state, edges[0], axis=0), ops.take(state, edges[1], axis=0)], axis=1
        )
        received = ops.segment_sum(self.message(pairs), edges[1], num_segments=self.nodes)
        return self.norm(state + self.update(ops.concatenate([state, received], axis=1)))


class Network(keras.Model):
    def __init__(self, width, nodes, classes, rounds):
        super().__init__(name="graph_network")
        self.begin, self.end = layers.Dense(width, activation="gelu"), layers.Dense(classes)
        self.rounds = [Messages(width, nodes) for _ in range(rounds)]

    def call(self, features, edges):
        state = self.begin(features)
        for each in self.rounds:
            state = each(state, edges)
        return self.end(state)


def make_step(network, optimizer):
    @tf.function
    def step(features, edges, labels, known):
        with tf.GradientTape() as tape:
            logits = network(features, edges)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
            loss = tf.reduce_sum(losses * known) / tf.reduce_sum(known)
        weights = network.trainable_weights
        optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        right = tf.cast(tf.argmax(logits, axis=1, output_type=tf.int32) == labels, tf.float32)
        return {"loss": loss, "accuracy": tf.reduce_mean(right)}

    return step


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--budget", default="60%")
    parser.add_argument("--small", action="store_true")
    chosen = parser.parse_args()
    nodes, edges, width, rounds = (200, 2000, 32, 3) if chosen.small else (3000, 30000, 96, 4)
    keras.utils.set_random_seed(0)
    random = np.random.default_rng(0)
    labels = random.integers(0, 7, nodes, dtype=np.int32)
    features = np.eye(7, 32, dtype=np.float32)[labels] + random.normal(size=(nodes, 32)).astype("float32")
    graph = features, random.integers(0, nodes, (2, edges), dtype=np.int32)
    network = Network(width, nodes, 7, rounds)
    network(*graph)
    known = (random.random(nodes) < 0.5).astype("float32")
    step = make_step(network, keras.optimizers.Adam(1e-3))
    options = checkmate.SolveOptions(time_limit_s=1 if chosen.small else 20)
    step = checkmate.rematerialize_function(step, chosen.budget, options=options)
    data = [tf.constant(each) for each in (*graph, labels, known)]
    for number in range(20):
        result = step(*data)
        print(f"step {number}: loss: {result['loss']:.4f}, accuracy: {result['accuracy']:.3f}")


if __name__ == "__main__":
    main()
