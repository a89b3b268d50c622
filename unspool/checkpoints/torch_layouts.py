"""How the weights of torch's own modules are laid out, where TensorFlow has the same equations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from unspool.checkpoints.layout import Layout, Shape, converted

_CUDNN_LSTM = "cudnn_compatible_lstm_cell"
_CELLS = {
    nn.LSTM: ("lstm_cell", "basic_lstm_cell", "lstm_fused_cell", _CUDNN_LSTM),
    nn.RNN: ("basic_rnn_cell",),
    nn.GRU: ("cudnn_compatible_gru_cell",),
}
_HINTS = {
    nn.LSTM: "nn.LSTM has no peepholes and no layer normalisation: if the checkpoint does, load a cell of unspool",
    nn.RNN: "nn.RNN is TensorFlow's BasicRNNCell",
    nn.GRU: "nn.GRU resets after the recurrent product, as CudnnCompatibleGRUCell does, but TensorFlow's GRUCell "
    "before it: load that one into an unspool.GRUCell",
}
_BOTH = "; its layers read both directions of the one below, as in stack_bidirectional_dynamic_rnn"


def layouts_of_module(module: nn.RNNBase, forget_bias: float | None, scope: str | None) -> list[Layout]:
    """The layouts in which a checkpoint may hold the weights of a module: by the kinds of cells and of loops."""
    kind = next(kind for kind in _CELLS if isinstance(module, kind))
    if not module.bias:
        raise ValueError(f"{module} has no biases, but TensorFlow's cells all have: make it with bias=True")
    # Who gives a scope may give that of one cell, whatever its name.
    alone = ("",) if scope is not None and module.num_layers == 1 and not module.bidirectional else ()
    hint = _HINTS[kind] + (_BOTH if module.bidirectional and module.num_layers > 1 else "")
    return [
        TorchModule(module, _LAYERS[kind], place, cell, _forget_bias(cell, forget_bias), hint)
        for place in _places(module)
        for cell in (*_CELLS[kind], *alone)
    ]


def _forget_bias(cell: str, given: float | None) -> float:
    return given if given is not None else 0.0 if cell == _CUDNN_LSTM else 1.0


def _places(module: nn.RNNBase) -> Iterator[str]:
    """Where each layer may be, below the scope."""
    if not module.bidirectional:
        if module.num_layers == 1:
            yield ""
        yield "multi_rnn_cell/cell_{layer}/"
        return
    if module.num_layers == 1:
        yield "{direction}/"
        yield "{direction}/multi_rnn_cell/cell_{layer}/"
    yield "cell_{layer}/bidirectional_rnn/{direction}/"
    yield "cell_{layer}/{direction}/"


@dataclass(frozen=True)
class Layer:
    """One layer of a module, in one direction."""

    depth: int
    units: int
    width: int
    """That of the output: the projection's, if there is one."""

    forget_bias: float


class TorchModule(Layout):
    """An `nn.LSTM`, `nn.RNN` or `nn.GRU`."""

    def __init__(
        self, module: nn.RNNBase, kind: type[LayerLayout], place: str, cell: str, forget_bias: float, hint: str
    ) -> None:
        self._module, self._kind, self.hint = module, kind, hint
        width = module.proj_size or module.hidden_size
        directions = ("fw", "bw") if module.bidirectional else ("fw",)
        self._layers: dict[str, tuple[str, Layer]] = {}
        for layer in range(module.num_layers):
            depth = width * len(directions) if layer else module.input_size
            for direction in directions:
                path = place.format(layer=layer, direction=direction) + (f"{cell}/" if cell else "")
                suffix = f"_l{layer}{'_reverse' if direction == 'bw' else ''}"
                self._layers[path] = suffix, Layer(depth, module.hidden_size, width, forget_bias)
        self._shapes = {
            path + name: shape
            for path, (_, layer) in self._layers.items()
            for name, shape in kind.shapes(layer).items()
        }
        self.names = tuple(self._shapes)

    def shapes(self, found: Mapping[str, Shape]) -> Mapping[str, Shape]:
        """Those of a cell that is like the module."""
        return self._shapes

    def prepare(self, values: Mapping[str, Tensor]) -> Callable[[], None]:
        """Computes the module's weights from the cells'."""
        ready: list[tuple[Tensor, Tensor]] = []
        for path, (suffix, layer) in self._layers.items():
            first: Tensor = getattr(self._module, f"weight_ih{suffix}")
            cell = {
                name: converted(path + name, values[path + name], first.dtype).to(first.device)
                for name in self._kind.shapes(layer)
            }
            for name, value in self._kind.weights(layer, cell).items():
                ready.append((getattr(self._module, name + suffix), value))

        def write() -> None:
            with torch.no_grad():
                for weight, value in ready:
                    weight.copy_(value)

        return write


class LayerLayout:
    """What the variables of one layer are, and what they are to torch, whose matrices multiply from the left."""

    @staticmethod
    def shapes(layer: Layer) -> dict[str, Shape]:
        """The shapes of the variables, by name."""
        raise NotImplementedError

    @staticmethod
    def weights(layer: Layer, cell: dict[str, Tensor]) -> dict[str, Tensor]:
        """Torch's weights from the variables. Where torch adds two biases, the second is 0."""
        raise NotImplementedError


class _LSTM(LayerLayout):
    @staticmethod
    def shapes(layer: Layer) -> dict[str, Shape]:
        shapes: dict[str, Shape] = {
            "kernel": (layer.depth + layer.width, 4 * layer.units),
            "bias": (4 * layer.units,),
        }
        if layer.width != layer.units:
            shapes["projection/kernel"] = (layer.units, layer.width)
        return shapes

    @staticmethod
    def weights(layer: Layer, cell: dict[str, Tensor]) -> dict[str, Tensor]:
        i, j, f, o = cell["kernel"].T.chunk(4)
        kernel = torch.cat([i, f, j, o])
        i, j, f, o = cell["bias"].chunk(4)
        bias = torch.cat([i, f + layer.forget_bias, j, o])
        weights = _two_of_each(layer, kernel, bias)
        if "projection/kernel" in cell:
            weights["weight_hr"] = cell["projection/kernel"].T
        return weights


class _RNN(LayerLayout):
    @staticmethod
    def shapes(layer: Layer) -> dict[str, Shape]:
        return {"kernel": (layer.depth + layer.units, layer.units), "bias": (layer.units,)}

    @staticmethod
    def weights(layer: Layer, cell: dict[str, Tensor]) -> dict[str, Tensor]:
        return _two_of_each(layer, cell["kernel"].T, cell["bias"])


class _GRU(LayerLayout):
    @staticmethod
    def shapes(layer: Layer) -> dict[str, Shape]:
        depth, units = layer.depth, layer.units
        return {
            "gates/kernel": (depth + units, 2 * units),
            "gates/bias": (2 * units,),
            "candidate/input_projection/kernel": (depth, units),
            "candidate/input_projection/bias": (units,),
            "candidate/hidden_projection/kernel": (units, units),
            "candidate/hidden_projection/bias": (units,),
        }

    @staticmethod
    def weights(layer: Layer, cell: dict[str, Tensor]) -> dict[str, Tensor]:
        gates = _two_of_each(layer, cell["gates/kernel"].T, cell["gates/bias"])
        for side, projection in (("ih", "input"), ("hh", "hidden")):
            candidate = f"candidate/{projection}_projection"
            gates[f"weight_{side}"] = torch.cat([gates[f"weight_{side}"], cell[f"{candidate}/kernel"].T])
            gates[f"bias_{side}"] = torch.cat([gates[f"bias_{side}"], cell[f"{candidate}/bias"]])
        return gates


_LAYERS: dict[Any, type[LayerLayout]] = {nn.LSTM: _LSTM, nn.RNN: _RNN, nn.GRU: _GRU}


def _two_of_each(layer: Layer, kernel: Tensor, bias: Tensor) -> dict[str, Tensor]:
    """The weights of the inputs and of the state, which TensorFlow has side by side."""
    return {
        "weight_ih": kernel[:, : layer.depth],
        "weight_hh": kernel[:, layer.depth :],
        "bias_ih": bias,
        "bias_hh": torch.zeros_like(bias),
    }
