"""TensorFlow's `beam_search_decoder_test.py`, `TestLargeBeamStep`: more beams than tokens."""

from __future__ import annotations

import torch

from tests.tensorflow_tests.beam_steps import END, PENALTIES, logits_of, state_of
from unspool.decode.beam_step import beam_search_step

WIDTH = 8


def test_step():
    likely = {(0, 0, 2): 1.9, (0, 0, 3): 2.1, (0, 1, 3): 3.1, (0, 1, 4): 0.9}
    likely |= {(1, 0, 1): 0.5, (1, 1, 2): 2.7, (1, 2, 2): 10.0, (1, 2, 3): 0.2}
    first = torch.arange(WIDTH).expand(2, WIDTH) == 0
    log_probs = torch.where(first, 0.0, float("-inf"))
    state = state_of(torch.where(first, 2, 0).tolist(), (~first).tolist(), log_probs)
    outputs, after = beam_search_step(logits_of(WIDTH, likely), state.cell_state, state, END, PENALTIES)
    assert outputs.predicted_ids[0, :2].tolist() == [3, 2]
    assert outputs.predicted_ids[1, 0] == 1
    assert (after.log_probs[:, :5] > float("-inf")).all()
    assert (after.log_probs[:, 5:] == float("-inf")).all()
    assert (after.lengths[:, :5] > 0).all()
    assert (after.lengths[:, 5:] == 0).all()
    assert after.finished[:, 5:].all()
