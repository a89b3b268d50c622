"""Adam changes small variables and large ones alike, on one thread and on several, however their gradients lie."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from unspool import tf1 as tf

RATE, BETA1, BETA2, EPSILON = 0.01, 0.9, 0.999, 1e-8


@pytest.fixture(params=[1, 2])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


def by_hand(weight: Any, slope: Any, steps: int) -> Any:
    m = v = np.zeros_like(weight)
    for step in range(1, steps + 1):
        grad = slope * weight
        m, v = BETA1 * m + (1 - BETA1) * grad, BETA2 * v + (1 - BETA2) * grad**2
        rate = RATE * np.sqrt(1 - BETA2**step) / (1 - BETA1**step)
        weight = weight - rate * m / (np.sqrt(v) + EPSILON)
    return weight


@pytest.mark.parametrize("turned", [False, True])
def test_small_and_large_variables_follow_the_formula(threads: int, turned: bool):
    rng = np.random.default_rng(0)
    shapes = [(3, 2), (512, 64), (65, 512)]
    starts = [rng.uniform(-1, 1, shape) for shape in shapes]
    slopes = [rng.uniform(0.5, 1, shape) for shape in shapes]
    variables = [tf.Variable(each) for each in starts]
    losses = [tf.reduce_sum(v * v * slope) / 2 for v, slope in zip(variables, slopes, strict=True)]
    grads = tf.gradients(tf.add_n(losses), variables)
    if turned:  # gradients whose memory lies the other way round
        grads = [tf.transpose(tf.stack([tf.transpose(each)])[0]) for each in grads]
    train = tf.train.AdamOptimizer(RATE).apply_gradients(zip(grads, variables, strict=True))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(3):
            session.run(train)
        found = session.run(variables)
    for value, start, slope in zip(found, starts, slopes, strict=True):
        # The betas' powers are float32, as in TensorFlow.
        np.testing.assert_allclose(value, by_hand(start, slope, 3), rtol=0, atol=1e-6)
