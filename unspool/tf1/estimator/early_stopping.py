"""Hooks that stop training by what evaluations found: `tf.contrib.estimator`, and `tf.estimator.experimental`."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable
from typing import Any

from unspool.tf1 import gfile, logging
from unspool.tf1.estimator.estimator import Estimator
from unspool.tf1.namespace import missing
from unspool.tf1.records.files import tf_record_iterator
from unspool.tf1.train.sessions.basic_hooks import SecondOrStepTimer
from unspool.tf1.train.sessions.hooks import SessionRunArgs, SessionRunContext, SessionRunHook, SessionRunValues
from unspool.tf1.train.step import get_global_step

__all__ = [
    "make_early_stopping_hook",
    "stop_if_higher_hook",
    "stop_if_lower_hook",
    "stop_if_no_decrease_hook",
    "stop_if_no_increase_hook",
]


def make_early_stopping_hook(
    estimator: Estimator,
    should_stop_fn: Callable[[], bool],
    run_every_secs: float | None = 60,
    run_every_steps: int | None = None,
) -> SessionRunHook:
    """A hook that stops training once a function says so.

    Args:
        estimator: the estimator that is trained.
        should_stop_fn: takes nothing, and says whether to stop.
        run_every_secs: how many seconds are between two calls of it; or
        run_every_steps: how many steps.

    Raises:
        TypeError: if `estimator` is no estimator.
        ValueError: if both are given, or neither.
    """
    if not isinstance(estimator, Estimator):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"`estimator` must have type `tf.estimator.Estimator`. Got: {type(estimator)}")
    if run_every_secs is not None and run_every_steps is not None:
        raise ValueError("Only one of `run_every_secs` and `run_every_steps` must be set.")
    return _StopHook(should_stop_fn, SecondOrStepTimer(run_every_secs, run_every_steps))


def stop_if_no_increase_hook(
    estimator: Estimator,
    metric_name: str,
    max_steps_without_increase: int,
    eval_dir: Any = None,
    min_steps: int = 0,
    run_every_secs: float | None = 60,
    run_every_steps: int | None = None,
) -> SessionRunHook:
    """A hook that stops training once a metric has not risen for so many steps.

    Args:
        estimator: the estimator that is trained.
        metric_name: the metric, as evaluations name it: its values are read from the files that these write.
        max_steps_without_increase: how many steps.
        eval_dir: the folder of the evaluations; the estimator's by default.
        min_steps: evaluations of earlier steps do not count.
        run_every_secs, run_every_steps: see `make_early_stopping_hook`.
    """
    found = _evaluated(estimator, metric_name, eval_dir, min_steps)
    return _stopping(
        estimator, _stalls(operator.gt, max_steps_without_increase), found, run_every_secs, run_every_steps
    )


def stop_if_no_decrease_hook(
    estimator: Estimator,
    metric_name: str,
    max_steps_without_decrease: int,
    eval_dir: Any = None,
    min_steps: int = 0,
    run_every_secs: float | None = 60,
    run_every_steps: int | None = None,
) -> SessionRunHook:
    """A hook that stops training once a metric has not fallen for so many steps; see `stop_if_no_increase_hook`."""
    found = _evaluated(estimator, metric_name, eval_dir, min_steps)
    return _stopping(
        estimator, _stalls(operator.lt, max_steps_without_decrease), found, run_every_secs, run_every_steps
    )


def stop_if_higher_hook(
    estimator: Estimator,
    metric_name: str,
    threshold: float,
    eval_dir: Any = None,
    min_steps: int = 0,
    run_every_secs: float | None = 60,
    run_every_steps: int | None = None,
) -> SessionRunHook:
    """A hook that stops training once a metric is above a threshold; see `stop_if_no_increase_hook`."""
    found = _evaluated(estimator, metric_name, eval_dir, min_steps)
    return _stopping(estimator, _passes(operator.gt, threshold), found, run_every_secs, run_every_steps)


def stop_if_lower_hook(
    estimator: Estimator,
    metric_name: str,
    threshold: float,
    eval_dir: Any = None,
    min_steps: int = 0,
    run_every_secs: float | None = 60,
    run_every_steps: int | None = None,
) -> SessionRunHook:
    """A hook that stops training once a metric is below a threshold; see `stop_if_no_increase_hook`."""
    found = _evaluated(estimator, metric_name, eval_dir, min_steps)
    return _stopping(estimator, _passes(operator.lt, threshold), found, run_every_secs, run_every_steps)


def _stopping(
    estimator: Estimator, stops: Callable[[dict[int, float]], bool], found: Callable[[], dict[int, float]], *when: Any
) -> SessionRunHook:
    """A hook that stops training by what is found of a metric, at the times that `make_early_stopping_hook` is told."""
    return make_early_stopping_hook(estimator, lambda: stops(found()), *when)


def _evaluated(estimator: Estimator, metric: str, eval_dir: Any, min_steps: int) -> Callable[[], dict[int, float]]:
    """A function that reads the values of a metric by step, from a step on."""
    if not isinstance(estimator, Estimator):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"`estimator` must have type `tf.estimator.Estimator`. Got: {type(estimator)}")
    folder = estimator.eval_dir() if eval_dir is None else os.fspath(eval_dir)
    return lambda: {step: value for step, value in evaluations(folder, metric).items() if step >= min_steps}


def evaluations(folder: str, metric: str) -> dict[int, float]:
    """The values of a metric by step, from the files of summaries in a folder."""
    from unspool.tf1.summary import Event

    found: dict[int, float] = {}
    for file in sorted(gfile.Glob(os.path.join(folder, "*tfevents*"))):
        for event in map(Event.FromString, tf_record_iterator(file)):
            values = {each.tag: each.simple_value for each in event.summary.value}
            if metric in values:
                found[event.step] = values[metric]
    return dict(sorted(found.items()))


def _stalls(better: Callable[[float, float], bool], steps: int) -> Callable[[dict[int, float]], bool]:
    def stops(found: dict[int, float]) -> bool:
        best: float | None = None
        best_step = 0
        for step, value in found.items():
            if best is None or better(value, best):
                best, best_step = value, step
            if step - best_step >= steps:
                logging.info("No better value than %s, of step %s, for %s steps.", best, best_step, steps)
                return True
        return False

    return stops


def _passes(beyond: Callable[[float, float], bool], threshold: float) -> Callable[[dict[int, float]], bool]:
    return lambda found: any(beyond(value, threshold) for value in found.values())


class _StopHook(SessionRunHook):
    def __init__(self, should_stop: Callable[[], bool], timer: SecondOrStepTimer) -> None:
        self._should_stop, self._timer = should_stop, timer

    def begin(self) -> None:
        self._step = get_global_step()

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        return SessionRunArgs(self._step)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        step = int(run_values.results)
        if self._timer.should_trigger_for_step(step):
            self._timer.update_last_triggered_step(step)
            if self._should_stop():
                logging.info("Requesting early stopping at global step %d", step)
                run_context.request_stop()


def __getattr__(name: str) -> Any:
    raise missing("tf.contrib.estimator", name, __all__)
