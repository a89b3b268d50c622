"""TensorFlow's `beam_search_ops_test.py`: `gather_tree`, its kernel."""

from __future__ import annotations

import pytest
import torch

from unspool.decode import gather_tree

END = 10
STEP_IDS = [[1, 2, 3], [4, 5, 6], [7, 8, 9], [-1, -1, -1]]
PARENT_IDS = [[0, 0, 0], [0, 1, 1], [2, 1, 2], [-1, -1, -1]]


def one_row(steps):
    """`[time, beam]` as `[time, 1, beam]`."""
    return torch.tensor(steps, dtype=torch.int32).unsqueeze(1)


def test_gather_tree_one():
    ids = gather_tree(one_row(STEP_IDS), one_row(PARENT_IDS), [3], END)
    assert ids.dtype == torch.int32
    assert ids.squeeze(1).tolist() == [[2, 2, 2], [6, 5, 6], [7, 8, 9], [END, END, END]]


def test_bad_parent_values_on_cpu():
    parents = one_row(PARENT_IDS)
    parents[1, 0, 1] = -1
    with pytest.raises(ValueError, match=r"parent id -1 at \(batch, time, beam\) == \(0, 1, 1\)"):
        gather_tree(one_row(STEP_IDS), parents, [3], END)


def test_bad_parent_values_on_cpu_past_the_length_are_not_looked_at():
    parents = one_row(PARENT_IDS)
    parents[2, 0, 1] = -1
    assert gather_tree(one_row(STEP_IDS), parents, [2], END).squeeze(1).tolist() == [
        [1, 2, 2],
        [4, 5, 6],
        [END] * 3,
        [END] * 3,
    ]


def test_gather_tree_batch():
    steps, lengths, width, end = 8, [0, 1, 2, 4, 7, 8, 9, 10, 11, 0], 15, 5
    step_ids = torch.randint(0, end + 1, (steps, len(lengths), width))
    parent_ids = torch.randint(0, width - 1, (steps, len(lengths), width))
    ids = gather_tree(step_ids, parent_ids, lengths, end)
    assert ids.shape == (steps, len(lengths), width)
    for row, length in enumerate(lengths):
        assert (ids[length:, row] == end).all()
        for sequence in ids[:, row].T.tolist():
            first = sequence.index(end) if end in sequence else steps
            assert all(0 <= token < end for token in sequence[:first])
            assert all(token == end for token in sequence[first:])
    # The last step of a row that has not ended is where its paths begin.
    whole = ids[7, 5]
    assert (whole[(ids[:7, 5] != end).all(0)] == step_ids[7, 5][(ids[:7, 5] != end).all(0)]).all()
