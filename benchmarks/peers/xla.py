"""JAX: `lax.scan` over the step, the inputs' product hoisted out of it by hand, all of it compiled by XLA."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from benchmarks.harness import Contender, as_float
from benchmarks.peers.registry import peer
from benchmarks.problem import Problem

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # or JAX takes most of the GPU from the others


@peer
def jax(problem: Problem) -> Contender | None:
    """The whole training step in one compiled function."""
    if problem.kind not in STEPS:
        return None
    import jax
    import jax.numpy as jnp

    try:
        device = jax.devices("gpu" if problem.device.type == "cuda" else "cpu")[0]
    except RuntimeError as error:
        raise ImportError("jax is installed, but without CUDA") from error
    dtype = str(problem.dtype).removeprefix("torch.")
    # JAX's default for float32 on a GPU is TF32; torch's, and ours, is not.
    exact = dtype == "float32" and not problem.tf32
    jax.config.update("jax_default_matmul_precision", "highest" if exact else None)

    def put(value: Any) -> Any:
        return jax.device_put(jnp.asarray(as_float(value).numpy()).astype(dtype), device)

    weights = {name: put(weight) for name, weight in problem.cell.named_parameters()}
    inputs, gradient = put(problem.inputs), put(problem.gradient)
    batch, steps, _, units = problem.shape
    alive = None
    if problem.lengths is not None:
        alive = jax.device_put(jnp.arange(steps)[:, None, None] < problem.lengths.numpy()[:, None], device)
    prepare = STEPS[problem.kind]

    def forward(weights: Any, inputs: Any) -> Any:
        xs, step = prepare(jax, weights, inputs, units)
        zeros = jnp.zeros((batch, units), inputs.dtype)

        def masked(state: Any, now: Any) -> Any:
            x, on = now
            new = step(state, x)
            if on is None:
                return new, new[-1]
            new = tuple(jnp.where(on, one, other) for one, other in zip(new, state, strict=True))
            return new, jnp.where(on, new[-1], 0)

        return jax.lax.scan(masked, (zeros, zeros) if problem.kind == "LSTM" else (zeros,), (xs, alive))[1]

    @jax.jit
    def train(weights: Any, inputs: Any, gradient: Any) -> Any:
        outputs, pull = jax.vjp(forward, weights, inputs)
        return outputs, pull(gradient)

    infer = jax.jit(forward)

    def run() -> tuple[Any, ...]:
        if not problem.training:
            return (jax.block_until_ready(infer(weights, inputs)),)
        outputs, (_, of_inputs) = jax.block_until_ready(train(weights, inputs, gradient))
        return outputs, of_inputs

    return Contender("JAX, lax.scan", run, "jax")


# Each takes JAX, the weights, the inputs of all steps and the width; it returns what the steps read, and a step from
# state to state. The last part of a state is the output.


def lstm(jax: Any, weights: Any, inputs: Any, units: int) -> tuple[Any, Callable[[Any, Any], Any]]:
    """An LSTM."""
    kernel, depth = weights["kernel"], inputs.shape[-1]

    def step(state: Any, x: Any) -> Any:
        c, h = state
        i, j, f, o = jax.numpy.split(x + h @ kernel[depth:], 4, 1)
        c = jax.nn.sigmoid(f + 1) * c + jax.nn.sigmoid(i) * jax.numpy.tanh(j)
        return c, jax.nn.sigmoid(o) * jax.numpy.tanh(c)

    return inputs @ kernel[:depth] + weights["bias"], step


def gru(jax: Any, weights: Any, inputs: Any, units: int) -> tuple[Any, Callable[[Any, Any], Any]]:
    """A GRU that resets before its product."""
    gates, candidate, depth = weights["gates_kernel"], weights["candidate_kernel"], inputs.shape[-1]

    def step(state: Any, x: Any) -> Any:
        (h,) = state
        r, u = jax.numpy.split(jax.nn.sigmoid(x[:, : 2 * units] + h @ gates[depth:]), 2, 1)
        return (u * h + (1 - u) * jax.numpy.tanh(x[:, 2 * units :] + (r * h) @ candidate[depth:]),)

    kernel = jax.numpy.concatenate([gates[:depth], candidate[:depth]], 1)
    return inputs @ kernel + jax.numpy.concatenate([weights["gates_bias"], weights["candidate_bias"]]), step


def basic(jax: Any, weights: Any, inputs: Any, units: int) -> tuple[Any, Callable[[Any, Any], Any]]:
    """The simplest network."""
    kernel, depth = weights["kernel"], inputs.shape[-1]
    return inputs @ kernel[:depth] + weights["bias"], lambda state, x: (jax.numpy.tanh(x + state[0] @ kernel[depth:]),)


STEPS = {"LSTM": lstm, "GRU": gru, "RNN": basic}
