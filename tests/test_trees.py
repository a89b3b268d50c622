"""Trees of beams, against a walk in plain Python; and tiles."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from unspool import LSTMStateTuple, TensorArray
from unspool.decode import gather_tree, gather_tree_from_array, tile_batch

END = 0


@st.composite
def trees(draw):
    """`[time, batch, beam]` ids and parents."""
    steps, batch, width = draw(st.integers(0, 6)), draw(st.integers(1, 3)), draw(st.integers(1, 4))

    def numbers(limit):
        count = steps * batch * width
        drawn = draw(st.lists(st.integers(0, limit), min_size=count, max_size=count))
        return torch.tensor(drawn, dtype=torch.int64).reshape(steps, batch, width)

    return numbers(4), numbers(width - 1)


def walked(step_ids, parent_ids, row, beam, length):
    """The ids of one path, from the root."""
    ids = []
    for time in reversed(range(min(length, len(step_ids)))):
        ids.append(step_ids[time][row][beam])
        beam = parent_ids[time][row][beam]
    return ids[::-1]


def ended(ids, steps):
    """`ids` up to the first end, then ends."""
    cut = ids[: ids.index(END)] if END in ids else ids
    return cut + [END] * (steps - len(cut))


@given(trees(), st.data())
def test_gather_tree_is_a_walk_along_parents(tree, data):
    step_ids, parent_ids = tree
    steps, batch, width = step_ids.shape
    lengths = [data.draw(st.integers(0, steps + 2)) for _ in range(batch)]
    ids = gather_tree(step_ids, parent_ids, lengths, END)
    for row in range(batch):
        for beam in range(width):
            expected = ended(walked(step_ids.tolist(), parent_ids.tolist(), row, beam, lengths[row]), steps)
            assert ids[:, row, beam].tolist() == expected


@given(trees(), st.booleans(), st.data())
def test_gather_tree_from_array_is_the_same_walk_up_to_each_length(tree, merged, data):
    _, parent_ids = tree
    steps, batch, width = parent_ids.shape
    lengths = [[data.draw(st.integers(0, steps)) for _ in range(width)] for _ in range(batch)]
    array = torch.arange(steps * batch * width * 2.0, dtype=torch.float64).reshape(steps, batch, width, 2)
    given_array = (array.flatten(1, 2) if merged else array).requires_grad_()
    ordered = gather_tree_from_array(given_array, parent_ids, lengths)
    assert ordered.shape == given_array.shape
    elements = array.tolist()
    for row in range(batch):
        for beam in range(width):
            longest, own = max(lengths[row]), lengths[row][beam]
            path = walked(elements, parent_ids.tolist(), row, beam, longest)[:own]
            expected = path + [elements[time][row][beam] for time in range(own, steps)]
            assert ordered.reshape(steps, batch, width, 2)[:, row, beam].tolist() == expected
    if ordered.numel():
        # Every element that is put out sends its gradient to where it came from.
        (gradient,) = torch.autograd.grad(ordered.sum(), given_array)
        assert gradient.sum() == ordered.numel()


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_ids_keep_their_dtype(dtype):
    ids = torch.zeros(2, 1, 2, dtype=dtype)
    assert gather_tree(ids, ids, [2], 1).dtype == dtype


def test_arrays_and_lists_are_tensors():
    ids, parents = np.array([[[1, 2]], [[3, 4]]], dtype=np.int32), np.array([[[0, 0]], [[1, 0]]], dtype=np.int32)
    assert gather_tree(ids, parents, np.array([2]), np.int64(9)).tolist() == [[[2, 1]], [[3, 4]]]
    assert gather_tree_from_array(ids.astype(np.float32), parents, [[2, 2]]).tolist() == [[[2, 1]], [[3, 4]]]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (([[1]], [[1]], [1], 0), ValueError, r"parent_ids must be \[time, batch, beam\], but has shape \[1, 1\]"),
        (([[[1, 1]]], [[[0]]], [1], 0), ValueError, r"step_ids has shape \[1, 1, 2\], but parent_ids has \[1, 1, 1\]"),
        (([[[1]]], [[[0]]], [1, 1], 0), ValueError, r"max_sequence_lengths must have one length per row, \[1\]"),
        (([[[1]]], [[[0]]], [1.0], 0), TypeError, "max_sequence_lengths must be integers, but is torch.float32"),
        (([[[1.0]]], [[[0]]], [1], 0), TypeError, "step_ids must be integers"),
        (([[[1]]], [[[0]]], [1], [0]), ValueError, r"end_token must be a scalar, but has shape \[1\]"),
        (([[[1]]], [[[0]]], [1], 0.5), TypeError, "end_token must hold ints, but is torch.float32"),
    ],
)
def test_gather_tree_says_what_is_wrong(arguments, error, message):
    with pytest.raises(error, match=message):
        gather_tree(*arguments)


@pytest.mark.parametrize("parent", [-1, 2])
def test_a_parent_that_is_no_beam_is_named(parent):
    parents = torch.zeros(3, 2, 2, dtype=torch.int64)
    parents[2, 1, 0] = parent
    message = rf"parent id {parent} at \(batch, time, beam\) == \(1, 2, 0\), but parent_ids must be beams, 0 to 1"
    with pytest.raises(ValueError, match=message):
        gather_tree(parents, parents, [3, 3], 0)
    with pytest.raises(ValueError, match=message):
        gather_tree_from_array(torch.zeros(3, 2, 2), parents, [[1, 1], [3, 1]])
    gather_tree(parents, parents, [3, 2], 0)


def test_gather_tree_from_array_says_what_is_wrong():
    parents = torch.zeros(3, 2, 2, dtype=torch.int64)
    with pytest.raises(ValueError, match=r"sequence_length must have one length per beam, \[2, 2\]"):
        gather_tree_from_array(torch.zeros(3, 2, 2), parents, [3, 3])
    with pytest.raises(
        ValueError, match=r"the array has shape \[3, 5\], but expected \[3, 2, 2, ...\] or \[3, 4, ...\]"
    ):
        gather_tree_from_array(torch.zeros(3, 5), parents, [[3, 3], [3, 3]])


# -- tiles -----------------------------------------------------------------------------------------------------------


def test_tile_batch_repeats_rows_one_after_another():
    state = LSTMStateTuple(torch.tensor([[1.0], [2.0]]), torch.tensor([[3.0], [4.0]]))
    tiled = tile_batch({"state": state, "lengths": np.array([5, 6])}, 3)
    assert isinstance(tiled["state"], LSTMStateTuple)
    assert tiled["state"].c.tolist() == [[1], [1], [1], [2], [2], [2]]
    assert tiled["state"].h.tolist() == [[3], [3], [3], [4], [4], [4]]
    assert tiled["lengths"].tolist() == [5, 5, 5, 6, 6, 6]


def test_tile_batch_sends_back_the_sum_of_the_gradients():
    rows = torch.ones(2, 2, requires_grad=True)
    tile_batch(rows, 3).sum().backward()
    assert rows.grad.tolist() == [[3, 3], [3, 3]]


@pytest.mark.parametrize(
    ("structure", "multiplier", "error", "message"),
    [
        (torch.tensor(1.0), 2, ValueError, r"tile_batch repeats rows, but tensor\(1.\) is a scalar"),
        ((torch.zeros(2), 3), 2, ValueError, "tile_batch repeats rows, but 3 is a scalar"),
        (torch.zeros(2), 0, ValueError, "multiplier must be at least 1, but is 0"),
        (torch.zeros(2), 1.5, TypeError, "multiplier must be an int, but is 1.5"),
        (torch.zeros(2), True, TypeError, "multiplier must be an int, but is True"),
        (TensorArray(torch.float32), 2, TypeError, "structure must be made of tensors or arrays"),
        (None, 2, ValueError, "structure: None values not supported"),
    ],
)
def test_tile_batch_says_what_is_wrong(structure, multiplier, error, message):
    with pytest.raises(error, match=message):
        tile_batch(structure, multiplier)
