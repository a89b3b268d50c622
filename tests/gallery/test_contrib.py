"""The cells of TensorFlow's contrib against their equations: gates, norms, blocks, phases and attention."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.gallery.cases import (
    Case,
    Weights,
    arguments_are_checked,
    close,
    each_of,
    layer_norm,
    normal,
    sigmoid,
    softmax,
    vectors,
    why_not_planned,
)
from unspool import GRUCell, LSTMCell
from unspool.cells.lstm import LSTMStateTuple
from unspool.gallery import (
    AttentionCellWrapper,
    CoupledInputForgetGateLSTMCell,
    CudnnCompatibleGRUCell,
    CudnnCompatibleLSTMCell,
    GLSTMCell,
    GRUBlockCell,
    GRUBlockCellV2,
    IntersectionRNNCell,
    LayerNormBasicLSTMCell,
    LSTMBlockCell,
    NASCell,
    UGRNNCell,
    contrib,
)

norm = partial(layer_norm, epsilon=1e-12)


def beside(*parts: Any) -> Any:
    return np.concatenate(parts)


def ugrnn(w: Weights, x: Any, h: Any) -> Any:
    g, c = np.split(beside(x, h) @ w["kernel"] + w["bias"], 2)
    h = sigmoid(g + 0.5) * h + (1 - sigmoid(g + 0.5)) * np.tanh(c)
    return h, h


def intersection(w: Weights, x: Any, s: Any) -> Any:
    if "in_kernel" in w:
        x = x @ w["in_kernel"] + w["in_bias"]
    gh, h, gy, y = np.split(beside(x, s) @ w["kernel"] + w["bias"], 4)
    gh, gy = sigmoid(gh + 1), sigmoid(gy + 1)
    return gy * x + (1 - gy) * np.maximum(y, 0), gh * s + (1 - gh) * np.tanh(h)


def nas(w: Weights, x: Any, state: Any) -> Any:
    c, h = state
    m = np.split(h @ w["recurrent_kernel"] + w.get("bias", 0), 8)
    x = np.split(x @ w["kernel"], 8)
    left = np.tanh(sigmoid(x[0] + m[0]) * np.maximum(x[1] + m[1], 0))
    right = np.tanh(sigmoid(x[2] + m[2]) + np.maximum(x[3] * m[3], 0))
    third = np.tanh(np.tanh(x[4] + m[4]) * sigmoid(x[5] + m[5]))
    fourth = sigmoid(np.tanh(x[6] + m[6]) + sigmoid(x[7] + m[7]))
    c = np.tanh(left + c) * right
    h = np.tanh(c * np.tanh(third + fourth))
    h = h @ w["projection_weights"] if "projection_weights" in w else h
    return h, (c, h)


def glstm(groups: int) -> Any:
    def step(w: Weights, x: Any, state: Any) -> Any:
        c, h = state
        sums = [
            np.split(beside(each, own) @ w[f"group{k}_kernel"], 4)
            for k, (each, own) in enumerate(zip(np.split(x, groups), np.split(h, groups), strict=True))
        ]
        i, j, f, o = (beside(*(part[n] for part in sums)) + w[f"bias_{gate}"] for n, gate in enumerate("ijfo"))
        c = sigmoid(f + 1) * c + sigmoid(i) * np.tanh(j)
        h = sigmoid(o) * np.tanh(c)
        h = h @ w["projection_kernel"] if "projection_kernel" in w else h
        return h, (c, h)

    return step


def normalized(w: Weights, x: Any, scope: str) -> Any:
    return norm(x, w[f"{scope}_gamma"], w[f"{scope}_beta"])


def layer_norm_lstm(w: Weights, x: Any, state: Any) -> Any:
    c, h = state
    sums = np.split(beside(x, h) @ w["kernel"] + w.get("bias", 0), 4)
    if "bias" not in w:
        sums = [normalized(w, each, scope) for each, scope in zip(sums, SCOPES, strict=True)]
    i, j, f, o = sums
    c = sigmoid(f + 1) * c + sigmoid(i) * np.tanh(j)
    c = c if "bias" in w else normalized(w, c, "state")
    h = np.tanh(c) * sigmoid(o)
    return h, (c, h)


SCOPES = ["input", "transform", "forget", "output"]


def coupled(w: Weights, x: Any, state: Any) -> Any:
    c, h = state if isinstance(state, tuple) else np.split(state, [4])
    kernel = np.concatenate([w[name] for name in sorted(w) if name.startswith("W_") and name[2:].isdigit()])
    sums = np.split(beside(x, h) @ kernel + (0 if "state_beta" in w else w["B"]), 3)
    if "state_beta" in w:
        sums = [normalized(w, each, scope) for each, scope in zip(sums, SCOPES[1:], strict=True)]
    j, f, o = sums
    f = sigmoid(f + 1 + w.get("W_F_diag", 0) * c)
    c = f * c + (1 - f) * np.tanh(j)
    c = normalized(w, c, "state") if "state_beta" in w else c
    h = sigmoid(o + w.get("W_O_diag", 0) * c) * np.tanh(c)
    if "W_P_0" in w:
        h = np.clip(h @ np.concatenate([w["W_P_0"], w["W_P_1"]]), -0.3, 0.3)
    return h, (c, h) if isinstance(state, tuple) else beside(c, h)


def block_lstm(clip: float, forget_bias: float = 1) -> Any:
    def step(w: Weights, x: Any, state: Any) -> Any:
        c, h = state
        i, j, f, o = np.split(beside(x, h) @ w["kernel"] + w["bias"], 4)
        f = sigmoid(f + forget_bias + w.get("w_f_diag", 0) * c)
        c = np.clip(f * c + sigmoid(i + w.get("w_i_diag", 0) * c) * np.tanh(j), -clip, clip)
        h = sigmoid(o + w.get("w_o_diag", 0) * c) * np.tanh(c)
        return h, (c, h)

    return step


def gru(w: Weights, x: Any, h: Any) -> Any:
    r, u = np.split(sigmoid(beside(x, h) @ w["gates_kernel"] + w["gates_bias"]), 2)
    h = u * h + (1 - u) * np.tanh(beside(x, r * h) @ w["candidate_kernel"] + w["candidate_bias"])
    return h, h


def cudnn_gru(w: Weights, x: Any, h: Any) -> Any:
    r, u = np.split(sigmoid(beside(x, h) @ w["gates_kernel"] + w["gates_bias"]), 2)
    after = r * (h @ w["hidden_kernel"] + w["hidden_bias"])
    h = u * h + (1 - u) * np.tanh(x @ w["input_kernel"] + w["input_bias"] + after)
    return h, h


def phased(peepholes: bool) -> Any:
    def step(w: Weights, inputs: Any, state: Any) -> Any:
        (time, x), (c, h) = inputs, state
        rows = beside(x, h)
        seen = (lambda memory: beside(rows, memory)) if peepholes else lambda _: rows
        i, f = np.split(sigmoid(seen(c) @ w["mask_gates_kernel"] + w["mask_gates_bias"]), 2)
        n = c * f + i * np.tanh(rows @ w["new_input_kernel"] + w["new_input_bias"])
        m = np.tanh(n) * sigmoid(seen(n) @ w["output_gate_kernel"] + w["output_gate_bias"])
        r = np.mod(time - w["phase"], w["period"]) / w["period"]
        k = np.where(r < w["ratio"] / 2, 2 * r / w["ratio"], np.where(r < w["ratio"], 2 - 2 * r / w["ratio"], 0.01 * r))
        c, h = k * n + (1 - k) * c, k * m + (1 - k) * h
        return h, (c, h)

    return step


def attention(cell: Any, length: int) -> Any:
    def step(w: Weights, x: Any, state: Any) -> Any:
        inner, seen, memory = state
        weights = {name[5:]: value for name, value in w.items() if name.startswith("cell.")}
        y, inner = cell(weights, beside(x, seen) @ w["kernel"] + w["bias"], inner)
        query = beside(*(inner if isinstance(inner, tuple) else [inner])) @ w["query_kernel"] + w["query_bias"]
        rows = memory.reshape(length, -1)
        score = softmax(np.tanh(rows @ w["attn_w"][0, 0] + query) @ w["attn_v"])
        seen = score @ rows
        output = beside(y, seen) @ w["output_kernel"] + w["output_bias"]
        return output, (inner, seen, beside(memory[len(output) :], output))

    return step


def times(batch: int, steps: int) -> tuple[Tensor, Tensor]:
    return normal(batch, steps, 1).abs().cumsum(1), normal(batch, steps, 3)


Coupled = CoupledInputForgetGateLSTMCell
CASES = {
    "ugrnn": Case(lambda: UGRNNCell(4, forget_bias=0.5, input_size=3), vectors(3), ugrnn),
    "intersection": Case(lambda: IntersectionRNNCell(4, 4, input_size=3), vectors(3), intersection),
    "intersection_inside": Case(lambda: IntersectionRNNCell(3, input_size=3), vectors(3), intersection),
    "nas": Case(lambda: NASCell(4, 2, use_biases=True, input_size=3), vectors(3), nas),
    "glstm": Case(lambda: GLSTMCell(4, num_proj=6, number_of_groups=2, input_size=4), vectors(4), glstm(2)),
    "layer_norm_lstm": Case(lambda: LayerNormBasicLSTMCell(4, input_size=3), vectors(3), layer_norm_lstm),
    "layer_norm_lstm_bare": Case(
        lambda: LayerNormBasicLSTMCell(4, input_size=3, layer_norm=False), vectors(3), layer_norm_lstm
    ),
    "coupled": Case(lambda: Coupled(4, True, None, 2, 0.3, 2, 2, input_size=3), vectors(3), coupled),
    "coupled_norms": Case(lambda: Coupled(4, layer_norm=True, state_is_tuple=False, input_size=3), vectors(3), coupled),
    "block_lstm": Case(lambda: LSTMBlockCell(4, 1.0, 0.2, True, input_size=3), vectors(3), block_lstm(0.2)),
    "cudnn_lstm": Case(lambda: CudnnCompatibleLSTMCell(4, input_size=3), vectors(3), block_lstm(np.inf, 0)),
    "block_gru": Case(lambda: GRUBlockCell(4, input_size=3), vectors(3), gru),
    "block_gru_v2": Case(lambda: GRUBlockCellV2(cell_size=4, input_size=3), vectors(3), gru),
    "cudnn_gru": Case(lambda: CudnnCompatibleGRUCell(4, input_size=3), vectors(3), cudnn_gru),
    "phased": Case(
        lambda: built(contrib.PhasedLSTMCell(4, leak=0.01, ratio_on=0.5, period_init_max=4.0), (1, 3)),
        times,
        phased(False),
    ),
    "phased_peepholes": Case(
        lambda: built(contrib.PhasedLSTMCell(4, True, 0.01, 0.5, period_init_max=4.0), (1, 3)), times, phased(True)
    ),
    "attention": Case(
        lambda: built(AttentionCellWrapper(LSTMCell(4), 3, attn_size=2, attn_vec_size=5), 3),
        vectors(3),
        attention(block_lstm(np.inf), 3),
    ),
    "attention_gru": Case(
        lambda: built(AttentionCellWrapper(GRUCell(4), 2, input_size=5), 3), vectors(3), attention(gru, 2)
    ),
}


def built(cell: Any, size: Any) -> Any:
    cell.build(size)
    return cell


test_equals_its_equations, test_equals_the_plain_loop, test_is_planned = each_of(CASES)


test_arguments_are_checked = arguments_are_checked(
    [
        (lambda: UGRNNCell(0), "num_units must be positive, but is 0"),
        (lambda: IntersectionRNNCell(4, input_size=3), "Must have input size == output size .* depth is 3"),
        (lambda: GLSTMCell(4, number_of_groups=3), "number_of_groups is 3, but must divide num_units, which is 4"),
        (lambda: GLSTMCell(4, num_proj=3, number_of_groups=2), "must divide num_proj, which is 3"),
        (lambda: GLSTMCell(4, number_of_groups=2, input_size=3), "inputs have depth 3, which number_of_groups, 2"),
        (lambda: LayerNormBasicLSTMCell(4, dropout_keep_prob=1.5), "dropout_keep_prob must be from 0 to 1, but is 1.5"),
        (lambda: Coupled(4, num_unit_shards=9, input_size=3), r"Too many shards: shape=\[4, 12\], num_shards=9"),
        (lambda: GRUBlockCell(), "Exactly one of num_units or cell_size must be provided"),
        (lambda: GRUBlockCell(4, 4), "Exactly one of num_units or cell_size must be provided"),
        (lambda: contrib.PhasedLSTMCell(4, period_init_max=0.5), "period_init_max must be greater than 1, but is 0.5"),
        (lambda: AttentionCellWrapper(GRUCell(4), 0), "attn_length should be greater than zero, got 0"),
        (lambda: AttentionCellWrapper(LSTMCell(4), 2, state_is_tuple=False), "Cell returns tuple of states"),
    ]
)


def test_the_gradient_of_a_clipped_memory_passes_in_a_block() -> None:
    cell = LSTMBlockCell(2, cell_clip=0.1, input_size=1).double()
    memory = torch.tensor([[5.0, -5.0]], dtype=torch.float64, requires_grad=True)
    zeros = torch.zeros(1, 2, dtype=torch.float64)
    _, state = cell(torch.zeros(1, 1, dtype=torch.float64), LSTMStateTuple(memory, zeros))
    (slope,) = torch.autograd.grad(state.c.sum(), memory)
    close(state.c, [[0.1, -0.1]])
    close(slope, np.full((1, 2), sigmoid(1.0)))


def test_a_state_in_one_tensor_is_that_of_a_tuple() -> None:
    torch.manual_seed(0)
    both, one = (built(AttentionCellWrapper(GRUCell(4), 2, state_is_tuple=way), 3) for way in (True, False))
    one.load_state_dict(both.state_dict())
    x, state = torch.randn(2, 3), [torch.randn(2, 4), torch.randn(2, 4), torch.randn(2, 8)]
    expected, parts = both(x, tuple(state))
    output, whole = one(x, torch.cat(state, 1))
    torch.testing.assert_close(output, expected)
    torch.testing.assert_close(whole, torch.cat(parts, 1))


def test_dropout_without_a_seed_is_planned() -> None:
    case = Case(lambda: LayerNormBasicLSTMCell(4, dropout_keep_prob=0.5, input_size=3))
    assert why_not_planned(case) is None


def test_what_is_dropped_is_drawn_at_every_step_and_by_the_seed() -> None:
    one, other = (
        LayerNormBasicLSTMCell(50, dropout_keep_prob=0.5, dropout_prob_seed=3, input_size=2) for _ in range(2)
    )
    other.load_state_dict(one.state_dict())
    x, state = torch.randn(4, 2), one.zero_state(4, torch.float32)
    first, second = one(x, state)[0], one(x, state)[0]
    assert not torch.equal(first, second)
    assert torch.equal(first, other(x, state)[0])
    assert torch.equal(one.eval()(x, state)[0], other.eval()(x, state)[0])


@pytest.mark.parametrize("name", ["intersection", "glstm", "coupled", "nas", "attention"])
def test_an_unbuilt_cell_takes_a_state_dict(name: str) -> None:
    first, blank = CASES[name].make(), CASES[name].make()
    arguments = {key: value for key, value in blank.get_config().items() if key != "input_size" or name == "attention"}
    arguments = {**arguments, "cell": LSTMCell(4)} if name == "attention" else arguments
    blank = type(first)(**arguments)
    blank.load_state_dict(first.state_dict())
    x, state = torch.randn(2, 4 if name == "glstm" else 3), first.zero_state(2, torch.float32)
    torch.testing.assert_close(blank(x, state), first(x, state))
