"""`unspool.nn` and `replace_`: what drop-ins have to do besides computing torch's numbers."""

from __future__ import annotations

import copy
import gc
import weakref
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize
from torch.nn.utils.rnn import pack_sequence

import unspool
from tests.torch_tests.comparing import MODES, as_torch, compare, hidden, pair
from unspool.engine import entry


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The steps that the engine is asked to run, by their class."""
    asked: list[str] = []
    run = entry.run

    def listed(request: Any, *scope: str) -> Any:
        asked.append(type(request.cell).__name__)
        return run(request, *scope)

    monkeypatch.setattr(entry, "run", listed)
    return asked


class TestModules:
    def test_the_engine_runs_every_layer_and_direction_by_plan(self, runs: list[str]) -> None:
        packed = pack_sequence([torch.randn(3, 5), torch.randn(6, 5)], enforce_sorted=False)
        with unspool.strict():
            unspool.nn.LSTM(5, 4, 3, bidirectional=True, proj_size=2)(torch.randn(7, 2, 5))
            unspool.nn.GRU(5, 4, batch_first=True)(torch.randn(2, 7, 5))
            unspool.nn.RNN(5, 4)(packed)
            unspool.nn.RNN(5, 4, nonlinearity="relu")(torch.randn(7, 5))
        assert runs == ["LSTMStep"] * 6 + ["GRUStep", "TanhStep", "ReluStep"]

    @pytest.mark.parametrize("mode", MODES)
    def test_they_are_torchs_modules(self, mode: str) -> None:
        made = getattr(unspool.nn, mode)(3, 4)
        assert isinstance(made, getattr(nn, mode))
        assert [len(each) for each in made.all_weights] == [4]
        assert made.flatten_parameters() is None

    @pytest.mark.parametrize("options", [{}, {"num_layers": 3, "bidirectional": True}, {"bias": False}])
    @pytest.mark.parametrize("mode", MODES)
    def test_initial_weights_are_the_draws_of_torch(self, mode: str, options: dict[str, Any]) -> None:
        both = []
        for library in (unspool.nn, nn):
            torch.manual_seed(3)
            both.append(getattr(library, mode)(5, 4, **options))
        for one, other in zip(*(each.parameters() for each in both), strict=True):
            assert torch.equal(one, other)

    def test_cells_are_torchs_own(self) -> None:
        for name in ("LSTMCell", "GRUCell", "RNNCell"):
            assert getattr(unspool.nn, name) is getattr(nn, name)

    def test_what_torch_would_lay_out_in_memory_is_laid_out_alike(self) -> None:
        ours, theirs = pair("LSTM", 3, 4, 2, bidirectional=True, batch_first=True)
        inputs = torch.randn(2, 5, 3)
        assert ours(inputs)[0].stride() == theirs(inputs)[0].stride()

    def test_a_call_like_the_last_is_not_planned_again(self, plans: list[Any]) -> None:
        rnn = unspool.nn.GRU(3, 5, 2, bidirectional=True)
        rnn(torch.randn(4, 2, 3))
        made = len(plans)
        for steps, rows in [(4, 2), (6, 1), (1, 3)]:
            rnn(torch.randn(steps, rows, 3))
        rnn(pack_sequence([torch.randn(3, 3), torch.randn(2, 3)]))
        assert len(plans) == made

    def test_weights_that_were_put_in_their_place_are_used(self) -> None:
        ours, _ = pair("GRU", 3, 4)
        inputs = torch.randn(5, 2, 3)
        ours(inputs)
        ours.weight_hh_l0 = nn.Parameter(torch.randn(12, 4))
        compare(ours, as_torch(ours), inputs)
        other = {name: torch.randn_like(each) for name, each in ours.named_parameters()}
        found = torch.func.functional_call(ours, other, (inputs,))[0]
        torch.testing.assert_close(found, torch.func.functional_call(as_torch(ours), other, (inputs,))[0])
        compare(ours, as_torch(ours), inputs)  # and its own again

    def test_a_parametrized_module(self) -> None:
        ours, theirs = pair("LSTM", 3, 4, dtype=torch.float64)
        for module in (ours, theirs):
            parametrize.register_parametrization(module, "weight_hh_l0", nn.Hardtanh(-0.1, 0.1))
        compare(ours, theirs, torch.randn(5, 2, 3, dtype=torch.float64))

    def test_a_frozen_module_passes_gradients_on(self) -> None:
        ours, theirs = pair("RNN", 3, 4)
        inputs = torch.randn(5, 2, 3, requires_grad=True)
        for module in (ours, theirs):
            module.requires_grad_(False)
        found, expected = (torch.autograd.grad(each(inputs)[0].sum(), inputs)[0] for each in (ours, theirs))
        torch.testing.assert_close(found, expected)

    def test_without_gradients(self) -> None:
        ours, theirs = pair("LSTM", 3, 4, 2, bidirectional=True)
        inputs = torch.randn(5, 2, 3)
        for mode in (torch.no_grad(), torch.inference_mode()):
            with mode:
                torch.testing.assert_close(ours(inputs), theirs(inputs))

    def test_nothing_keeps_a_module_alive(self) -> None:
        rnn = unspool.nn.LSTM(3, 4)
        rnn(torch.randn(5, 2, 3))[0].sum().backward()
        gone = weakref.ref(rnn)
        del rnn
        gc.collect()
        assert gone() is None

    def test_states_go_on_from_batch_to_batch(self) -> None:
        ours, theirs = pair("LSTM", 3, 4, 2, bidirectional=False, dtype=torch.float64)
        state, expected = None, None
        for _ in range(3):
            inputs = torch.randn(5, 2, 3, dtype=torch.float64)
            (outputs, state), (others, expected) = ours(inputs, state), theirs(inputs, expected)
            torch.testing.assert_close(outputs, others, rtol=0, atol=1e-12)


class TestTorchRunsIt:
    """Where the engine would not be the faster one, or somebody wants to see torch's operations."""

    @pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
    def test_in_other_dtypes(self, runs: list[str], dtype: torch.dtype) -> None:
        ours, theirs = pair("GRU", 3, 4, dtype=dtype)
        inputs = torch.randn(5, 2, 3, dtype=dtype)
        assert torch.equal(ours(inputs)[0], theirs(inputs)[0])
        assert runs == []

    def test_under_autocast(self, runs: list[str]) -> None:
        ours, theirs = pair("LSTM", 3, 4)
        inputs = torch.randn(5, 2, 3)
        with torch.autocast("cpu", torch.bfloat16):
            found, expected = ours(inputs)[0], theirs(inputs)[0]
        assert found.dtype == expected.dtype
        assert torch.equal(found, expected)
        assert runs == []

    @pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")
    @pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")  # of torch's checks of sizes
    @pytest.mark.filterwarnings("ignore:The tensor attributes self._flat_weights:UserWarning")  # of torch's modules
    def test_for_tracers(self, runs: list[str]) -> None:
        rnn, inputs = unspool.nn.GRU(3, 4, batch_first=True), torch.randn(2, 5, 3)
        traced = torch.jit.trace(rnn, inputs, check_trace=False)
        assert "aten::gru" in str(traced.inlined_graph)
        exported = torch.export.export(rnn, (inputs,), strict=False).module()
        assert runs == []
        for module in (traced, exported):
            torch.testing.assert_close(module(inputs)[0], rnn(inputs)[0])

    def test_for_transforms(self, runs: list[str]) -> None:
        ours, theirs = pair("RNN", 3, 4)
        inputs = torch.randn(5, 2, 3)
        found, expected = (torch.func.grad(lambda x, each=each: each(x)[0].sum())(inputs) for each in (ours, theirs))
        torch.testing.assert_close(found, expected)
        assert runs == []


class Tagger(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.LSTM(3, 4, 2, bidirectional=True, dropout=0.5)
        self.decoder = nn.ModuleList([nn.GRU(8, 5), nn.RNN(5, 4, nonlinearity="relu")])
        self.again = self.decoder[0]
        self.head = nn.Linear(4, 2)

    def forward(self, inputs: Tensor) -> Tensor:
        x = self.encoder(inputs)[0]
        for layer in self.decoder:
            x = layer(x)[0]
        return self.head(x)


class Peculiar(nn.LSTM):
    def forward(self, input: Any, hx: Any = None) -> Any:
        return super().forward(input.flip(0), hx)


class TestReplace:
    def test_it_says_what_it_replaced(self) -> None:
        model = Tagger()
        assert unspool.replace_(model) == [("encoder", "LSTM"), ("decoder.0", "GRU"), ("decoder.1", "RNN")]
        assert type(model.encoder) is unspool.nn.LSTM
        assert model.again is model.decoder[0]
        assert unspool.replace_(model) == []

    def test_the_model_computes_and_trains_as_before(self) -> None:
        model = Tagger().double().eval()
        other, inputs = copy.deepcopy(model), torch.randn(6, 3, 3, dtype=torch.float64)
        optimizers = [torch.optim.Adam(each.parameters(), lr=0.1) for each in (model, other)]
        parameters = list(model.parameters())
        unspool.replace_(model)
        assert all(one is two for one, two in zip(parameters, model.parameters(), strict=True))
        for _ in range(3):
            for each, optimizer in zip((model, other), optimizers, strict=True):
                optimizer.zero_grad()
                each(inputs).square().sum().backward()
                optimizer.step()
        for one, two in zip(model.parameters(), other.parameters(), strict=True):
            torch.testing.assert_close(one, two, rtol=1e-9, atol=1e-9)  # Adam divides by small gradients

    def test_modes_and_hooks_stay(self) -> None:
        model, seen = Tagger(), []
        model.encoder.eval()
        model.encoder.register_forward_hook(lambda module, args, result: seen.append(type(module)))
        unspool.replace_(model)
        model(torch.randn(6, 3, 3))
        assert not model.encoder.training
        assert model.decoder[0].training
        assert seen == [unspool.nn.LSTM]

    def test_state_dicts_go_both_ways(self) -> None:
        model = Tagger()
        unspool.replace_(model)
        plain = Tagger()
        plain.load_state_dict(model.state_dict(), strict=True)
        model.load_state_dict(plain.state_dict(), strict=True)

    def test_a_model_that_is_one_itself(self) -> None:
        model: Any = nn.GRU(3, 4)
        assert unspool.replace_(model) == [("", "GRU")]
        compare(model, as_torch(model), torch.randn(5, 2, 3), hidden(model, 2))

    def test_a_model_with_nothing_to_replace(self) -> None:
        assert unspool.replace_(nn.Linear(2, 3)) == []

    def test_subclasses_stay_and_are_named(self) -> None:
        model = nn.ModuleDict({"rnn": Peculiar(3, 4)})
        with pytest.warns(
            UserWarning, match=r"leaves 'rnn' as it is, since it is a Peculiar: derive .* unspool.nn.LSTM"
        ):
            assert unspool.replace_(model) == []
        assert type(model["rnn"]) is Peculiar

    def test_parametrized_modules_stay_and_are_named(self) -> None:
        model = nn.Sequential(nn.GRU(3, 4))
        parametrize.register_parametrization(model[0], "weight_hh_l0", nn.Identity())
        with pytest.warns(UserWarning, match="leaves '0' as it is, since it is parametrized: call replace_ first"):
            assert unspool.replace_(model) == []

    def test_no_model(self) -> None:
        wrong: Any = nn.LSTM
        with pytest.raises(TypeError, match=r"model must be an nn\.Module, but is "):
            unspool.replace_(wrong)


class TestInsideACell:
    def test_a_step_may_have_a_drop_in(self) -> None:
        """A cell of one's own whose step runs a layer over something, as it may run torch's."""

        class Reader(unspool.RNNCell):
            def __init__(self, layer: nn.Module) -> None:
                super().__init__()
                self.state_size = self.output_size = 4
                self.layer = layer

            def forward(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
                h = self.layer(torch.stack([x, x + 1]))[0][-1] + 0.5 * h
                return h, h

        ours, theirs = pair("GRU", 3, 4)
        inputs = torch.randn(2, 5, 3)
        explanation = unspool.explain(Reader(ours), inputs, dtype=torch.float32)
        assert explanation.planned, explanation.reason
        found, expected = (unspool.dynamic_rnn(Reader(each), inputs, dtype=torch.float32)[0] for each in (ours, theirs))
        torch.testing.assert_close(found, expected)
