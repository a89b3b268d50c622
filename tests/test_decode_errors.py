"""Every error of decoding, by type and by what it says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from tests.cells import Nested, Plus1, Returns
from unspool import GRUCell, LSTMCell
from unspool.decode import (
    BasicDecoder,
    Decoder,
    GreedyEmbeddingHelper,
    SequenceLoss,
    TrainingHelper,
    dynamic_decode,
    sequence_loss,
    sequence_mask,
)

B, T, D, V = 2, 4, 3, 5
X, LENGTHS, STATE = torch.zeros(B, T, D), [4, 2], torch.zeros(B, D)
TABLE = torch.zeros(V, D)


def training(**kwargs: Any) -> TrainingHelper:
    return TrainingHelper(**{"inputs": X, "sequence_length": LENGTHS, **kwargs})


# -- dynamic_decode ----------------------------------------------------------------------------------------------------


class Scripted(Decoder):
    """Returns what it is told to; by default all is well, and it ends after two steps."""

    batch_size: Any = B
    output_size: Any = 1
    output_dtype: Any = torch.float32
    first_finished: Any = torch.tensor([False, True])
    first_inputs: Any = torch.zeros(B, 2)
    first_state: Any = (torch.zeros(B, 3),)

    def __init__(self, **returned: Any) -> None:
        self.output, self.finished = torch.zeros(B, 1), torch.tensor([False, False])
        self.state, self.inputs = self.first_state, self.first_inputs
        vars(self).update(returned)

    def initialize(self) -> Any:
        return self.first_finished, self.first_inputs, self.first_state

    def step(self, time: int, inputs: Any, state: Any) -> Any:
        return self.output, self.state, self.inputs, self.finished | (time == 1)


def test_a_script_without_faults_runs() -> None:
    assert dynamic_decode(Scripted())[2].tolist() == [2, 0]


@pytest.mark.parametrize("decoder", [None, GRUCell(3), Scripted, "decoder"])
def test_dynamic_decode_refuses_what_is_no_decoder(decoder: Any) -> None:
    with pytest.raises(TypeError, match="decoder must be a Decoder, but is a"):
        dynamic_decode(decoder)


@pytest.mark.parametrize("limit", [[1, 2], torch.tensor([3]), np.array([[1]])])
def test_maximum_iterations_must_be_a_scalar(limit: Any) -> None:
    with pytest.raises(ValueError, match=r"maximum_iterations must be a scalar, but has shape \["):
        dynamic_decode(Scripted(), maximum_iterations=limit)


@pytest.mark.parametrize("limit", [2.0, True, "3", torch.tensor(1.5), {}])
def test_maximum_iterations_must_be_an_int(limit: Any) -> None:
    with pytest.raises(TypeError, match="maximum_iterations must be an int, but is"):
        dynamic_decode(Scripted(), maximum_iterations=limit)


def test_maximum_iterations_must_not_be_negative() -> None:
    with pytest.raises(ValueError, match="maximum_iterations must not be negative, but is -1"):
        dynamic_decode(Scripted(), maximum_iterations=-1)


def test_dynamic_decode_checks_parallel_iterations_and_scope() -> None:
    with pytest.raises(TypeError, match="parallel_iterations must be positive, but is -1"):
        dynamic_decode(Scripted(), parallel_iterations=-1)
    with pytest.raises(AssertionError, match="parallel_iterations must be an int"):
        dynamic_decode(Scripted(), parallel_iterations=1.5)  # pyright: ignore
    with pytest.raises(TypeError, match="scope must be a string, but is 3"):
        dynamic_decode(Scripted(), scope=3)


@pytest.mark.parametrize(
    ("fault", "error", "message"),
    [
        (dict(first_finished=torch.tensor(False)), ValueError, "finished must have a bool for each row"),
        (dict(first_finished=torch.tensor([0, 1])), TypeError, "finished must be bool, but is torch.int64"),
        (dict(first_finished=[False] * 3), ValueError, r"finished has shape \[3\], but the decoder has a batch of 2"),
        (
            dict(first_finished=torch.zeros(B, 3, dtype=torch.bool)),
            ValueError,
            r"impute_finished needs one bool for each row, but finished has shape \[2, 3\]",
        ),
        (dict(first_state=None), ValueError, "state: None values not supported"),
        (
            dict(first_inputs=torch.zeros(3, 2)),
            ValueError,
            r"an input has shape \[3, 2\], but inputs have a batch of 2",
        ),
        (dict(first_state=(torch.zeros(6, 3),)), ValueError, r"the state has shape \[6, 3\], but .* a batch of 2"),
        (dict(output_size=None), ValueError, "decoder.output_size must be fully defined"),
        (dict(output_dtype=(torch.int32,) * 2), ValueError, "decoder.output_size has 1 leaves, but .* has 2"),
        (
            dict(output=(torch.zeros(B, 1),)),
            ValueError,
            "the decoder's output is a tuple of 1, but decoder.output_size",
        ),
        (dict(output=torch.zeros(B, 2)), ValueError, r"output has shape \[2, 2\], but .*batch_size say \[2, 1\]"),
        (dict(output=torch.zeros(B, 1).int()), TypeError, "output is torch.int32, but expected torch.float32"),
        (dict(output=0), TypeError, "the decoder's output must be made of tensors, but has an int"),
        (dict(state=[torch.zeros(B, 3)]), TypeError, "the decoder's next state is a list, but the state is a tuple"),
        (
            dict(state=(torch.zeros(B, 4),)),
            ValueError,
            r"the decoder's next state has shape \[2, 4\], but the state may",
        ),
        (
            dict(inputs=torch.zeros(B, 3)),
            ValueError,
            r"the decoder's next inputs has shape \[2, 3\], but the inputs may",
        ),
        (
            dict(inputs=torch.zeros(B, 2).double()),
            TypeError,
            "next inputs is torch.float64, but expected torch.float32",
        ),
        (dict(finished=torch.tensor([0, 0])), TypeError, "finished must be bool, but is torch.int64"),
        (
            dict(finished=torch.tensor([False] * 3)),
            ValueError,
            r"finished must have shape \[2\], but has shape \[3\]",
        ),
    ],
)
def test_dynamic_decode_checks_what_a_decoder_says(fault: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        dynamic_decode(Scripted(**fault))


def test_a_step_must_return_four_things() -> None:
    class Short(Scripted):
        def step(self, time: int, inputs: Any, state: Any) -> Any:
            return super().step(time, inputs, state)[:3]

    with pytest.raises(TypeError, match=r"must return \(outputs, next_state, .*\), but .* returned a tuple of 3"):
        dynamic_decode(Short())


# -- BasicDecoder ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (dict(cell=nn.Linear(3, 3)), TypeError, r"The argument 'cell' .*is not an RNNCell"),
        (dict(helper=None), TypeError, "helper must be a Helper, but is a NoneType: None"),
        (dict(helper=TrainingHelper), TypeError, "helper must be a Helper, but is the class TrainingHelper"),
        (dict(output_layer=3), TypeError, "output_layer must be a module or a function, but is an int: 3"),
        (dict(output_layer=nn.Linear), TypeError, "output_layer must be .*, but is the class Linear"),
        (dict(initial_state=torch.float32), TypeError, "initial_state is torch.float32, but must be a state"),
        (dict(initial_state=None), ValueError, "initial_state: None values not supported"),
        (
            dict(cell=LSTMCell(3), initial_state=(STATE, STATE)),
            TypeError,
            r"initial_state is a tuple, but cell.state_size is an LSTMStateTuple\(c, h\)",
        ),
    ],
)
def test_basic_decoder_checks_its_arguments(arguments: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        BasicDecoder(**{"cell": Plus1(D), "helper": training(), "initial_state": STATE, **arguments})


def test_basic_decoder_refuses_a_state_of_other_rows() -> None:
    cell = GRUCell(D)
    with pytest.raises(ValueError, match=r"initial_state has shape \[6, 3\], but inputs have a batch of 2"):
        dynamic_decode(BasicDecoder(cell, training(), torch.zeros(6, D)))
    assert not cell.built


def test_basic_decoder_needs_a_dtype() -> None:
    cell = Returns((), D, lambda inputs, state: (inputs, state))
    with pytest.raises(ValueError, match="initial_state has no tensor, so the dtype of the cell's output is unknown"):
        dynamic_decode(BasicDecoder(cell, training(), ()))


@pytest.mark.parametrize("kind", [TrainingHelper, GreedyEmbeddingHelper])
@pytest.mark.parametrize(
    "layer", [lambda output: output[:, :, None], lambda output: (output, output), lambda _: _[:, :0]]
)
def test_outputs_must_be_logits(kind: Any, layer: Any) -> None:
    helper = training() if kind is TrainingHelper else GreedyEmbeddingHelper(TABLE, [0, 0], 1)
    with pytest.raises(ValueError, match=f"{kind.__name__} samples from one vector of logits a row, but the size"):
        dynamic_decode(BasicDecoder(Plus1(D), helper, STATE, layer))


def test_outputs_of_a_nested_cell_need_a_layer() -> None:
    cell = Nested(D)
    helper = training(inputs={"x": X, "image": torch.zeros(B, T, 2, D)})
    with pytest.raises(ValueError, match="an output_layer can make logits of it"):
        dynamic_decode(BasicDecoder(cell, helper, cell.zero_state(B, torch.float32)))


def test_a_cell_must_leave_its_state_alone() -> None:
    cell = Returns(D, D, lambda inputs, state: (inputs, state.add_(1)))
    with pytest.raises(RuntimeError, match="the cell changed its inputs or its state in place"):
        dynamic_decode(BasicDecoder(cell, training(), torch.zeros(B, D)))


def test_a_cell_must_keep_its_containers() -> None:
    cell = Returns(D, D, lambda inputs, state: (inputs, (state,)))
    with pytest.raises(ValueError, match="the cell's new state is a tuple of 1, but its state is a Tensor"):
        dynamic_decode(BasicDecoder(cell, training(), STATE))


# -- the loss ----------------------------------------------------------------------------------------------------------

LOGITS, TARGETS, WEIGHTS = torch.zeros(B, T, V), torch.zeros(B, T, dtype=torch.int64), torch.ones(B, T)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (dict(logits=LOGITS[0]), ValueError, r"logits must have shape \[batch, time, classes\], but has \[4, 5\]"),
        (dict(targets=TARGETS[0]), ValueError, r"targets must have shape \[batch, time\], but has \[4\]"),
        (dict(targets=LOGITS.long()), ValueError, r"targets must have shape \[batch, time\], but has \[2, 4, 5\]"),
        (dict(weights=WEIGHTS[0]), ValueError, r"weights must have shape \[batch, time\], but has \[4\]"),
        (
            dict(targets=TARGETS[:, :3]),
            ValueError,
            r"targets has shape \[2, 3\], but logits have batch and time \[2, 4\]",
        ),
        (dict(weights=WEIGHTS[:1]), ValueError, r"weights has shape \[1, 4\], but logits have batch and time \[2, 4\]"),
        (dict(logits=LOGITS.long()), TypeError, "logits must be floating-point numbers, but are torch.int64"),
        (dict(targets=TARGETS.float()), TypeError, "targets must be ids, which are ints, but are torch.float32"),
        (dict(targets=TARGETS + V), ValueError, r"targets\[0, 0\] is 5, but logits have 5 classes"),
        (dict(targets=TARGETS - 1), ValueError, r"targets\[0, 0\] is -1, but logits have 5 classes"),
        (dict(weights=None), ValueError, "weights: None values not supported"),
        (
            dict(sum_over_timesteps=True),
            ValueError,
            "average_across_timesteps and sum_over_timesteps exclude each other",
        ),
        (dict(sum_over_batch=True), ValueError, "average_across_batch and sum_over_batch exclude each other"),
        (
            dict(sum_over_batch=True, average_across_batch=False),
            ValueError,
            "average_across_timesteps and sum_over_batch exclude each other: both axes",
        ),
    ],
)
def test_sequence_loss_checks_its_arguments(arguments: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        sequence_loss(**{"logits": LOGITS, "targets": TARGETS, "weights": WEIGHTS, **arguments})


def test_sequence_loss_class_checks_its_reductions() -> None:
    with pytest.raises(ValueError, match="average_across_batch and sum_over_batch exclude each other"):
        SequenceLoss(average_across_batch=True)


def test_sequence_mask_checks_its_arguments() -> None:
    with pytest.raises(TypeError, match=r"lengths must hold ints, but is torch.float32"):
        sequence_mask([1.0, 2.0])
    with pytest.raises(ValueError, match="maxlen must not be negative, but is -1"):
        sequence_mask([1, 2], -1)
