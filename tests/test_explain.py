"""`explain` says what `dynamic_rnn` does with a cell, and does none of it."""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import unspool
from tests.comparison import LENGTHS
from tests.explaining import explain_user_cell, lstm
from tests.user_cells import USER_CELLS
from unspool import Checkpoint, Keep, LSTMCell, Recompute, dynamic_rnn, explain
from unspool.structure import flatten

UNPLANNED = ["branching", "clockwork", "locked_dropout"]


# -- parts -------------------------------------------------------------------------------------------------------------


def test_an_lstm_has_one_product_in_its_core_and_one_in_that_of_its_adjoint() -> None:
    explanation = lstm()
    assert explanation.planned
    assert explanation.reason is None
    forward, backward = explanation.forward, explanation.backward
    assert forward is not None
    assert backward is not None
    assert [each.shapes for each in forward.products if each.part == "core"] == ["rows x 8 @ 8 x 32"]
    assert [each.shapes for each in backward.products if each.part == "core"] == ["rows x 32 @ 32 x 8"]
    assert backward.core <= 12


def test_an_lstm_of_two_linears_is_split_like_the_built_in_one() -> None:
    explanation = explain_user_cell("lstm_two_linears")
    forward, backward = explanation.forward, explanation.backward
    assert forward is not None
    assert backward is not None
    assert forward.after == 0
    assert backward.core <= 12
    for direction in (forward, backward):
        assert sum(each.part == "core" for each in direction.products) == 1


@pytest.mark.parametrize("name", [name for name in USER_CELLS if name not in UNPLANNED])
def test_counts_are_those_of_the_lowered_programs(name: str) -> None:
    explanation = explain_user_cell(name)
    for direction in (explanation.forward, explanation.backward):
        assert direction is not None
        assert direction.core == len(direction.operations) == direction.program.count("  # ")


def test_results_of_one_operation_count_once() -> None:
    forward = lstm().forward
    assert forward is not None
    assert forward.operations.count("split") == 1
    assert "getitem" not in forward.operations


def test_an_output_projection_runs_after_the_loop() -> None:
    explanation = explain_user_cell("output_head")
    assert explanation.forward is not None
    assert [each.part for each in explanation.forward.products].count("after") == 2


def test_random_numbers_are_drawn_ahead() -> None:
    forward = explain_user_cell("dropout_zoneout").forward
    assert forward is not None
    assert forward.draws > 0
    assert "drawn" in str(explain_user_cell("dropout_zoneout"))


def test_the_emitter_is_named_and_why_it_is_no_other() -> None:
    explanation = lstm()
    assert explanation.emitter == "interpreted"
    assert explanation.forward is not None
    assert ("CUDA graph", "it needs a GPU, and the tensors are on cpu") in explanation.forward.passed_over
    assert "Emitter of the core: interpreted. Not CUDA graph: it needs a GPU" in str(explanation)


# -- lines -------------------------------------------------------------------------------------------------------------


def test_every_line_of_the_step_is_listed_in_the_order_of_the_code() -> None:
    lines = explain_user_cell("lstm_two_linears").lines
    assert [line.text for line in lines] == [
        "i, f, g, o = (self.of_x(x) + self.of_h(h)).chunk(4, 1)",
        "c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)",
        "h = torch.sigmoid(o) * torch.tanh(c)",
    ]
    assert [line.number for line in lines] == sorted(line.number for line in lines)
    assert {line.file for line in lines} == {"gated.py"}


def test_a_line_is_split_between_the_parts() -> None:
    first, *others = explain_user_cell("lstm_two_linears").lines
    assert "mm" in first.before
    assert "mm" in first.core
    assert first.after == ()
    assert all(line.core and not line.before for line in others)


@pytest.mark.parametrize("name", [name for name in USER_CELLS if name not in UNPLANNED])
def test_the_lines_have_all_operations_of_the_forward_direction(name: str) -> None:
    explanation = explain_user_cell(name)
    assert explanation.forward is not None
    for part in ("core", "after"):
        assert sum(len(getattr(line, part)) for line in explanation.lines) == getattr(explanation.forward, part)


def test_code_without_source_is_named_by_its_place() -> None:
    names: dict[str, Any] = {"unspool": unspool, "torch": torch}
    source = """
class Typed(unspool.RNNCell):
    state_size = output_size = 2

    def forward(self, x, h):
        h = torch.tanh(x + h)
        return h, h
"""
    exec(compile(source, "<typed>", "exec"), names)
    (line,) = explain(names["Typed"](), torch.zeros(1, 3, 2), dtype=torch.float32).lines
    assert (line.file, line.number, line.text, line.core) == ("<typed>", 6, "", ("add", "tanh"))


# -- products ----------------------------------------------------------------------------------------------------------


def test_products_cost_two_operations_a_weight_and_row() -> None:
    explanation = explain(LSTMCell(8), torch.zeros(4, 5, 3), [5, 1, 0, 2], dtype=torch.float32)
    before, core, d_state, d_weights = explanation.products
    assert (before.shapes, before.runs, before.row_flops) == ("rows x 3 @ 3 x 32", "once a chunk", 2 * 3 * 32)
    assert (core.shapes, core.runs, core.flops) == ("rows x 8 @ 8 x 32", "every step", 8 * 2 * 8 * 32)
    assert (d_state.part, d_weights.part, d_weights.shapes) == ("core", "after", "11 x rows @ rows x 32")


def test_a_product_with_the_weights_alone_is_counted_once() -> None:
    class LowRank(unspool.RNNCell):
        def __init__(self) -> None:
            super().__init__()
            self.state_size = self.output_size = 4
            self.tall, self.wide = nn.Parameter(torch.ones(4, 2)), nn.Parameter(torch.ones(2, 4))

        def forward(self, x: Tensor, h: Tensor) -> Any:
            h = torch.tanh(x + h @ (self.tall @ self.wide))
            return h, h

    product = next(each for each in explain(LowRank(), torch.zeros(3, 6, 4), dtype=torch.float32).products)
    assert (product.part, product.runs, product.row_flops, product.flops) == ("invariant", "once a call", None, 64)


def test_convolutions_are_products_too() -> None:
    of_x, of_h, *backward = explain_user_cell("conv_lstm").products
    assert (of_x.part, of_x.shapes) == ("before", "rows x 3 x 4 x 4 conv 8 x 3 x 3 x 3")
    assert (of_h.part, of_h.shapes) == ("core", "rows x 2 x 4 x 4 conv 8 x 2 x 3 x 3")
    assert of_h.row_flops == 2 * (8 * 4 * 4) * (2 * 3 * 3)
    assert [each.shapes for each in backward] == [
        "rows x 8 x 4 x 4 conv 8 x 2 x 3 x 3",
        "rows x 8 x 4 x 4 conv rows x 5 x 4 x 4",
    ]


def test_a_product_with_a_vector_is_a_product() -> None:
    class Attended(unspool.RNNCell):
        def __init__(self) -> None:
            super().__init__()
            self.state_size = self.output_size = 4
            self.look = nn.Parameter(torch.ones(4))

        def forward(self, x: Tensor, h: Tensor) -> Any:
            h = torch.tanh(x * (h @ self.look).unsqueeze(1))
            return h, h

    explanation = explain(Attended(), torch.zeros(3, 6, 4), dtype=torch.float32)
    assert (explanation.products[0].shapes, explanation.products[0].row_flops) == ("rows x 4 @ 4", 8)


def test_what_checkpoints_repeat_is_counted_twice() -> None:
    once, twice = lstm(), lstm(memory=Checkpoint(every=2))
    assert [each.direction for each in twice.products] == ["forward"] * 2 + ["forward again"] * 2 + ["backward"] * 2
    assert sum(each.flops for each in twice.products) == sum(
        each.flops for each in (*once.products, *once.products[:2])
    )


# -- memory ------------------------------------------------------------------------------------------------------------


def test_an_lstm_keeps_six_numbers_a_unit_or_one() -> None:
    memory = lstm().memory
    assert memory is not None
    assert (memory.policy, memory.why, memory.swap) == (Keep(), "the default on cpu", False)
    assert (memory.chosen.row_bytes, memory.chosen.bytes) == (6 * 8 * 4, 10 * 6 * 8 * 4)
    recompute, checkpoint = memory.others
    assert (recompute.policy, recompute.row_bytes) == (Recompute(), 8 * 4)
    # One segment: both states of two rows are kept once, and all five steps are run again.
    assert (checkpoint.policy, checkpoint.bytes, checkpoint.again) == (
        Checkpoint(32),
        2 * 2 * 8 * 4,
        memory.chosen.bytes,
    )


@pytest.mark.parametrize("memory", [Keep(), Recompute(), Checkpoint(every=2)], ids=repr)
def test_a_policy_that_is_given_is_the_one_explained(memory: Any) -> None:
    use = lstm(memory=memory).memory
    assert use is not None
    assert use.policy == memory
    assert use.why == "as the call says"
    assert {type(each.policy) for each in use.others} == {Keep, Recompute, Checkpoint} - {type(memory)}


@pytest.mark.parametrize("memory", [Keep(), Recompute(), Checkpoint(every=2)], ids=repr)
@pytest.mark.parametrize(
    "name", ["lstm_two_linears", "output_head", "dropout_zoneout", "multi_head", "ntm", "conv_lstm"]
)
def test_bytes_are_those_that_a_real_call_keeps(name: str, memory: Any) -> None:
    user = USER_CELLS[name]
    cell, inputs, state = user.make(), user.inputs(5, 7), user.state(5)
    saved: list[Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: saved.append(tensor) or tensor, lambda tensor: tensor):
        outputs, _ = dynamic_rnn(cell, inputs, LENGTHS, state, user.dtype, memory=memory)
    callers = [*cell.parameters(), *flatten(inputs), *flatten(state), *flatten(outputs)]
    known = {tensor.untyped_storage().data_ptr() for tensor in callers}
    storages = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in saved}
    kept = sum(size for pointer, size in storages.items() if pointer not in known)
    use = explain(cell, inputs, LENGTHS, state, user.dtype, memory=memory).memory
    assert use is not None
    assert use.chosen.bytes == kept


# -- gradients ---------------------------------------------------------------------------------------------------------


def test_without_gradients_there_is_no_backward() -> None:
    with torch.no_grad():
        explanation = lstm()
    assert explanation.planned
    assert explanation.backward is None
    assert explanation.memory is None
    assert {each.direction for each in explanation.products} == {"forward"}
    assert "No gradient is wanted" in str(explanation)


def test_frozen_weights_and_plain_inputs_have_no_backward() -> None:
    cell = LSTMCell(8, input_size=3).requires_grad_(False)
    assert explain(cell, torch.zeros(2, 5, 3), dtype=torch.float32).backward is None
    assert explain(cell, torch.zeros(2, 5, 3, requires_grad=True), dtype=torch.float32).backward is not None


# -- arguments ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        ((None, torch.zeros(2, 5, 3)), {}),
        ((LSTMCell(8), torch.zeros(2, 5, 3)), {"dtype": "float33"}),
        ((LSTMCell(8), None), {"dtype": torch.float32}),
        ((LSTMCell(8), torch.zeros(2, 5)), {"dtype": torch.float32}),
        ((LSTMCell(8), torch.zeros(2, 5, 3), [6, 1]), {"dtype": torch.float32}),
        ((LSTMCell(8), torch.zeros(2, 5, 3), [1.0, 2.0]), {"dtype": torch.float32}),
        ((LSTMCell(8), torch.zeros(2, 5, 3), None, (torch.zeros(2, 8), torch.zeros(2, 8))), {}),
        ((LSTMCell(8), torch.zeros(2, 5, 3)), {"dtype": torch.float32, "parallel_iterations": -1}),
        ((LSTMCell(8), torch.zeros(2, 5, 3)), {"dtype": torch.float32, "memory": Keep}),
    ],
)
def test_invalid_arguments_raise_what_dynamic_rnn_raises(arguments: Any, options: Any) -> None:
    with pytest.raises((TypeError, ValueError)) as ran:
        dynamic_rnn(*copy.deepcopy(arguments), **options)
    with pytest.raises(type(ran.value), match=re.escape(str(ran.value))):
        explain(*copy.deepcopy(arguments), **options)


def test_time_major_inputs_are_understood() -> None:
    extent = explain(LSTMCell(8), torch.zeros(5, 2, 3), dtype=torch.float32, time_major=True).extent
    assert (extent.batch_size, extent.steps) == (2, 5)


def test_lengths_and_parallel_iterations_show_in_the_extent() -> None:
    extent = explain(LSTMCell(8), torch.zeros(2, 9, 3), [6, 1], dtype=torch.float32, parallel_iterations=4).extent
    assert (extent.batch_size, extent.steps, extent.rows, extent.chunk, extent.chunks) == (2, 6, 7, 4, 2)


@pytest.mark.parametrize(("lengths", "chunk", "chunks"), [(None, 25, 4), (range(128), 64, 2)], ids=["full", "ragged"])
def test_a_chunk_has_the_steps_that_many_rows_take(lengths: Any, chunk: int, chunks: int) -> None:
    """4096 rows on a CPU: of those that run, which are half of all here."""
    steps = 100 if lengths is None else 128
    extent = explain(LSTMCell(2), torch.zeros(128, steps, 2), lengths and list(lengths), dtype=torch.float32).extent
    assert extent is not None
    assert (extent.chunk, extent.chunks) == (chunk, chunks)


# -- nothing is run ----------------------------------------------------------------------------------------------------


def test_the_cell_takes_no_step() -> None:
    seen: list[Tensor] = []

    class Seen(unspool.RNNCell):
        state_size = output_size = 2

        def forward(self, x: Tensor, h: Tensor) -> Any:
            seen.append(x)
            return x + h, x + h

    explanation = explain(Seen(), torch.zeros(3, 4, 2), dtype=torch.float32)
    assert "the step changes the cell" in str(explanation.reason)
    assert "Seen.forward.seen" in str(explanation.reason)
    assert not seen


def test_a_cell_is_built_once_and_no_number_is_drawn_for_one_that_is() -> None:
    cell = unspool.DropoutWrapper(LSTMCell(8), output_keep_prob=0.5)
    explain(cell, torch.zeros(2, 5, 3), dtype=torch.float32)
    weights = {name: weight.clone() for name, weight in cell.state_dict().items()}
    generator = torch.get_rng_state()
    assert explain(cell, torch.ones(2, 6, 3), dtype=torch.float32).planned
    assert torch.equal(generator, torch.get_rng_state())
    for name, weight in cell.state_dict().items():
        assert torch.equal(weight, weights[name])
