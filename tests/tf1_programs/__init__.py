"""Programs for TensorFlow 1 as they were written in its day, to be run unchanged by TensorFlow and by unspool.

Each module builds one program: `build(tf)`, with `tf` as `import tensorflow as tf` gave it then.
"""

from __future__ import annotations

import importlib
from functools import partial

from . import embeddings, optimizers
from .program import Build

_MODULES = """
    two_steps static_list static_unstacked dynamic lengths stacked_lstms row_classifier forecast forecast_wrapped
    static_lengths tagger shared_scopes stateful_model summaries saving flat_images many_losses input_gradients
    encoder_decoder peepholes own_cell inferred_lengths attention_pooling truncated scanned moving_average
    contrib_layers char_model decayed_rate dropout_wrapper raw while_rnn newton batch_norm_cond dropout_cond
    lstm_by_hand tensor_tools metrics unrolled_chars
"""

PROGRAMS: dict[str, Build] = {
    **{name: importlib.import_module(f"{__name__}.{name}").build for name in _MODULES.split()},
    **{f"optimizer_{name}": partial(optimizers.build, optimizer=name) for name in optimizers.OPTIMIZERS},
    **{f"embeddings_{name}": partial(embeddings.build, optimizer=name) for name in optimizers.OPTIMIZERS},
}
