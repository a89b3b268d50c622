"""Cells with a latent variable that is drawn in every step: models of sequences, and of worlds."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unspool.cells.cell import RNNCell
from unspool.cells.gru import GRUCell
from unspool.cells.layer import check_units
from unspool.cells.lstm import LSTMCell, LSTMStateTuple
from unspool.gallery.arguments import check_between, check_sizes
from unspool.gallery.weights import glorot


class VRNNOutput(NamedTuple):
    """What a VRNN says of a step: the distributions of x, and of z before and after x was seen."""

    mean: Any
    deviation: Any
    prior_mean: Any
    prior_deviation: Any
    posterior_mean: Any
    posterior_deviation: Any


class VRNNCell(RNNCell):
    """A variational recurrent network: an autoencoder in every step (Chung et al., 2015, "A Recurrent Latent Variable
    Model for Sequential Data", NIPS).

        prior     = gaussian(relu(h @ Wp + bp))
        fx        = relu(x @ Wx + bx)
        posterior = gaussian(relu([fx, h] @ We + be))
        z         = posterior mean + noise * posterior deviation * N(0, 1);     fz = relu(z @ Wz + bz)
        x         ~ gaussian(relu([fz, h] @ Wd + bd))
        h'        = LSTM([fx, fz], h)

    `gaussian` is linear, with a softplus for the deviations. The outputs are all that a bound on the likelihood needs.
    The paper leaves the initialisation open: Glorot's uniform, biases zero.

    Args:
        input_size: the depth of x.
        num_units: the width of the LSTM.
        latent_size: the width of z.
        hidden_size: the width of the hidden layers; num_units by default.
        noise: the scale of what is drawn; with 0, z is its mean.

    >>> cell = VRNNCell(5, 3, latent_size=2)
    >>> output, state = cell(torch.zeros(4, 5), cell.zero_state(4, torch.float32))
    >>> output.mean.shape, output.prior_mean.shape
    (torch.Size([4, 5]), torch.Size([4, 2]))
    """

    def __init__(
        self,
        input_size: int,
        num_units: int,
        *,
        latent_size: int = 16,
        hidden_size: int | None = None,
        noise: float = 1.0,
    ) -> None:
        super().__init__()
        self.input_size, self.num_units = check_sizes(input_size, num_units)
        self.latent_size = check_units("latent_size", latent_size)
        self.hidden_size = check_units("hidden_size", num_units if hidden_size is None else hidden_size)
        self.noise = check_between("noise", noise, 0, math.inf)
        hidden = self.hidden_size
        self.of_x, self.of_z = nn.Linear(input_size, hidden), nn.Linear(latent_size, hidden)
        self.prior = _gaussian(num_units, hidden, latent_size)
        self.posterior = _gaussian(hidden + num_units, hidden, latent_size)
        self.decoder = _gaussian(hidden + num_units, hidden, input_size)
        glorot(self.of_x, self.of_z)
        self.recurrence = LSTMCell(num_units, input_size=2 * hidden)
        self.state_size = LSTMStateTuple(num_units, num_units)
        self.output_size = VRNNOutput(input_size, input_size, *[latent_size] * 4)

    def forward(self, inputs: Tensor, state: LSTMStateTuple) -> tuple[VRNNOutput, LSTMStateTuple]:
        """One step: draws z for x, and says how likely x was."""
        h = state.h
        fx = torch.relu(self.of_x(inputs))
        prior, posterior = _moments(self.prior, h), _moments(self.posterior, torch.cat([fx, h], 1))
        z = _draw(*posterior, self.noise)
        fz = torch.relu(self.of_z(z))
        decoded = _moments(self.decoder, torch.cat([fz, h], 1))
        _, state = self.recurrence(torch.cat([fx, fz], 1), state)
        return VRNNOutput(*decoded, *prior, *posterior), state


class RSSMState(NamedTuple):
    """The state of a world: `h`, which is certain, and `z`, which is drawn."""

    h: Any
    z: Any


class RSSMOutput(NamedTuple):
    """What a recurrent state-space model says of a step: the state, and the distributions it was drawn from."""

    h: Any
    z: Any
    prior_mean: Any
    prior_deviation: Any
    posterior_mean: Any
    posterior_deviation: Any


class RSSMCell(RNNCell):
    """A recurrent state-space model: a world with a certain and a random part (Hafner et al., 2019, "Learning Latent
    Dynamics for Planning from Pixels", ICML).

        h'        = GRU(relu([z, action] @ Wa + ba), h)
        prior     = gaussian(relu(h' @ Wp + bp))
        posterior = gaussian(relu([h', x] @ Wq + bq))
        z'        = posterior mean + noise * posterior deviation * N(0, 1)

    Inputs are `(x, action)`: what is observed, encoded, and the action that led to it. `gaussian` is linear, with a
    softplus for the deviations, which are 0.1 at least, as in the authors' experiments. Weights are Glorot's uniform,
    biases zero.

    Args:
        input_size: the depth of x.
        num_units: the width of h.
        action_size: the depth of the actions.
        latent_size: the width of z.
        hidden_size: the width of the hidden layers; num_units by default.
        noise: the scale of what is drawn; with 0, z is its mean.

    >>> cell = RSSMCell(5, 3, action_size=1, latent_size=2)
    >>> output, state = cell((torch.zeros(4, 5), torch.zeros(4, 1)), cell.zero_state(4, torch.float32))
    >>> output.h.shape, output.z.shape
    (torch.Size([4, 3]), torch.Size([4, 2]))
    """

    least = 0.1

    def __init__(
        self,
        input_size: int,
        num_units: int,
        *,
        action_size: int,
        latent_size: int = 30,
        hidden_size: int | None = None,
        noise: float = 1.0,
    ) -> None:
        super().__init__()
        self.input_size, self.num_units = check_sizes(input_size, num_units)
        self.action_size = check_units("action_size", action_size)
        self.latent_size = check_units("latent_size", latent_size)
        self.hidden_size = check_units("hidden_size", num_units if hidden_size is None else hidden_size)
        self.noise = check_between("noise", noise, 0, math.inf)
        self.of_action = nn.Linear(latent_size + action_size, self.hidden_size)
        glorot(self.of_action)
        self.recurrence = GRUCell(num_units, input_size=self.hidden_size)
        self.prior = _gaussian(num_units, self.hidden_size, latent_size)
        self.posterior = _gaussian(num_units + input_size, self.hidden_size, latent_size)
        self.state_size = RSSMState(num_units, latent_size)
        self.output_size = RSSMOutput(num_units, *[latent_size] * 5)

    def forward(self, inputs: tuple[Tensor, Tensor], state: RSSMState) -> tuple[RSSMOutput, RSSMState]:
        """One step: moves on by the action, then takes in what is observed."""
        x, action = inputs
        moved = torch.relu(self.of_action(torch.cat([state.z, action], 1)))
        h, _ = self.recurrence(moved, state.h)
        prior = _moments(self.prior, h, self.least)
        posterior = _moments(self.posterior, torch.cat([h, x], 1), self.least)
        z = _draw(*posterior, self.noise)
        return RSSMOutput(h, z, *prior, *posterior), RSSMState(h, z)


def _gaussian(inputs: int, hidden: int, outputs: int) -> nn.Sequential:
    first, second = nn.Linear(inputs, hidden), nn.Linear(hidden, 2 * outputs)
    glorot(first, second)
    return nn.Sequential(first, nn.ReLU(), second)


def _moments(network: nn.Module, inputs: Tensor, least: float = 0.0) -> tuple[Tensor, Tensor]:
    mean, raw = network(inputs).chunk(2, 1)
    return mean, F.softplus(raw) + least


def _draw(mean: Tensor, deviation: Tensor, noise: float) -> Tensor:
    return mean + noise * deviation * torch.randn_like(mean)
