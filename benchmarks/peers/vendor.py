"""`nn.LSTM`, `nn.GRU` and `nn.RNN`: the vendors' kernels, cuDNN's and oneDNN's; padded, and packed by lengths."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import save_on_cpu
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from benchmarks.harness import Contender
from benchmarks.peers.registry import peer
from benchmarks.problem import Kind, Problem

MODULES: dict[Kind, type[nn.RNNBase]] = {
    "LSTM": nn.LSTM,
    "three LSTMs": nn.LSTM,
    "GRU": nn.GRU,
    "GRU, reset after": nn.GRU,
    "RNN": nn.RNN,
}


@peer
def padded(problem: Problem) -> Contender | None:
    """The module over every step, whatever the lengths."""
    if problem.kind not in MODULES:
        return None
    module = module_of(problem)
    # TensorFlow's GRU resets before the product, torch's after it: the same work, other numbers.
    same = problem.lengths is None and problem.kind != "GRU"
    name = f"nn.{type(module).__name__}" if problem.lengths is None else f"nn.{type(module).__name__}, padded"
    run = problem.on_torch(lambda: module(problem.inputs)[0], list(module.parameters()))
    return Contender(name, run, same=same)


@peer
def packed(problem: Problem) -> Contender | None:
    """The module over packed sequences, which is how torch is told about lengths."""
    if problem.kind not in MODULES or problem.lengths is None:
        return None
    module, lengths = module_of(problem), problem.lengths

    def forward() -> Tensor:
        rows = pack_padded_sequence(problem.inputs, lengths, enforce_sorted=False)
        return pad_packed_sequence(module(rows)[0], total_length=problem.shape.steps)[0]

    run = problem.on_torch(forward, list(module.parameters()))
    return Contender(f"nn.{type(module).__name__}, packed", run, same=problem.kind != "GRU")


def saved_on_cpu(problem: Problem) -> Contender:
    """The module with what it saves for backward in host memory: torch's own way to swap."""
    module = module_of(problem)

    def forward() -> Tensor:
        with save_on_cpu(pin_memory=True):
            return module(problem.inputs)[0]

    run = problem.on_torch(forward, list(module.parameters()))
    return Contender(f"nn.{type(module).__name__}, save_on_cpu", run, same=problem.kind != "GRU")


def half(problem: Problem) -> Contender:
    """The module in float16, the only dtype for which cuDNN has persistent kernels at most sizes."""
    inputs = problem.inputs.detach().half().requires_grad_(problem.training)
    halved = replace(problem, inputs=inputs, gradient=problem.gradient.half())
    module = module_of(problem).half()
    run = halved.on_torch(lambda: module(halved.inputs)[0], list(module.parameters()))
    return Contender(f"nn.{type(module).__name__}, float16", run, same=problem.kind != "GRU")


@torch.no_grad()
def module_of(problem: Problem) -> nn.RNNBase:
    """The module with the weights of the problem's cell."""
    layers = problem.cell.cells if problem.kind == "three LSTMs" else [problem.cell]
    shape = problem.shape
    module = MODULES[problem.kind](shape.depth, shape.units, len(layers)).to(problem.device, problem.dtype)
    for layer, cell in enumerate(layers):
        from_inputs, from_state, bias, state_bias = weights_of(problem.kind, cell, shape.units)
        getattr(module, f"weight_ih_l{layer}").copy_(from_inputs)
        getattr(module, f"weight_hh_l{layer}").copy_(from_state)
        getattr(module, f"bias_ih_l{layer}").copy_(bias)
        getattr(module, f"bias_hh_l{layer}").copy_(state_bias)
    return module


def weights_of(kind: Kind, cell: Any, units: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """A cell's weights in torch's layout: for inputs, for the state, and the bias of each."""
    if kind == "GRU, reset after":
        from_inputs, from_state = cell.from_inputs, cell.from_state
        return from_inputs.weight, from_state.weight, from_inputs.bias, from_state.bias
    if kind == "GRU":
        kernel = torch.cat([cell.gates_kernel, cell.candidate_kernel], 1)
        bias = torch.cat([cell.gates_bias, cell.candidate_bias])
    elif kind == "RNN":
        kernel, bias = cell.kernel, cell.bias
    else:
        i, j, f, o = torch.cat([cell.kernel, cell.bias[None]]).chunk(4, 1)
        kernel, bias = torch.cat([i, f, j, o], 1).split([len(i) - 1, 1])
        bias = bias[0].clone()
        bias[units : 2 * units] += cell.forget_bias
    depth = len(kernel) - units
    return kernel[:depth].T, kernel[depth:].T, bias, torch.zeros_like(bias)
