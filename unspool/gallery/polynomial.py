"""Cells that remember the past of a signal as the coefficients of polynomials."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from unspool.cells.cell import RNNCell
from unspool.cells.layer import check_units
from unspool.gallery.arguments import check_above, check_sizes
from unspool.gallery.weights import glorot


class LMUState(NamedTuple):
    """The state of a Legendre memory unit: `h`, which is the output, and the coefficients `memory`."""

    h: Any
    memory: Any


class LMUCell(RNNCell):
    """A Legendre memory unit: it keeps the last `theta` steps of one signal of its own making (Voelker, Kajic &
    Eliasmith, 2019, "Legendre Memory Units: Continuous-Time Representation in Recurrent Neural Networks", NeurIPS).

        u       = x @ ex + h @ eh + memory @ em
        memory' = A memory + B u
        h'      = tanh(x @ Wx + h @ Wh + memory' @ Wm)

    A and B are constant: the Legendre delay of length theta, by a zero-order hold. As published, ex and eh are LeCun's
    uniform, em is zero and the others are Glorot's normal.

    Args:
        input_size: the depth of x.
        num_units: the width of h and the output.
        order: the number of coefficients; num_units by default.
        theta: how many steps are remembered.

    >>> cell = LMUCell(5, 3, order=4, theta=10)
    >>> output, state = cell(torch.zeros(2, 5), cell.zero_state(2, torch.float32))
    >>> output.shape, state.memory.shape
    (torch.Size([2, 3]), torch.Size([2, 4]))
    """

    transition: Tensor
    drive: Tensor

    def __init__(self, input_size: int, num_units: int, *, order: int | None = None, theta: float = 100.0) -> None:
        super().__init__()
        self.input_size, self.num_units = check_sizes(input_size, num_units)
        self.order = check_units("order", num_units if order is None else order)
        self.theta = check_above("theta", theta)
        matrix, column = delay(self.order)
        system = torch.zeros(self.order + 1, self.order + 1, dtype=torch.float64)  # the exponential holds both at once
        system[:-1, :-1], system[:-1, -1] = matrix / self.theta, column / self.theta
        held = torch.matrix_exp(system).to(torch.get_default_dtype())
        self.register_buffer("transition", held[:-1, :-1].clone())
        self.register_buffer("drive", held[:-1, -1].clone())
        self.encoder = nn.Linear(input_size + num_units + self.order, 1, bias=False)
        self.of_x, self.of_h = (nn.Linear(n, num_units, bias=False) for n in (input_size, num_units))
        self.of_memory = nn.Linear(self.order, num_units, bias=False)
        for layer in (self.of_x, self.of_h, self.of_memory):
            nn.init.xavier_normal_(layer.weight)
        bounds = [math.sqrt(3 / n) for n in (input_size, num_units) for _ in range(n)] + [0.0] * self.order
        with torch.no_grad():
            self.encoder.weight.copy_(torch.empty(len(bounds)).uniform_(-1, 1) * torch.tensor(bounds))
        self.state_size, self.output_size = LMUState(num_units, self.order), num_units

    def forward(self, inputs: Tensor, state: LMUState) -> tuple[Tensor, LMUState]:
        """One step; the output is the new h."""
        h, memory = state
        u = self.encoder(torch.cat([inputs, h, memory], 1))
        memory = memory @ self.transition.t() + u * self.drive
        h = torch.tanh(self.of_x(inputs) + self.of_h(h) + self.of_memory(memory))
        return h, LMUState(h, memory)


class _Gated(RNNCell):
    """What the HiPPO cells share: a gated unit that reads x and the coefficients, and makes the signal f from h."""

    def __init__(self, input_size: int, num_units: int, order: int | None) -> None:
        super().__init__()
        self.input_size, self.num_units = check_sizes(input_size, num_units)
        self.order = check_units("order", num_units if order is None else order)
        self.gates = nn.Linear(input_size + self.order + num_units, 2 * num_units)
        self.signal = nn.Linear(num_units, 1)
        glorot(self.gates, self.signal)
        self.output_size = num_units

    def read(self, x: Tensor, memory: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        """The new h, and the value of the signal that comes next."""
        g, c = self.gates(torch.cat([x, memory, h], 1)).chunk(2, 1)
        g = torch.sigmoid(g)
        h = (1 - g) * h + g * torch.tanh(c)
        return h, self.signal(h)


class HiPPOLegTState(NamedTuple):
    """The state of a HiPPO-LegT cell: `h`, which is the output, and the coefficients `memory`."""

    h: Any
    memory: Any


class HiPPOLegTCell(_Gated):
    """A gated unit with a HiPPO-LegT memory, of a window that moves along (Gu et al., 2020, "HiPPO: Recurrent Memory
    with Optimal Polynomial Projections", NeurIPS).

        g, c    = split([x, memory, h] @ W + b, 2)
        h'      = (1 - sigmoid(g)) * h + sigmoid(g) * tanh(c)
        f       = h' @ Wf + bf
        memory' = A memory + B f

    A and B are constant: the translated Legendre measure on the last theta steps, by the bilinear transform. The paper
    leaves the initialisation of weights open: Glorot's uniform, biases zero.

    Args:
        input_size: the depth of x.
        num_units: the width of h and the output.
        order: the number of coefficients; num_units by default.
        theta: how many steps are remembered.

    >>> cell = HiPPOLegTCell(5, 3, order=4, theta=10)
    >>> output, state = cell(torch.zeros(2, 5), cell.zero_state(2, torch.float32))
    >>> output.shape, state.memory.shape
    (torch.Size([2, 3]), torch.Size([2, 4]))
    """

    transition: Tensor
    drive: Tensor

    def __init__(self, input_size: int, num_units: int, *, order: int | None = None, theta: float = 100.0) -> None:
        super().__init__(input_size, num_units, order)
        self.theta = check_above("theta", theta)
        matrix, column = delay(self.order)
        half, eye = matrix / (2 * self.theta), torch.eye(self.order, dtype=torch.float64)
        both = torch.inverse(eye - half) @ torch.cat([eye + half, column[:, None] / self.theta], 1)
        dtype = torch.get_default_dtype()
        self.register_buffer("transition", both[:, :-1].to(dtype, copy=True))
        self.register_buffer("drive", both[:, -1].to(dtype, copy=True))
        self.state_size = HiPPOLegTState(num_units, self.order)

    def forward(self, inputs: Tensor, state: HiPPOLegTState) -> tuple[Tensor, HiPPOLegTState]:
        """One step; the output is the new h."""
        h, f = self.read(inputs, state.memory, state.h)
        memory = state.memory @ self.transition.t() + f * self.drive
        return h, HiPPOLegTState(h, memory)


class HiPPOLegSState(NamedTuple):
    """The state of a HiPPO-LegS cell: `h`, the coefficients `memory`, and how many steps they stand for."""

    h: Any
    memory: Any
    count: Any


class HiPPOLegSCell(_Gated):
    """A gated unit with a HiPPO-LegS memory, of everything since the start (Gu et al., 2020, "HiPPO: Recurrent Memory
    with Optimal Polynomial Projections", NeurIPS).

        g, c    = split([x, memory, h] @ W + b, 2)
        h'      = (1 - sigmoid(g)) * h + sigmoid(g) * tanh(c)
        f       = h' @ Wf + bf
        count'  = count + 1;    a = 1 / (2 count')
        memory' = (I + a A)^-1 ((I - a A) memory + 2 a B f)
        A[n, k] = sqrt(2 n + 1) sqrt(2 k + 1) where n > k, n + 1 where n = k, else 0;     B[n] = sqrt(2 n + 1)

    It is the bilinear transform of the paper's scaled Legendre measure. The inverse depends on the row's step: as A is
    semiseparable, a linear recurrence over n gives it, in log2(order) rounds. The paper leaves the initialisation of
    weights open: Glorot's uniform, biases zero.

    Args:
        input_size: the depth of x.
        num_units: the width of h and the output.
        order: the number of coefficients; num_units by default.

    >>> cell = HiPPOLegSCell(5, 3, order=4)
    >>> output, state = cell(torch.zeros(2, 5), cell.zero_state(2, torch.float32))
    >>> output.shape, state.count
    (torch.Size([2, 3]), tensor([[1.],
            [1.]]))
    """

    degree: Tensor
    scale: Tensor
    matrix: Tensor

    def __init__(self, input_size: int, num_units: int, *, order: int | None = None) -> None:
        super().__init__(input_size, num_units, order)
        n = torch.arange(self.order, dtype=torch.get_default_dtype())
        self.register_buffer("degree", n)
        self.register_buffer("scale", scale := torch.sqrt(2 * n + 1))
        self.register_buffer("matrix", torch.outer(scale, scale).tril(-1) + torch.diag(n + 1))
        self.state_size = HiPPOLegSState(num_units, self.order, 1)

    def forward(self, inputs: Tensor, state: HiPPOLegSState) -> tuple[Tensor, HiPPOLegSState]:
        """One step; the output is the new h."""
        h, f = self.read(inputs, state.memory, state.h)
        count = state.count + 1
        a = 0.5 / count
        right = state.memory - a * (state.memory @ self.matrix.t()) + 2 * a * f * self.scale
        # Row n of (I + a A) y = right needs p[n], the sum of scale * y below n, and p[n + 1] = keep[n] p[n] + add[n].
        pivot = 1 + a * (self.degree + 1)
        keep, add = (1 - a * self.degree) / pivot, self.scale * right / pivot
        shift = 1
        while shift < self.order:  # after a round, `add` sums over the last 2 * shift places
            add = add + keep * _moved(add, shift)
            keep = keep * _moved(keep, shift)
            shift *= 2
        memory = (right - a * self.scale * _moved(add, 1)) / pivot
        return h, HiPPOLegSState(h, memory, count)


def delay(order: int) -> tuple[Tensor, Tensor]:
    """A and B of the Legendre delay `theta dm/dt = A m + B u`, in float64."""
    n = torch.arange(order, dtype=torch.float64)
    signs = torch.where(n % 2 == 0, 1.0, -1.0).to(torch.float64)
    lower, upper = torch.outer(signs, signs).tril(), torch.ones(order, order, dtype=torch.float64).triu(1)
    return -(2 * n[:, None] + 1) * (lower + upper), (2 * n + 1) * signs


def _moved(values: Tensor, places: int) -> Tensor:
    """The values `places` further along the last axis, after zeros."""
    return torch.cat([torch.zeros_like(values[:, :places]), values[:, :-places]], 1)
