"""Layers of `tf.keras` with given weights, and its functions of arrays."""

from __future__ import annotations

from typing import Any

from tests.tf1_ops.call import Calls, floats

CALLS = Calls()
add = CALLS.add
X = floats(2, 4, 3)
GATES = {"SimpleRNN": 1, "GRU": 3, "LSTM": 4}


def _recurrent(name: str, states: Any = None, **options: Any) -> Any:
    """A layer whose weights are fed, in the place of its variables."""
    gates = GATES[name]

    def call(tf: Any, x: Any, kernel: Any, recurrent: Any, bias: Any, *start: Any) -> Any:
        layer = getattr(tf.keras.layers, name)(4, **options)
        layer.build(tf.TensorShape([None, None, 3]))
        for part in (layer, getattr(layer, "cell", layer)):
            part.kernel, part.recurrent_kernel, part.bias = kernel, recurrent, bias
        kwargs = {"initial_state": list(start)} if start else {}
        shapes = [[None, None, 3], [3, 4 * gates], [4, 4 * gates], [4 * gates], *[[None, 4]] * len(start)]
        for each, shape in zip((x, kernel, recurrent, bias, *start), shapes, strict=True):
            each.set_shape(shape)  # which a layer has to know
        return layer(x, **kwargs)

    given = [X, floats(3, 4 * gates, seed=1), floats(4, 4 * gates, seed=2), floats(4 * gates, seed=3)]
    return call, *given, *[floats(2, 4, seed=4 + k) for k in range(states or 0)]


for _name in GATES:
    add(f"keras {_name}", *_recurrent(_name))
    add(f"keras {_name} of all steps", *_recurrent(_name, return_sequences=True, return_state=True))
    add(f"keras {_name} backwards", *_recurrent(_name, return_sequences=True, go_backwards=True))
    add(f"keras {_name} from a state", *_recurrent(_name, 1 + (_name == "LSTM"), return_state=True))
add("keras LSTM of sigmoids", *_recurrent("LSTM", activation="relu", recurrent_activation="sigmoid"))
for _name in ("elu", "exponential", "hard_sigmoid", "linear", "relu", "selu", "sigmoid", "softmax", "softplus", "softsign", "tanh"):  # fmt: skip  # noqa: E501
    add(
        f"keras activation {_name}", lambda tf, x, n=_name: tf.keras.activations.get(n)(x), floats(2, 5, low=-4, high=4)
    )
add("keras activation of no name", lambda tf, x: tf.keras.activations.get("no such")(x), X)
SEQUENCES: dict[str, tuple[Any, dict[str, Any]]] = {
    "": ([[1], [1, 2, 3]], {}),
    "to a length": ([[1], [1, 2, 3]], {"maxlen": 2, "padding": "post", "truncating": "post", "value": 9}),
    "cut at the start": ([[1], [1, 2, 3]], {"maxlen": 2}),
    "of vectors": ([[[1, 2]], [[3, 4], [5, 6]]], {"dtype": "float32", "value": 0.5}),
    "with an empty one": ([[1.5], []], {"dtype": "float32"}),
    "of numbers": ([1, 2], {}),
    "of a number": (3, {}),
    "padded elsewhere": ([[1], [2]], {"padding": "middle"}),
    "cut elsewhere": ([[1], [2]], {"truncating": "middle"}),
    "of several shapes": ([[[1, 2]], [[3, 4, 5]]], {}),
}
for _name, (_given, _options) in SEQUENCES.items():
    add(f"pad_sequences {_name}", lambda tf, g=_given, o=_options: tf.constant(tf.keras.preprocessing.sequence.pad_sequences(g, **o)))  # fmt: skip  # noqa: E501
for _name, _given in {"": ([0, 2],), "of a column": ([[0], [1]], 3), "of rows": ([[0, 1]], 3), "of too many": ([5], 3)}.items():  # fmt: skip  # noqa: E501
    add(f"to_categorical {_name}", lambda tf, g=_given: tf.constant(tf.keras.utils.to_categorical(*g)))
