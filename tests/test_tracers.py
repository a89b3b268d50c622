"""Whoever records a loop records its operations, for any values: never memory, and no length of the moment."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental import proxy_tensor
from torch.overrides import TorchFunctionMode
from torch.utils.flop_counter import FlopCounterMode

import unspool
from tests.zoo import ZOO, inputs_for
from unspool import GRUCell, LSTMCell, dynamic_rnn, explain
from unspool.structure import flatten, unflatten_as

# torch.jit.trace itself is deprecated; whatever else it or torch.onnx says is an error.
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.(jit|onnx).*:DeprecationWarning")

ROWS, STEPS, DEPTH, UNITS = 3, 4, 3, 4
LENGTHS = torch.tensor([3, 0, 2])
OTHER_LENGTHS = [[4, 1, 3], [0, 0, 0], [2, 4, 4], [1, 0, 1]]
CLOSE = dict(rtol=0, atol=1e-6, equal_nan=False)  # float32 sums of at most seven products, four steps deep


class Dynamic(nn.Module):
    def __init__(self, kind: Any = LSTMCell) -> None:
        super().__init__()
        self.cell = kind(UNITS, input_size=DEPTH)

    def forward(self, inputs: Tensor, lengths: Tensor | None = None) -> tuple[Tensor, ...]:
        outputs, state = dynamic_rnn(self.cell, inputs, lengths, dtype=inputs.dtype)
        return outputs, *flatten(state)


class Bidirectional(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fw, self.bw = LSTMCell(UNITS, input_size=DEPTH), GRUCell(UNITS, input_size=DEPTH)

    def forward(self, inputs: Tensor, lengths: Tensor | None = None) -> tuple[Tensor, ...]:
        return tuple(flatten(unspool.bidirectional_dynamic_rnn(self.fw, self.bw, inputs, lengths, dtype=inputs.dtype)))


class Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cells = nn.ModuleList(GRUCell(UNITS, input_size=depth) for depth in (DEPTH, DEPTH, 2 * UNITS, 2 * UNITS))

    def forward(self, inputs: Tensor, lengths: Tensor | None = None) -> tuple[Tensor, ...]:
        cells = list(self.cells)
        found = unspool.stack_bidirectional_dynamic_rnn(
            cells[::2], cells[1::2], inputs, dtype=inputs.dtype, sequence_length=lengths
        )
        return tuple(flatten(found))


class Static(Dynamic):
    def forward(self, inputs: Tensor, lengths: Tensor | None = None) -> tuple[Tensor, ...]:
        steps = list(inputs.unbind(1))
        return tuple(flatten(unspool.static_rnn(self.cell, steps, dtype=inputs.dtype, sequence_length=lengths)))


LOOPS = {"dynamic": Dynamic, "bidirectional": Bidirectional, "layers": Layers, "static": Static}


def make_fx(function: Any, mode: str = "real", **options: Any) -> Any:
    return proxy_tensor.make_fx(function, tracing_mode=mode, **options)


RECORDERS: dict[str, Callable[..., Any]] = {
    "jit": lambda model, args: torch.jit.trace(model, args),
    "make_fx": lambda model, args: make_fx(model)(*args),
    "make_fx-fake": lambda model, args: make_fx(model, "fake", _allow_non_fake_inputs=True)(*args),
    "make_fx-symbolic": lambda model, args: make_fx(model, "symbolic", _allow_non_fake_inputs=True)(*args),
    "make_fx-pre_dispatch": lambda model, args: make_fx(model, pre_dispatch=True)(*args),
    "export": lambda model, args: torch.export.export(model, args, strict=False).module(),
}


def padded(inputs: Tensor, lengths: Tensor) -> Tensor:
    """`inputs` with NaN past the lengths."""
    over = torch.arange(inputs.shape[1]) >= lengths[:, None]
    return inputs.masked_fill(over[:, :, None], float("nan"))


@pytest.mark.parametrize("recorder", RECORDERS)
@pytest.mark.parametrize("loop", LOOPS)
def test_what_was_recorded_is_right_for_other_inputs_and_lengths(loop: str, recorder: str) -> None:
    torch.manual_seed(0)
    model, record = LOOPS[loop](), RECORDERS[recorder]
    with torch.no_grad():  # where no operation of autograd stands for the loop
        inputs = torch.randn(ROWS, STEPS, DEPTH)
        model(inputs, LENGTHS)  # there is a plan from here on
        recorded = record(model, (inputs, LENGTHS))
        for each in OTHER_LENGTHS:
            lengths = torch.tensor(each)
            other = padded(torch.randn(ROWS, STEPS, DEPTH), lengths)
            torch.testing.assert_close(tuple(recorded(other, lengths)), model(other, lengths), **CLOSE)
        without = record(model, (inputs,))
        torch.testing.assert_close(tuple(without(other.nan_to_num())), model(other.nan_to_num()), **CLOSE)


@pytest.mark.parametrize("name", [name for name in ZOO if name != "device"])
def test_every_cell_is_traced_without_a_warning(name: str) -> None:
    torch.manual_seed(0)
    cell, inputs, others = ZOO[name]().double(), inputs_for(name, ROWS, 5), inputs_for(name, ROWS, 5)
    dynamic_rnn(cell, inputs, LENGTHS, dtype=torch.float64)

    class Loop(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell = cell

        def forward(self, lengths: Tensor, *leaves: Tensor) -> tuple[Tensor, ...]:
            return tuple(flatten(dynamic_rnn(cell, unflatten_as(inputs, leaves), lengths, dtype=torch.float64)))

    loop, lengths = Loop(), torch.tensor([1, 5, 3])
    recorded = torch.jit.trace(loop, (LENGTHS, *flatten(inputs)), check_trace=False)
    found, expected = recorded(lengths, *flatten(others)), loop(lengths, *flatten(others))
    torch.testing.assert_close(tuple(found), expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("mode", ["real", "fake"])
@pytest.mark.parametrize("lengths", [[1, 4, 3], [0, 0, 0]], ids=str)
def test_a_recorded_training_step_keeps_padding_out_of_gradients(mode: str, lengths: list[int]) -> None:
    torch.manual_seed(0)
    model = Dynamic()

    def gradients(inputs: Tensor, lengths: Tensor) -> tuple[Tensor, ...]:
        inputs = inputs.detach().requires_grad_()
        return torch.autograd.grad(model(inputs, lengths)[0].sin().sum(), [inputs, *model.parameters()])

    inputs = torch.randn(ROWS, STEPS, DEPTH)
    gradients(inputs, LENGTHS)
    recorded = make_fx(gradients, mode, _allow_non_fake_inputs=True)(inputs, LENGTHS)
    other = padded(inputs, torch.tensor(lengths))
    expected = gradients(other, torch.tensor(lengths))
    torch.testing.assert_close(recorded(other, torch.tensor(lengths)), expected, **CLOSE)


@pytest.mark.compiled
@pytest.mark.parametrize("recorder", ["jit", "make_fx"])
def test_memory_that_a_compiled_core_writes_is_not_recorded(recorder: str) -> None:
    model, inputs, other = Dynamic(), torch.randn(ROWS, STEPS, DEPTH), torch.randn(ROWS, STEPS, DEPTH)
    with torch.no_grad():
        assert explain(model.cell, inputs, dtype=torch.float32).forward.emitter == "c++"  # which waits for it
        model(inputs)
        recorded = RECORDERS[recorder](model, (inputs,))
        torch.testing.assert_close(tuple(recorded(other)), model(other), **CLOSE)


@pytest.mark.compiled
def test_backward_of_a_planned_loop_is_recorded_too() -> None:
    model, inputs = Dynamic(), torch.randn(ROWS, STEPS, DEPTH, requires_grad=True)
    explain(model.cell, inputs, LENGTHS, dtype=torch.float32)  # which waits for the compiler
    outputs = model(inputs, LENGTHS)[0]

    def backward(gradient: Tensor) -> Tensor:
        return torch.autograd.grad(outputs, inputs, gradient, retain_graph=True)[0]

    recorded, other = make_fx(backward)(torch.randn_like(outputs)), torch.randn_like(outputs)
    torch.testing.assert_close(recorded(other), backward(other), **CLOSE)


def test_many_gradients_at_once() -> None:
    """`vectorize` maps over the backward pass alone: the forward pass has run by its plan."""
    model, inputs = Dynamic().double(), torch.randn(ROWS, STEPS, DEPTH, dtype=torch.float64)

    def outputs(x: Tensor) -> Tensor:
        return model(x, LENGTHS)[0]

    jacobian: Any = torch.autograd.functional.jacobian
    expected = jacobian(outputs, inputs)
    torch.testing.assert_close(jacobian(outputs, inputs, vectorize=True), expected, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(torch.func.jacrev(outputs)(inputs), expected, rtol=1e-10, atol=1e-12)


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")  # torch's, of its own exporter
def test_the_old_onnx_exporter_sees_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """The model is made without the package `onnx`, which is only asked for functions that it may lack."""
    from torch.onnx._internal.torchscript_exporter import onnx_proto_utils

    monkeypatch.setattr(onnx_proto_utils, "_add_onnxscript_fn", lambda model, *_: model)
    model, file = Dynamic().eval(), io.BytesIO()
    args = (torch.randn(ROWS, STEPS, DEPTH), LENGTHS)
    with torch.no_grad():
        model(*args)
    torch.onnx.export(model, args, file, dynamo=False)
    assert file.getvalue().count(b"Tanh") >= 2 * STEPS  # of c, and of what is added to it


@pytest.mark.parametrize("lengths", [None, LENGTHS.to("meta"), LENGTHS], ids=["full", "meta", "cpu"])
@pytest.mark.parametrize("loop", LOOPS)
def test_meta_tensors_have_shapes(loop: str, lengths: Tensor | None) -> None:
    model, inputs = LOOPS[loop](), torch.randn(ROWS, STEPS, DEPTH)
    expected = [leaf.shape for leaf in model(inputs)]
    found = model.to("meta")(inputs.to("meta").requires_grad_(), lengths)
    assert [leaf.shape for leaf in found] == expected
    assert {leaf.device.type for leaf in found} == {"meta"}
    torch.stack([leaf.sum() for leaf in found]).sum().backward()
    assert all(weight.grad is not None for weight in model.parameters())


@pytest.mark.parametrize("inside", [True, False])
def test_fake_tensors_have_shapes(inside: bool) -> None:
    model, inputs, mode = Dynamic(), torch.randn(ROWS, STEPS, DEPTH), FakeTensorMode(allow_non_fake_inputs=True)
    expected = [leaf.shape for leaf in model(inputs, LENGTHS)]
    args = (mode.from_tensor(inputs), mode.from_tensor(LENGTHS))
    if inside:
        with mode:
            found = model(*args)
    else:
        found = model(*args)
    assert [leaf.shape for leaf in found] == expected


@pytest.mark.parametrize("axes", [(0, 0), (0, None), (None, 0)], ids=str)
@pytest.mark.parametrize("loop", LOOPS)
def test_vmap_over_inputs_and_lengths(loop: str, axes: tuple[int | None, int | None]) -> None:
    torch.manual_seed(0)
    model = LOOPS[loop]()
    inputs, lengths = torch.randn(5, ROWS, STEPS, DEPTH), torch.randint(0, STEPS + 1, (5, ROWS))
    args = [each[0] if axis is None else each for each, axis in zip((inputs, lengths), axes, strict=True)]
    found = torch.func.vmap(model, axes)(*args)
    one_by_one = [
        model(*(each if axis is None else each[k] for each, axis in zip(args, axes, strict=True))) for k in range(5)
    ]
    expected = tuple(map(torch.stack, zip(*one_by_one, strict=True)))
    torch.testing.assert_close(tuple(found), expected, **CLOSE)


def test_gradients_under_vmap_stay_clean_of_padding() -> None:
    torch.manual_seed(0)
    model, lengths = Dynamic(), torch.tensor([[4, 0, 2], [0, 0, 0], [1, 3, 3]])
    inputs = torch.stack([padded(torch.randn(ROWS, STEPS, DEPTH), each) for each in lengths])

    def loss(x: Tensor, lengths: Tensor) -> Tensor:
        return model(x, lengths)[0].sin().sum()

    found = torch.func.vmap(torch.func.grad(loss))(inputs, lengths)
    for k in range(3):
        x = inputs[k].clone().requires_grad_()
        torch.testing.assert_close(found[k], torch.autograd.grad(loss(x, lengths[k]), x)[0], **CLOSE)


def test_lengths_are_checked_where_they_can_be_seen_and_clamped_elsewhere() -> None:
    model, inputs, wrong = Dynamic(), torch.randn(ROWS, STEPS, DEPTH), torch.tensor([9, 1, 1])
    with pytest.raises(ValueError, match=r"sequence_length\[0\] is 9"):
        torch.func.grad(lambda x: model(x, wrong)[0].sum())(inputs)
    expected = model(inputs, wrong.clamp(max=STEPS))
    torch.testing.assert_close(torch.func.vmap(model, (None, 0))(inputs, wrong[None])[0][0], expected[0], **CLOSE)
    recorded = make_fx(model)(inputs, LENGTHS)
    torch.testing.assert_close(tuple(recorded(inputs, wrong)), expected, **CLOSE)


def test_modes_see_every_operation() -> None:
    class Seen(TorchFunctionMode):
        names: list[str] = []

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            self.names.append(getattr(func, "__name__", ""))
            return func(*args, **(kwargs or {}))

    model, inputs = Dynamic(GRUCell), torch.randn(ROWS, STEPS, DEPTH)
    expected = model(inputs, LENGTHS)
    with FlopCounterMode(display=False) as counter:
        found = model(inputs, LENGTHS)
        assert "FlopCounterMode" in str(explain(model.cell, inputs, dtype=torch.float32).reason)
    torch.testing.assert_close(found, expected, **CLOSE)
    # A multiplication and an addition for each weight, row and step.
    assert counter.get_total_flops() == 2 * ROWS * STEPS * (DEPTH + UNITS) * 3 * UNITS
    with Seen() as seen:
        torch.testing.assert_close(model(inputs, LENGTHS), expected, **CLOSE)
    assert seen.names.count("tanh") == STEPS


def test_a_default_device_is_no_reason_for_the_plain_loop() -> None:
    model, inputs = Dynamic(GRUCell), torch.randn(ROWS, STEPS, DEPTH)
    with torch.device("cpu"):
        assert explain(model.cell, inputs, LENGTHS, dtype=torch.float32).planned


@pytest.mark.parametrize("recorder", ["make_fx", "export"])
def test_weights_are_not_made_while_somebody_records(recorder: str) -> None:
    class Own(unspool.RNNCell):
        state_size = output_size = UNITS

        def build(self, input_size: Any) -> None:
            self.mix = nn.Linear(input_size, UNITS)

        def forward(self, inputs: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
            state = torch.tanh(self.mix(inputs) + state)
            return state, state

    model = Dynamic()
    model.cell = Own()
    with pytest.raises(RuntimeError, match=r"Own has no weights yet, and .* would record how they are made"):
        RECORDERS[recorder](model, (torch.randn(ROWS, STEPS, DEPTH),))
    assert not model.cell.built


# -- loops that values decide -----------------------------------------------------------------------------------------


class Decoding(nn.Module):
    """A decoder of ten words."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = GRUCell(UNITS, input_size=DEPTH)
        self.embedding, self.layer = nn.Embedding(10, DEPTH), nn.Linear(UNITS, 10)
        self.requires_grad_(False)

    def decoder(self, state: Tensor) -> Any:
        helper = unspool.GreedyEmbeddingHelper(self.embedding, [1] * ROWS, end_token=2)
        return unspool.BasicDecoder(self.cell, helper, state, self.layer)

    def greedy(self, state: Tensor) -> Tensor:
        return unspool.dynamic_decode(self.decoder(state), maximum_iterations=5)[0].rnn_output

    def streamed(self, state: Tensor) -> Tensor:
        return torch.stack([each.rnn_output for each in unspool.stream(self.decoder(state), 5)], 1)

    def taught(self, state: Tensor, lengths: Any = LENGTHS) -> Tensor:
        helper = unspool.TrainingHelper(torch.ones(ROWS, STEPS, DEPTH), lengths)
        return unspool.dynamic_decode(unspool.BasicDecoder(self.cell, helper, state, self.layer))[0].rnn_output

    def raw(self, state: Tensor, finished: Callable[[int], Any] = lambda time: time >= LENGTHS) -> Tensor:
        def loop_fn(time: int, output: Any, before: Any, loop_state: Any) -> Any:
            inputs = torch.full((ROWS, DEPTH), float(time))
            return finished(time), inputs, state if output is None else before, output, None

        return unspool.raw_rnn(self.cell, loop_fn)[0].stack()


@pytest.mark.parametrize("recorder", ["jit", "make_fx", "make_fx-fake"])
@pytest.mark.parametrize("loop", ["greedy", "streamed", "taught", "raw"])
def test_a_loop_that_values_end_says_that_it_cannot_be_recorded(loop: str, recorder: str) -> None:
    run, state = getattr(Decoding(), loop), torch.randn(ROWS, UNITS)
    run(state)
    with pytest.raises(RuntimeError, match=r"cannot be read under (make_fx|torch\.jit\.trace): .* dynamic_rnn with"):
        RECORDERS[recorder](lambda state: run(state), (state,))  # which has no other argument


@pytest.mark.parametrize("recorder", ["jit", "make_fx", "make_fx-fake"])
@pytest.mark.parametrize(
    "loop",
    [
        lambda model, state: model.taught(state, [4, 0, 2]),
        lambda model, state: model.raw(state, lambda time: time >= 5),
        lambda model, state: model.raw(state, lambda time: [time >= 5, time >= 1, time >= 3]),
    ],
    ids=["taught", "raw", "raw-rows"],
)
def test_a_loop_that_no_tensor_ends_is_recorded(loop: Callable[..., Tensor], recorder: str) -> None:
    model, state, other = Decoding(), torch.randn(ROWS, UNITS), torch.randn(ROWS, UNITS)
    loop(model, state)
    recorded = RECORDERS[recorder](lambda state: loop(model, state), (state,))
    torch.testing.assert_close(recorded(other), loop(model, other), **CLOSE)


@pytest.mark.parametrize("loop", ["greedy", "streamed", "taught", "raw"])
def test_modes_that_only_look_on_see_decodes_too(loop: str) -> None:
    run, state = getattr(Decoding(), loop), torch.randn(ROWS, UNITS)
    expected = run(state)
    with FlopCounterMode(display=False) as counter:
        torch.testing.assert_close(run(state), expected, **CLOSE)
    assert counter.get_total_flops() >= expected.shape[1] * 2 * UNITS * 3 * UNITS


def test_a_stream_goes_on_while_somebody_looks_on() -> None:
    model, state = Decoding(), torch.randn(ROWS, UNITS)
    expected = model.streamed(state)
    steps = unspool.stream(model.decoder(state), 5)
    found = [next(steps)]
    with FlopCounterMode(display=False) as counter:
        found.append(next(steps))
    assert counter.get_total_flops()
    found += steps
    torch.testing.assert_close(torch.stack([each.rnn_output for each in found], 1), expected, **CLOSE)
