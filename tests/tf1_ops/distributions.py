"""What distributions know of their probabilities."""

from __future__ import annotations

from typing import Any

from tests.tf1_ops.call import Calls, floats, ints

CALLS = Calls()
add = CALLS.add

OF_VALUES = ["prob", "log_prob", "cdf", "log_cdf", "survival_function"]
OF_ITSELF = ["mean", "mode", "stddev", "variance", "entropy"]
_LOC, _SCALE = floats(2, 3), floats(2, 3, low=0.5, high=2.0, seed=1)


def normal(tf: Any, *parameters: Any) -> Any:
    return tf.distributions.Normal(*parameters)


def uniform(tf: Any, *parameters: Any) -> Any:
    return tf.distributions.Uniform(*parameters)


for _name in OF_VALUES:
    add(
        f"normal {_name}",
        lambda tf, m, s, x, name=_name: getattr(normal(tf, m, s), name)(x),
        _LOC,
        _SCALE,
        floats(2, 3),
    )
    add(f"uniform {_name}", lambda tf, a, b, x, name=_name: getattr(uniform(tf, a, b), name)(x), -1.0, 1.5, floats(7))
for _name in OF_ITSELF:
    add(f"normal {_name}", lambda tf, m, s, name=_name: getattr(normal(tf, m, s), name)(), _LOC, _SCALE)
for _name in ["mean", "stddev", "variance", "entropy"]:
    add(f"uniform {_name}", lambda tf, a, b, name=_name: getattr(uniform(tf, a, b), name)(), floats(3), floats(3) + 1)
add("normal log_prob of one scale", lambda tf, m, x: normal(tf, m, 2.0).log_prob(x), _LOC, floats(2, 3))
add("normal log_prob of many values", lambda tf, m, s, x: normal(tf, m, s).log_prob(x), _LOC, _SCALE, floats(4, 2, 3))
add("normal log_prob of a number", lambda tf, m, s: normal(tf, m, s).log_prob(0.5), _LOC, _SCALE)
add("normal entropy of one scale", lambda tf, m: normal(tf, m, 2.0).entropy(), _LOC)
add("normal of two dtypes", lambda tf, m, s: normal(tf, m, s).mean(), floats(2), ints(2, low=1))
add(
    "normal divergence",
    lambda tf, m, s, n, t: tf.distributions.kl_divergence(normal(tf, m, s), normal(tf, n, t)),
    *(_LOC, _SCALE, floats(2, 3, seed=5), floats(2, 3, low=0.5, seed=6)),
)
add("normal divergence by method", lambda tf, m, s: normal(tf, m, s).kl_divergence(normal(tf, 0.0, 1.0)), _LOC, _SCALE)
add(
    "divergence of two kinds",
    lambda tf, m, s: tf.distributions.kl_divergence(normal(tf, m, s), uniform(tf, 0.0, 1.0)),
    *(_LOC, _SCALE),
)
add("normal batch shape", lambda tf, m, s: normal(tf, m, s).batch_shape_tensor(), floats(3), floats(2, 1, low=0.5))


def categorical(tf: Any, logits: Any) -> Any:
    return tf.distributions.Categorical(logits=logits)


def bernoulli(tf: Any, logits: Any) -> Any:
    return tf.distributions.Bernoulli(logits=logits)


for _name in ["prob", "log_prob"]:
    add(f"categorical {_name}", lambda tf, x, k, name=_name: getattr(categorical(tf, x), name)(k), floats(2, 3), [2, 0])
    add(f"bernoulli {_name}", lambda tf, x, k, name=_name: getattr(bernoulli(tf, x), name)(k), floats(3), [1, 0, 1])
for _name in ["entropy", "mode"]:
    add(f"categorical {_name}", lambda tf, x, name=_name: getattr(categorical(tf, x), name)(), floats(2, 3))
for _name in ["entropy", "mode", "mean", "variance", "stddev"]:
    add(f"bernoulli {_name}", lambda tf, x, name=_name: getattr(bernoulli(tf, x), name)(), floats(3))
add("categorical log_prob of one vector", lambda tf, x, k: categorical(tf, x).log_prob(k), floats(3), 1)
add("categorical log_prob of many classes", lambda tf, x, k: categorical(tf, x).log_prob(k), floats(3), [1, 0, 2, 1])
add("categorical log_prob past the end", lambda tf, x, k: categorical(tf, x).log_prob(k), floats(2, 3), [3, 0])
add(
    "categorical of probabilities",
    lambda tf, p, k: tf.distributions.Categorical(probs=p).log_prob(k),
    *(floats(2, 3, low=0.1, high=1.0), [2, 0]),
)
add(
    "bernoulli of probabilities",
    lambda tf, p, k: tf.distributions.Bernoulli(probs=p).log_prob(k),
    *(floats(3, low=0.1, high=0.9), [1, 0, 1]),
)
for _kind in [categorical, bernoulli]:
    add(
        f"{_kind.__name__} divergence",
        lambda tf, x, y, kind=_kind: tf.distributions.kl_divergence(kind(tf, x), kind(tf, y)),
        *(floats(2, 3), floats(2, 3, seed=1)),
    )
add("categorical of nothing", lambda tf: tf.distributions.Categorical().entropy())
add("categorical of both", lambda tf, x: tf.distributions.Categorical(x, x).entropy(), floats(3))
add("categorical mean", lambda tf, x: categorical(tf, x).mean(), floats(2, 3))
