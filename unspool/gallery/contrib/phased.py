"""The Phased LSTM with the weights of TensorFlow's."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from unspool.cells.cell import RNNCell
from unspool.cells.layer import check_units, glorot_uniform
from unspool.cells.lstm import LSTMStateTuple, two_states
from unspool.flags import checks_flags
from unspool.gallery.arguments import check_above, check_between


class PhasedLSTMCell(RNNCell):
    """An LSTM whose units open in turn, each by its own clock (Neil, Pfeiffer & Liu, 2016, "Phased LSTM: Accelerating
    Recurrent Network Training for Long or Event-based Sequences", NIPS).

        r      = ((time - phase) mod period) / period
        k      = 2 r / ratio_on            while r < ratio_on / 2
                 2 - 2 r / ratio_on        while r < ratio_on
                 leak * r                  otherwise
        i, f   = split(sigmoid([x, h, c] @ mask_gates), 2);    n = i * tanh([x, h] @ new_input) + f * c
        m      = tanh(n) * sigmoid([x, h, n] @ output_gate)
        c', h' = k * n + (1 - k) * c, k * m + (1 - k) * h

    Inputs are `(time, x)`, with the time itself as `[batch, 1]`, whose dtype may be wider than that of x. Gates see
    memories with `use_peepholes`; their products have biases. `unspool.gallery.PhasedLSTMCell` is the paper's own form.

    Args:
        num_units: the width N of the state and the output.
        use_peepholes: whether gates see memories.
        leak: how much passes closed units.
        ratio_on: the part of its period in which a unit is open, at first.
        trainable_ratio_on: whether it is learnt.
        period_init_min, period_init_max: between which periods begin, drawn uniformly in their logarithms.
        reuse: only None or False; a cell owns its weights.
        name, dtype, trainable: see `unspool.LSTMCell`.

    >>> cell = PhasedLSTMCell(3)
    >>> output, state = cell((torch.ones(2, 1), torch.zeros(2, 5)), cell.zero_state(2, torch.float32))
    >>> output is state.h, [name for name, _ in cell.variables()][0]
    (True, 'phased_lstm_cell/mask_gates/kernel')
    """

    mask_gates_kernel: Tensor
    mask_gates_bias: Tensor
    new_input_kernel: Tensor
    new_input_bias: Tensor
    output_gate_kernel: Tensor
    output_gate_bias: Tensor
    period: Tensor
    phase: Tensor
    ratio: Tensor
    variable_names = {
        **{
            f"{gate}_{part}": f"{gate}/{part}"
            for gate in ("mask_gates", "new_input", "output_gate")
            for part in ("kernel", "bias")
        },
        "ratio": "ratio_on",
    }

    @checks_flags
    def __init__(
        self,
        num_units: int,
        use_peepholes: bool = False,
        leak: float = 0.001,
        ratio_on: float = 0.1,
        trainable_ratio_on: bool = True,
        period_init_min: float = 1.0,
        period_init_max: float = 1000.0,
        reuse: bool | None = None,
        *,
        name: str | None = None,
        dtype: Any = None,
        trainable: bool = True,
    ) -> None:
        super().__init__(trainable, name, dtype)
        self.num_units, self.use_peepholes, self.reuse = check_units("num_units", num_units), use_peepholes, reuse
        self.leak: Any = leak if isinstance(leak, Tensor) else check_between("leak", leak, 0, 1)
        self.ratio_on, self.trainable_ratio_on = check_between("ratio_on", ratio_on, 1e-6, 1), trainable_ratio_on
        self.period_init_min = check_above("period_init_min", period_init_min)
        self.period_init_max = check_above("period_init_max", period_init_max, self.period_init_min)
        self.state_size, self.output_size = LSTMStateTuple(self.num_units, self.num_units), self.num_units
        for gate in ("mask_gates", "new_input", "output_gate"):
            self.declare_weights(f"{gate}_kernel", f"{gate}_bias")
        self.declare_weights("period", "phase", "ratio")
        self.ratio.requires_grad_(trainable and trainable_ratio_on)

    def ensure_built(self, inputs: Any, state: Any = ()) -> None:
        """Builds the cell, unless it is built: the weights have the dtype of x, not that of the time."""
        if not self.built:
            _, x = inputs
            self.build((1, x.shape[1]), dtype=x.dtype, device=x.device)

    def build(self, input_size: Any, **where: Any) -> None:
        """Makes the weights for inputs of sizes `(1, depth)`."""
        units = self.num_units
        rows = int(input_size[1]) + units
        seen = rows + units if self.use_peepholes else rows
        for gate, height, width in (("mask_gates", seen, 2), ("new_input", rows, 1), ("output_gate", seen, 1)):
            self.add_weight(f"{gate}_kernel", (height, width * units), glorot_uniform, **where)
            self.add_weight(f"{gate}_bias", (width * units,), nn.init.zeros_, **where)
        drawn: list[Tensor] = []

        def period(weight: Tensor) -> None:
            weight.uniform_(math.log(self.period_init_min), math.log(self.period_init_max)).exp_()
            drawn[:] = [weight.detach().clone()]

        def phase(weight: Tensor) -> None:
            weight.uniform_(0, 1).mul_(drawn[0].to(weight))

        self.add_weight("period", (units,), period, **where)
        self.add_weight("phase", (units,), phase, **where)
        self.add_weight("ratio", (units,), partial(nn.init.constant_, val=self.ratio_on), **where)

    def forward(self, inputs: tuple[Tensor, Tensor], state: LSTMStateTuple) -> tuple[Tensor, LSTMStateTuple]:
        """One step; the output is the new h."""
        (time, x), (c, h) = inputs, two_states(state, self.name)
        rows = torch.cat([x, h], 1)
        i, f = torch.sigmoid(self._product("mask_gates", rows, c)).chunk(2, 1)
        new = torch.tanh(torch.addmm(self.new_input_bias, rows, self.new_input_kernel))
        memory = c * f + i * new
        output = torch.tanh(memory) * torch.sigmoid(self._product("output_gate", rows, memory))
        cycle = self._cycle(time).to(x.dtype)
        up = 2 * cycle / self.ratio
        k = torch.where(cycle < self.ratio, 2 - up, self.leak * cycle)
        k = torch.where(cycle < 0.5 * self.ratio, up, k)
        c, h = k * memory + (1 - k) * c, k * output + (1 - k) * h
        return h, LSTMStateTuple(c, h)

    def _product(self, gate: str, rows: Tensor, memory: Tensor) -> Tensor:
        seen = torch.cat([rows, memory], 1) if self.use_peepholes else rows
        return torch.addmm(getattr(self, f"{gate}_bias"), seen, getattr(self, f"{gate}_kernel"))

    def _cycle(self, time: Tensor) -> Tensor:
        """Where in its period each unit is, in the dtype of the time."""
        period = self.period.to(time.dtype)
        shifted = time - self.phase.to(time.dtype)
        # The gradient is that of the division alone: whole turns are constants, of the period too.
        return (shifted + (torch.remainder(shifted, period) - shifted).detach()) / period
