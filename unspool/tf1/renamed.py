"""Names from before TensorFlow 1.0, or from its first versions, and what they have been called since."""

from __future__ import annotations

_CELLS = "EmbeddingWrapper InputProjectionWrapper OutputProjectionWrapper HighwayWrapper"
_BATCHED = "cholesky matrix_determinant matrix_inverse matrix_solve self_adjoint_eig svd fft ifft"

RENAMED: dict[str, str] = {
    "tf.pack": "tf.stack",
    "tf.unpack": "tf.unstack",
    "tf.concat_v2": "tf.concat",
    "tf.batch_matmul": "tf.matmul",
    "tf.batch_matrix_transpose": "tf.matrix_transpose",
    "tf.batch_matrix_diag": "tf.matrix_diag",
    "tf.batch_matrix_diag_part": "tf.matrix_diag_part",
    "tf.batch_matrix_band_part": "tf.matrix_band_part",
    **{f"tf.batch_{each}": f"tf.{each}" for each in _BATCHED.split()},
    "tf.select": "tf.where",
    "tf.listdiff": "tf.setdiff1d",
    "tf.inv": "tf.reciprocal",
    "tf.complex_abs": "tf.abs",
    "tf.initialize_variables": "tf.variables_initializer",
    "tf.initialize_local_variables": "tf.local_variables_initializer",
    "tf.op_scope": "tf.name_scope(name, default_name, values)",
    "tf.variable_op_scope": "tf.variable_scope(name, default_name, values)",
    "tf.scalar_summary": "tf.summary.scalar",
    "tf.histogram_summary": "tf.summary.histogram",
    "tf.image_summary": "tf.summary.image",
    "tf.audio_summary": "tf.summary.audio",
    "tf.merge_summary": "tf.summary.merge",
    "tf.merge_all_summaries": "tf.summary.merge_all",
    "tf.train.SummaryWriter": "tf.summary.FileWriter",
    "tf.nn.rnn": "tf.nn.static_rnn(cell, inputs)",
    "tf.nn.bidirectional_rnn": "tf.nn.static_bidirectional_rnn",
    "tf.nn.state_saving_rnn": "tf.nn.static_state_saving_rnn",
    "tf.contrib.rnn.rnn": "tf.nn.static_rnn(cell, inputs)",
    "tf.nn.seq2seq": "tf.contrib.legacy_seq2seq",
    "tf.seq2seq": "tf.contrib.legacy_seq2seq",
    "tf.rnn": "tf.nn.static_rnn(cell, inputs)",
    "tf.rnn_cell": "tf.nn.rnn_cell",
    **{f"tf.nn.rnn_cell.{each}": f"tf.contrib.rnn.{each}" for each in _CELLS.split()},
    "tf.contrib.ctc": "tf.nn: ctc_loss and the decoders",
    "tf.contrib.seq2seq.DynamicAttentionWrapper": "tf.contrib.seq2seq.AttentionWrapper",
    "tf.contrib.seq2seq.DynamicAttentionWrapperState": "tf.contrib.seq2seq.AttentionWrapperState",
    "tf.contrib.seq2seq.dynamic_rnn_decoder": "tf.contrib.seq2seq.dynamic_decode with a BasicDecoder",
    "tf.contrib.seq2seq.prepare_attention": "tf.contrib.seq2seq.LuongAttention or BahdanauAttention",
    **{
        f"tf.contrib.seq2seq.{kind}_decoder_fn_{when}": "tf.contrib.seq2seq.BasicDecoder with a helper"
        for kind in ("simple", "attention")
        for when in ("train", "inference")
    },
    "tf.contrib.deprecated.scalar_summary": "tf.summary.scalar",
    "tf.contrib.deprecated.histogram_summary": "tf.summary.histogram",
    "tf.image.per_image_whitening": "tf.image.per_image_standardization",
}
"""The name since 1.0, or since 1.2 for `tf.contrib.seq2seq`, by the older one."""
