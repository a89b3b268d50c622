"""`tf.estimator.train_and_evaluate`: training with an evaluation now and then."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from unspool.tf1 import logging
from unspool.tf1.estimator.estimator import Estimator
from unspool.tf1.train.sessions.hooks import CheckpointSaverListener


class TrainSpec(NamedTuple):
    """What to train with: data, the last step, and hooks."""

    input_fn: Callable[..., Any]
    max_steps: int | None = None
    hooks: Sequence[Any] = ()
    saving_listeners: Sequence[Any] = ()


class EvalSpec(NamedTuple):
    """What to evaluate with: data, how many batches of them, and how many seconds are between two evaluations."""

    input_fn: Callable[..., Any]
    steps: int | None = 100
    name: str | None = None
    hooks: Sequence[Any] = ()
    exporters: Any = None
    start_delay_secs: float = 120
    throttle_secs: float = 600


def train_and_evaluate(estimator: Estimator, train_spec: TrainSpec, eval_spec: EvalSpec) -> tuple[Any, list[Any]]:
    """Trains an estimator, and evaluates it whenever a checkpoint is saved, and at the end.

    Args:
        estimator: the estimator.
        train_spec: what to train with.
        eval_spec: what to evaluate with; at most once in `throttle_secs`.

    Returns:
        The metrics of the last evaluation, and an empty list: nothing is exported.

    Raises:
        TypeError: if an argument is of another class.
        ValueError: if `max_steps` is not positive.
    """
    expected: list[tuple[str, Any, type[Any]]] = [
        ("estimator", estimator, Estimator),
        ("train_spec", train_spec, TrainSpec),
        ("eval_spec", eval_spec, EvalSpec),
    ]
    for name, value, kind in expected:
        if not isinstance(value, kind):
            raise TypeError(f"`{name}` must have type `tf.estimator.{kind.__name__}`, given {type(value)}")
    if train_spec.max_steps is not None and train_spec.max_steps <= 0:
        raise ValueError(f"Must specify max_steps > 0, given: {train_spec.max_steps}")
    listener = _Evaluate(estimator, eval_spec)
    estimator.train(
        train_spec.input_fn,
        hooks=train_spec.hooks,
        max_steps=train_spec.max_steps,
        saving_listeners=[*train_spec.saving_listeners, listener],
    )
    if listener.result is None:
        logging.info("no checkpoint was saved that had not been evaluated")
    return listener.result, []


class _Evaluate(CheckpointSaverListener):
    """Evaluates after a checkpoint was saved."""

    def __init__(self, estimator: Estimator, spec: EvalSpec) -> None:
        self._estimator, self._spec = estimator, spec
        self._last = time.monotonic()
        self._first = True
        self._evaluated: int | None = None
        self.result: Any = None

    def after_save(self, session: Any, global_step_value: int) -> None:
        if self._first:
            self._first = False
        elif time.monotonic() >= self._last + self._spec.throttle_secs:
            self._evaluate(global_step_value)

    def end(self, session: Any, global_step_value: int) -> None:
        if global_step_value != self._evaluated:
            self._evaluate(global_step_value)

    def _evaluate(self, step: int) -> None:
        spec, self._evaluated = self._spec, step
        self.result = self._estimator.evaluate(spec.input_fn, steps=spec.steps, hooks=spec.hooks, name=spec.name)
        self._last = time.monotonic()
