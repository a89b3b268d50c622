"""Spiking neurons: outputs are zeros and ones, and gradients pass through a surrogate of the step between them."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from unspool.cells.cell import RNNCell
from unspool.gallery.arguments import check_above, check_between, check_sizes


class _Spike(torch.autograd.Function):
    """1 where x > 0, else 0."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, shape: float) -> Tensor:
        """Whether each element is positive, as a number; `shape` is that of the surrogate."""
        ctx.save_for_backward(x)
        ctx.shape = shape
        return (x > 0).to(x.dtype)


class FastSigmoidSpike(_Spike):
    """1 where x > 0, else 0; its gradient is that of a fast sigmoid, 1 / (1 + slope * |x|)^2."""

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The surrogate's gradient."""
        (x,) = ctx.saved_tensors
        return gradients[0] / (1 + ctx.shape * x.abs()) ** 2, None


class TriangleSpike(_Spike):
    """1 where x > 0, else 0; its gradient is a triangle of that height, height * max(0, 1 - |x|)."""

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The surrogate's gradient."""
        (x,) = ctx.saved_tensors
        return gradients[0] * ctx.shape * torch.relu(1 - x.abs()), None


class LIFState(NamedTuple):
    """The state of leaky integrate-and-fire neurons: synaptic `current`, membrane `potential`, last `spikes`."""

    current: Any
    potential: Any
    spikes: Any


class LIFCell(RNNCell):
    """Recurrent leaky integrate-and-fire neurons (Neftci, Mostafa & Zenke, 2019, "Surrogate Gradient Learning in
    Spiking Neural Networks", IEEE Signal Processing Magazine).

        current'   = alpha * current + x @ W + spikes @ V
        potential' = beta * potential + current - spikes
        spikes'    = potential' > 1;     gradient 1 / (1 + slope * |potential' - 1|)^2

    Inputs reach the potential a step later, as in the paper; a spike takes the threshold, 1, off it. Weights are normal
    with deviations (1 - beta) / sqrt(inputs) times 7 for W and times 1 for V: the paper leaves them open.

    Args:
        input_size: the depth of x, usually spikes too.
        num_units: the number of neurons.
        alpha: what is left of a current after a step.
        beta: what is left of a potential after a step.
        slope: how steep the surrogate is.

    >>> cell = LIFCell(5, 3)
    >>> output, state = cell(torch.ones(2, 5), cell.zero_state(2, torch.float32))
    >>> output.shape
    torch.Size([2, 3])
    """

    def __init__(
        self, input_size: int, num_units: int, *, alpha: float = 0.8, beta: float = 0.9, slope: float = 10.0
    ) -> None:
        super().__init__()
        self.input_size, self.num_units = check_sizes(input_size, num_units)
        self.alpha, self.beta = check_between("alpha", alpha, 0, 1), check_between("beta", beta, 0, 1)
        self.slope = check_above("slope", slope)
        self.of_x = nn.Linear(input_size, num_units, bias=False)
        self.of_spikes = nn.Linear(num_units, num_units, bias=False)
        nn.init.normal_(self.of_x.weight, 0, 7 * (1 - self.beta) / math.sqrt(input_size))
        nn.init.normal_(self.of_spikes.weight, 0, (1 - self.beta) / math.sqrt(num_units))
        self.state_size, self.output_size = LIFState(num_units, num_units, num_units), num_units

    def forward(self, inputs: Tensor, state: LIFState) -> tuple[Tensor, LIFState]:
        """One step; the output is the spikes."""
        current, potential, spikes = state
        potential = self.beta * potential + current - spikes
        current = self.alpha * current + self.of_x(inputs) + self.of_spikes(spikes)
        spikes = cast("Tensor", FastSigmoidSpike.apply(potential - 1, self.slope))
        return spikes, LIFState(current, potential, spikes)


class AdaptiveLIFState(NamedTuple):
    """The state of adaptive neurons: membrane `potential`, `adaptation` of the threshold, last `spikes`."""

    potential: Any
    adaptation: Any
    spikes: Any


class AdaptiveLIFCell(RNNCell):
    """Recurrent leaky integrate-and-fire neurons whose thresholds rise with their spikes (Bellec et al., 2020, "A
    solution to the learning dilemma for recurrent networks of spiking neurons", Nature Communications).

        potential'  = exp(-1 / tau) * potential + x @ W + spikes @ V - threshold * spikes;      V has a zero diagonal
        adaptation' = exp(-1 / tau_adaptation) * adaptation + spikes
        distance    = (potential' - threshold - beta * adaptation') / threshold
        spikes'     = distance > 0;      gradient height * max(0, 1 - |distance|)

    W is N(0, 1 / input_size), V is N(0, 1 / num_units), as published. There is no refractory period. The surrogate is
    the derivative by the distance, in thresholds; the paper writes the same by the potential.

    Args:
        input_size: the depth of x, usually spikes too.
        num_units: the number of neurons.
        tau: the time constant of the potential, in steps.
        tau_adaptation: the time constant of the adaptation, in steps.
        beta: how much a spike raises the threshold.
        threshold: the threshold at rest.
        height: the height of the surrogate's triangle.

    >>> cell = AdaptiveLIFCell(5, 3)
    >>> output, state = cell(torch.ones(2, 5), cell.zero_state(2, torch.float32))
    >>> output.shape
    torch.Size([2, 3])
    """

    others: Tensor

    def __init__(
        self,
        input_size: int,
        num_units: int,
        *,
        tau: float = 20.0,
        tau_adaptation: float = 200.0,
        beta: float = 0.184,
        threshold: float = 1.0,
        height: float = 0.3,
    ) -> None:
        super().__init__()
        self.input_size, self.num_units = check_sizes(input_size, num_units)
        self.tau, self.tau_adaptation = check_above("tau", tau), check_above("tau_adaptation", tau_adaptation)
        self.beta, self.height = check_between("beta", beta, 0, math.inf), check_above("height", height)
        self.threshold = check_above("threshold", threshold)
        self.of_x = nn.Linear(input_size, num_units, bias=False)
        nn.init.normal_(self.of_x.weight, 0, 1 / math.sqrt(input_size))
        self.recurrent = nn.Parameter(torch.randn(num_units, num_units) / math.sqrt(num_units))
        self.register_buffer("others", 1 - torch.eye(num_units), persistent=False)
        self.state_size, self.output_size = AdaptiveLIFState(num_units, num_units, num_units), num_units

    def forward(self, inputs: Tensor, state: AdaptiveLIFState) -> tuple[Tensor, AdaptiveLIFState]:
        """One step; the output is the spikes."""
        potential, adaptation, spikes = state
        driven = self.of_x(inputs) + spikes @ (self.recurrent * self.others).t()
        potential = math.exp(-1 / self.tau) * potential + driven - self.threshold * spikes
        adaptation = math.exp(-1 / self.tau_adaptation) * adaptation + spikes
        distance = (potential - self.threshold - self.beta * adaptation) / self.threshold
        spikes = cast("Tensor", TriangleSpike.apply(distance, self.height))
        return spikes, AdaptiveLIFState(potential, adaptation, spikes)
