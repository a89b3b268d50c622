"""`tf.contrib.rnn`'s fused cells on TensorFlow's own kernels, which it still has."""

from __future__ import annotations

from typing import Any

import tensorflow

from conformance.on_tensorflow import tf1


class LSTMBlockFusedCell:
    """An LSTM over whole sequences, by the kernel BlockLSTM."""

    def __init__(
        self, num_units: int, forget_bias: float = 1.0, cell_clip: float | None = None, use_peephole: bool = False
    ) -> None:
        self._units, self._bias, self._clip, self._sees = num_units, forget_bias, cell_clip, use_peephole

    def __call__(self, inputs: Any, initial_state: Any, sequence_length: Any = None) -> Any:
        """Outputs, and the state at the end of every row."""
        steps, rows, depth = inputs.shape.as_list()
        with tf1.variable_scope("lstm_fused_cell"):
            kernel = tf1.get_variable("kernel", [depth + self._units, 4 * self._units])
            bias = tf1.get_variable("bias", [4 * self._units], initializer=tf1.zeros_initializer())
            names = [f"w_{gate}_diag" for gate in "ifo"] if self._sees else []
            diagonals = [tf1.get_variable(name, [self._units]) for name in names] or [tf1.zeros([self._units])] * 3
        longest = steps if sequence_length is None else max(sequence_length)
        _, memories, _, _, _, _, outputs = tensorflow.raw_ops.BlockLSTM(
            seq_len_max=tf1.constant(longest, tf1.int64),
            x=inputs,
            cs_prev=initial_state[0],
            h_prev=initial_state[1],
            w=kernel,
            wci=diagonals[0],
            wcf=diagonals[1],
            wco=diagonals[2],
            b=bias,
            forget_bias=self._bias,
            cell_clip=-1.0 if self._clip is None else self._clip,
            use_peephole=self._sees,
        )
        if sequence_length is None:
            return outputs, (memories[-1], outputs[-1])
        mask = tf1.transpose(tf1.sequence_mask(sequence_length, steps, tf1.float32))
        outputs *= mask[:, :, None]
        places = tf1.stack([sequence_length, tf1.range(rows)], 1)
        ends = [
            tf1.gather_nd(tf1.concat([first[None], each], 0), places)
            for first, each in zip(initial_state, (memories, outputs), strict=True)
        ]
        return outputs, tuple(ends)


class GRUBlockCell:
    """A step of a GRU, by the kernel GRUBlockCell."""

    def __init__(self, num_units: int) -> None:
        self._units = num_units

    def __call__(self, inputs: Any, state: Any) -> Any:
        """The new state, as the output too."""
        rows = inputs.shape.as_list()[1] + self._units
        with tf1.variable_scope("gru_cell"):
            weights = {
                "w_ru": tf1.get_variable("w_ru", [rows, 2 * self._units]),
                "b_ru": tf1.get_variable("b_ru", [2 * self._units]),
                "w_c": tf1.get_variable("w_c", [rows, self._units]),
                "b_c": tf1.get_variable("b_c", [self._units]),
            }
        *_, new = tensorflow.raw_ops.GRUBlockCell(x=inputs, h_prev=state, **weights)
        return new, new
