"""Small trainings, written for TensorFlow 1: the tests run them here, `conformance/tf1_training.py` on TensorFlow.

Each takes the module that it calls `tf`, and returns arrays by name; names of variables come as an array of strings.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

STEPS = 20

OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "descent": lambda tf: tf.train.GradientDescentOptimizer(0.1),
    "momentum": lambda tf: tf.train.MomentumOptimizer(0.05, 0.9),
    "nesterov": lambda tf: tf.train.MomentumOptimizer(0.05, 0.9, use_nesterov=True),
    "adam": lambda tf: tf.train.AdamOptimizer(0.01),
    "adam_betas": lambda tf: tf.train.AdamOptimizer(0.02, beta1=0.5, beta2=0.9, epsilon=1e-3, name="Own"),
    "rmsprop": lambda tf: tf.train.RMSPropOptimizer(0.01),
    "rmsprop_momentum": lambda tf: tf.train.RMSPropOptimizer(0.01, decay=0.8, momentum=0.5, epsilon=1e-3),
    "rmsprop_centered": lambda tf: tf.train.RMSPropOptimizer(0.01, momentum=0.1, centered=True),
    "adagrad": lambda tf: tf.train.AdagradOptimizer(0.1),
    "adadelta": lambda tf: tf.train.AdadeltaOptimizer(1.0, epsilon=1e-6),
    "ftrl": lambda tf: tf.train.FtrlOptimizer(0.1, l1_regularization_strength=0.01, l2_regularization_strength=0.02),
    "ftrl_shrinkage": lambda tf: tf.train.FtrlOptimizer(
        0.1, learning_rate_power=-0.4, l2_shrinkage_regularization_strength=0.01
    ),
}


def trained(tf: Any, optimizer: str, dtype: str = "float32") -> dict[str, Any]:
    """A table, a layer, a scalar, and a variable that the loss does not depend on, after some steps."""
    rng = np.random.RandomState(3)

    def drawn(*shape: int) -> Any:
        return rng.uniform(-0.8, 0.8, shape).astype(dtype)

    ids = tf.placeholder(tf.int32, [None])
    table = tf.get_variable("table", initializer=drawn(6, 3))
    with tf.variable_scope("layer"):
        kernel = tf.get_variable("kernel", initializer=drawn(3, 4))
        bias = tf.Variable(drawn(4), name="bias")
    unused = tf.get_variable("unused", initializer=drawn(2))
    scale = tf.get_variable("scale", initializer=np.asarray(0.9, dtype))
    made = tf.tanh(tf.matmul(tf.gather(table, ids), kernel) + bias) * scale
    step = tf.train.get_or_create_global_step()
    loss = tf.reduce_mean(tf.square(made - drawn(4)))
    chosen = OPTIMIZERS[optimizer](tf)
    pairs = chosen.compute_gradients(loss)
    train = chosen.apply_gradients(pairs, global_step=step)
    assert unused in [variable for gradient, variable in pairs if gradient is None]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for turn in range(STEPS):
            session.run(train, {ids: [[0, 1, 1], [3, 4, 0], [1, 1, 2]][turn % 3]})
        variables = tf.global_variables()
        values = {variable.op.name: session.run(variable) for variable in variables}
    return {"order": np.array(list(values)), "slots": np.array(chosen.get_slot_names()), **values}


def two_of_them(tf: Any) -> dict[str, Any]:
    """The names where two optimisers, one of them in scopes, train the same variable."""
    weight = tf.get_variable("weight", initializer=np.ones(2, "float32"))
    loss = tf.reduce_sum(weight)
    first = tf.train.AdamOptimizer(0.1)
    first.minimize(loss)
    tf.train.AdamOptimizer(0.1).minimize(loss)
    with tf.name_scope("later"):
        tf.train.AdamOptimizer(0.1).minimize(loss)
    with tf.variable_scope("last"):
        tf.train.RMSPropOptimizer(0.1).minimize(loss)
    first.minimize(loss)
    names = [variable.op.name for variable in tf.global_variables()]
    return {"order": np.array(names), "own": np.array([variable.name for variable in first.variables()])}


def decays(tf: Any) -> dict[str, Any]:
    """The rates at some steps."""
    step = tf.placeholder(tf.int64, [])
    rates = {
        "exponential": tf.train.exponential_decay(0.1, step, 7, 0.9),
        "exponential_stairs": tf.train.exponential_decay(0.1, step, 7, 0.9, staircase=True),
        "natural": tf.train.natural_exp_decay(0.1, step, 7, 0.3),
        "natural_stairs": tf.train.natural_exp_decay(0.1, step, 7, 0.3, staircase=True),
        "inverse": tf.train.inverse_time_decay(0.1, step, 7, 0.3),
        "inverse_stairs": tf.train.inverse_time_decay(0.1, step, 7, 0.3, staircase=True),
        "polynomial": tf.train.polynomial_decay(0.1, step, 20, 0.01, power=0.5),
        "polynomial_cycle": tf.train.polynomial_decay(0.1, step, 20, 0.01, power=2.0, cycle=True),
        "cosine": tf.train.cosine_decay(0.1, step, 20, alpha=0.1),
        "piecewise": tf.train.piecewise_constant(step, [7, 21], [1.0, 0.5, 0.1]),
    }
    with tf.Session() as session:
        made = [session.run(rates, {step: turn}) for turn in (0, 1, 7, 8, 20, 21, 40, 55)]
    return {name: np.array([each[name] for each in made]) for name in rates}


def moving_averages(tf: Any) -> dict[str, Any]:
    """Averages of a variable with a falling decay, and of a tensor."""
    weight = tf.get_variable("weight", initializer=np.array([1.0, 2.0], "float32"))
    double = tf.multiply(weight, 2.0, name="double")
    step = tf.train.get_or_create_global_step()
    grow = weight.assign_add([0.5, -1.0])
    with tf.get_default_graph().control_dependencies([grow]):
        count = step.assign_add(1)
    averages = tf.train.ExponentialMovingAverage(0.9, num_updates=step)
    others = tf.train.ExponentialMovingAverage(0.99, name="others")
    update = tf.group(averages.apply([weight]), others.apply([weight, double]))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(6):
            session.run(count)
            session.run(update)
        names = [variable.op.name for variable in tf.global_variables()]
        values = {name: session.run(name + ":0") for name in names}
        restored = averages.variables_to_restore()
    return {
        "order": np.array(names),
        "restored": np.array(sorted(f"{name}={variable.op.name}" for name, variable in restored.items())),
        **values,
    }
