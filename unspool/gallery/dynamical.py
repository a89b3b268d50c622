"""Cells that are one step of a dynamical system: stable, or with gradients that neither vanish nor explode."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from unspool.cells.cell import RNNCell
from unspool.gallery.arguments import check_above, check_between, check_sizes


class LEMState(NamedTuple):
    """The state of a long expressive memory: `y`, which is the output, and `z`, which drives it."""

    y: Any
    z: Any


class LEMCell(RNNCell):
    """A long expressive memory: two states with time scales that are learnt (Rusch et al., 2022, "Long Expressive
    Memory for Sequence Modeling", ICLR).

        a, b, c, d = split(x @ V + v, 4)
        a, b, c   += split(y @ W, 3)
        z' = (1 - dt * sigmoid(a)) * z + dt * sigmoid(a) * tanh(c)
        y' = (1 - dt * sigmoid(b)) * y + dt * sigmoid(b) * tanh(d + z' @ Wz)

    Weights and biases are uniform within 1 / sqrt(num_units), as in the authors' experiments.

    Args:
        input_size: the depth of x.
        num_units: the width of each state and of the output.
        dt: the longest time step.

    >>> cell = LEMCell(5, 3)
    >>> output, state = cell(torch.zeros(2, 5), cell.zero_state(2, torch.float32))
    >>> output.shape
    torch.Size([2, 3])
    """

    def __init__(self, input_size: int, num_units: int, *, dt: float = 1.0) -> None:
        super().__init__()
        self.input_size, self.num_units = check_sizes(input_size, num_units)
        self.dt = check_above("dt", dt)
        self.of_x, self.of_y = nn.Linear(input_size, 4 * num_units), nn.Linear(num_units, 3 * num_units, bias=False)
        self.of_z = nn.Linear(num_units, num_units, bias=False)
        for weight in self.parameters():
            nn.init.uniform_(weight, -1 / math.sqrt(num_units), 1 / math.sqrt(num_units))
        self.state_size, self.output_size = LEMState(num_units, num_units), num_units

    def forward(self, inputs: Tensor, state: LEMState) -> tuple[Tensor, LEMState]:
        """One step; the output is the new y."""
        y, z = state
        gates, d = self.of_x(inputs).split([3 * self.num_units, self.num_units], 1)
        a, b, c = (gates + self.of_y(y)).chunk(3, 1)
        step_z, step_y = self.dt * torch.sigmoid(a), self.dt * torch.sigmoid(b)
        z = (1 - step_z) * z + step_z * torch.tanh(c)
        y = (1 - step_y) * y + step_y * torch.tanh(d + self.of_z(z))
        return y, LEMState(y, z)


class CoRNNState(NamedTuple):
    """The state of coupled oscillators: positions `y`, which are the output, and velocities `z`."""

    y: Any
    z: Any


class CoRNNCell(RNNCell):
    """Coupled, damped oscillators that inputs force (Rusch & Mishra, 2021, "Coupled Oscillatory Recurrent Neural
    Network", ICLR).

        z' = z + dt * (tanh(x @ V + b + y @ W + z @ U) - gamma * y - epsilon * z)
        y' = y + dt * z'

    Of the two places where the paper lets the damping act, this is the explicit one. Weights have torch's
    initialisation of linear layers, as in the authors' experiments; the defaults are theirs for sequential MNIST.

    Args:
        input_size: the depth of x.
        num_units: the number of oscillators, which is the width of the output.
        dt: the time step.
        gamma: the frequency of the oscillators, squared.
        epsilon: how much they are damped.

    >>> cell = CoRNNCell(5, 3)
    >>> output, state = cell(torch.zeros(2, 5), cell.zero_state(2, torch.float32))
    >>> output.shape
    torch.Size([2, 3])
    """

    def __init__(
        self, input_size: int, num_units: int, *, dt: float = 0.042, gamma: float = 2.7, epsilon: float = 4.7
    ) -> None:
        super().__init__()
        self.input_size, self.num_units = check_sizes(input_size, num_units)
        self.dt, self.gamma = check_above("dt", dt), check_above("gamma", gamma)
        self.epsilon = check_above("epsilon", epsilon)
        self.force = nn.Linear(input_size + 2 * num_units, num_units)
        self.state_size, self.output_size = CoRNNState(num_units, num_units), num_units

    def forward(self, inputs: Tensor, state: CoRNNState) -> tuple[Tensor, CoRNNState]:
        """One step; the output is the new positions."""
        y, z = state
        force = torch.tanh(self.force(torch.cat([inputs, y, z], 1)))
        z = z + self.dt * (force - self.gamma * y - self.epsilon * z)
        y = y + self.dt * z
        return y, CoRNNState(y, z)


class LipschitzRNNCell(RNNCell):
    """A recurrent unit with a linear part and a Lipschitz one, both nearly skew-symmetric (Erichson et al., 2021,
    "Lipschitz Recurrent Neural Networks", ICLR), by the forward Euler method.

        S(M) = (1 - beta) * (M + M^T) + beta * (M - M^T) - gamma * I
        h'   = h + dt * (h @ S(MA)^T + tanh(h @ S(MW)^T + x @ U + b))

    As in the authors' experiments, MA and MW are normal with deviation 1 / num_units, U is Glorot's normal and b zero.

    Args:
        input_size: the depth of x.
        num_units: the width of the state and the output.
        beta: how skew-symmetric the matrices are, from 0.5 to 1.
        gamma: how much is taken off their diagonals.
        dt: the time step.

    >>> cell = LipschitzRNNCell(5, 3)
    >>> output, state = cell(torch.zeros(2, 5), cell.zero_state(2, torch.float32))
    >>> output.shape
    torch.Size([2, 3])
    """

    eye: Tensor

    def __init__(
        self, input_size: int, num_units: int, *, beta: float = 0.75, gamma: float = 0.001, dt: float = 0.03
    ) -> None:
        super().__init__()
        self.input_size, self.num_units = check_sizes(input_size, num_units)
        self.beta, self.dt = check_between("beta", beta, 0.5, 1), check_above("dt", dt)
        self.gamma = check_between("gamma", gamma, 0, math.inf)
        self.of_x = nn.Linear(input_size, num_units)
        nn.init.xavier_normal_(self.of_x.weight)
        nn.init.zeros_(self.of_x.bias)
        self.linear = nn.Parameter(torch.randn(num_units, num_units) / num_units)
        self.recurrent = nn.Parameter(torch.randn(num_units, num_units) / num_units)
        self.register_buffer("eye", torch.eye(num_units), persistent=False)
        self.state_size = self.output_size = num_units

    def stable(self, matrix: Tensor) -> Tensor:
        """The matrix S(M): the symmetric part little, the skew-symmetric one much, moved to the left."""
        symmetric, skew = matrix + matrix.t(), matrix - matrix.t()
        return (1 - self.beta) * symmetric + self.beta * skew - self.gamma * self.eye

    def forward(self, inputs: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """One step; the output is the new state."""
        h = state
        forced = torch.tanh(h @ self.stable(self.recurrent).t() + self.of_x(inputs))
        h = h + self.dt * (h @ self.stable(self.linear).t() + forced)
        return h, h


class AntisymmetricRNNCell(RNNCell):
    """A recurrent unit whose Jacobian has imaginary eigenvalues, but for a little damping (Chang et al., 2019,
    "AntisymmetricRNN: A Dynamical System View on Recurrent Neural Networks", ICLR).

        a  = h @ (W - W^T - gamma * I)^T
        h' = h + dt * tanh(a + x @ V + b)                                 or, gated,
        h' = h + dt * sigmoid(a + x @ Vz + bz) * tanh(a + x @ V + b)

    W is N(0, 1 / num_units), V and Vz are N(0, 1 / input_size) and biases zero, as published.

    Args:
        input_size: the depth of x.
        num_units: the width of the state and the output.
        gated: whether a gate, with the same recurrent matrix, scales each unit's step.
        gamma: the damping.
        dt: the time step.

    >>> cell = AntisymmetricRNNCell(5, 3, gated=True)
    >>> output, state = cell(torch.zeros(2, 5), cell.zero_state(2, torch.float32))
    >>> output.shape
    torch.Size([2, 3])
    """

    eye: Tensor

    def __init__(
        self, input_size: int, num_units: int, *, gated: bool = False, gamma: float = 0.01, dt: float = 0.1
    ) -> None:
        super().__init__()
        self.input_size, self.num_units = check_sizes(input_size, num_units)
        self.gated, self.dt = bool(gated), check_above("dt", dt)
        self.gamma = check_between("gamma", gamma, 0, math.inf)
        self.of_x = nn.Linear(input_size, (2 if gated else 1) * num_units)
        nn.init.normal_(self.of_x.weight, 0, 1 / math.sqrt(input_size))
        nn.init.zeros_(self.of_x.bias)
        self.recurrent = nn.Parameter(torch.randn(num_units, num_units) / math.sqrt(num_units))
        self.register_buffer("eye", torch.eye(num_units), persistent=False)
        self.state_size = self.output_size = num_units

    def forward(self, inputs: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """One step; the output is the new state."""
        h = state
        a = h @ (self.recurrent - self.recurrent.t() - self.gamma * self.eye).t()
        forced = self.of_x(inputs)
        step = self.dt * torch.tanh(a + forced[:, : self.num_units])
        if self.gated:
            step = step * torch.sigmoid(a + forced[:, self.num_units :])
        h = h + step
        return h, h
