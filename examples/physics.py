"""Teach a network a differential equation, within a memory budget.

It learns Burgers' equation, u_t + u u_x = 0.01 u_xx, from its residual: the loss holds second derivatives of
the network, and the step differentiates those again. ``--small`` takes seconds.
"""

import argparse
import itertools

import numpy as np
import tensorflow as tf

import checkmate


def make_weights(widths):
    random = tf.random.Generator.from_seed(1)
    return [
        (tf.Variable(random.normal((before, after)) / before**0.5), tf.Variable(tf.zeros(after)))
        for before, after in itertools.pairwise(widths)
    ]


def make_step(layers):
    weights = [weight for pair in layers for weight in pair]
    slots = [tf.Variable(tf.zeros_like(weight)) for weight in weights]

    def network(time, place):
        x = tf.concat([time, place], axis=1)
        for weight, bias in layers[:-1]:
            x = tf.tanh(x @ weight + bias)
        return x @ layers[-1][0] + layers[-1][1]

    def residual(time, place):
        with tf.GradientTape() as second:
            second.watch(place)
            with tf.GradientTape(persistent=True) as first:
                first.watch([time, place])
                u = network(time, place)
            by_time, by_place = first.gradient(u, time), first.gradient(u, place)
        return by_time + u * by_place - 0.01 * second.gradient(by_place, place)

    @tf.function
    def step(time, place):
        with tf.GradientTape() as tape:
            begin = network(tf.zeros_like(place), place) + tf.sin(np.pi * place)
            ends = tf.concat([network(time, tf.ones_like(time)), network(time, -tf.ones_like(time))], axis=0)
            loss = sum(tf.reduce_mean(part**2) for part in (residual(time, place), begin, ends))
        for weight, slot, gradient in zip(weights, slots, tape.gradient(loss, weights), strict=True):
            slot.assign(0.9 * slot + gradient)
            weight.assign_sub(1e-3 * slot)
        return loss

    return step


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--budget", default="60%")
    parser.add_argument("--small", action="store_true")
    chosen = parser.parse_args()
    count, width, depth = (2000, 32, 4) if chosen.small else (20000, 128, 6)
    random = np.random.default_rng(0)
    step = make_step(make_weights([2, *[width] * depth, 1]))
    options = checkmate.SolveOptions(time_limit_s=1 if chosen.small else 20)
    step = checkmate.rematerialize_function(step, chosen.budget, options=options)
    for number in range(20):
        time = random.uniform(0, 1, (count, 1)).astype("float32")
        place = random.uniform(-1, 1, (count, 1)).astype("float32")
        print(f"step {number}: loss: {step(tf.constant(time), tf.constant(place)):.4f}")


if __name__ == "__main__":
    main()
