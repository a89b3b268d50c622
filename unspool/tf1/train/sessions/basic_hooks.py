"""The hooks of `tf.train` that stop, feed, wait and check; writing_hooks.py has those that write."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

from unspool.flags import checks_flags
from unspool.tf1 import logging
from unspool.tf1.train.sessions.hooks import SessionRunArgs, SessionRunContext, SessionRunHook, SessionRunValues
from unspool.tf1.train.step import get_global_step

__all__ = [
    "FeedFnHook",
    "FinalOpsHook",
    "GlobalStepWaiterHook",
    "NanLossDuringTrainingError",
    "NanTensorHook",
    "SecondOrStepTimer",
    "StopAtStepHook",
    "step_tensor",
]


class SecondOrStepTimer:
    """Whether it is time again: after so many steps, or so many seconds.

    Args:
        every_secs: how many seconds; or
        every_steps: how many steps.

    Raises:
        ValueError: if both are given, or neither.
    """

    def __init__(self, every_secs: float | None = None, every_steps: int | None = None) -> None:
        if every_secs is None and every_steps is None:
            raise ValueError("Either every_secs or every_steps should be provided.")
        if every_secs is not None and every_steps is not None:
            raise ValueError("Can not provide both every_secs and every_steps.")
        self._secs, self._steps = every_secs, every_steps
        self.reset()

    def reset(self) -> None:
        """Begins again."""
        self._last_step: int | None = None
        self._last_time = 0.0

    def should_trigger_for_step(self, step: int) -> bool:
        """Whether it is time at this step."""
        if self._last_step is None:
            return True
        if self._last_step == step:
            return False
        if self._secs is not None:
            return time.time() >= self._last_time + self._secs
        return step >= self._last_step + (self._steps or 0)

    def update_last_triggered_step(self, step: int) -> tuple[float | None, int | None]:
        """Notes that this is the last time; the seconds and the steps since the one before."""
        now, before = time.time(), self._last_step
        passed = (None, None) if before is None else (now - self._last_time, step - before)
        self._last_time, self._last_step = now, step
        return passed

    def last_triggered_step(self) -> int | None:
        """The step of the last time."""
        return self._last_step


def step_tensor(hook: Any) -> Any:
    """The global step; `RuntimeError` if there is none for a hook to count by."""
    found = get_global_step()
    if found is None:
        raise RuntimeError(f"Global step should be created to use {type(hook).__name__}.")
    return found


class StopAtStepHook(SessionRunHook):
    """Stops after so many steps, or at a step.

    Args:
        num_steps: how many steps from where the session begins; or
        last_step: the step at which to stop.

    Raises:
        ValueError: if both are given, or neither.
    """

    def __init__(self, num_steps: int | None = None, last_step: int | None = None) -> None:
        if num_steps is None and last_step is None:
            raise ValueError("One of num_steps or last_step must be specified.")
        if num_steps is not None and last_step is not None:
            raise ValueError("Only one of num_steps or last_step can be specified.")
        self._num_steps, self._last_step = num_steps, last_step

    def begin(self) -> None:
        """Finds the counter."""
        self._step = step_tensor(self)

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Finds the last step."""
        if self._last_step is None:
            self._last_step = int(session.run(self._step)) + (self._num_steps or 0)

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        """Asks for the counter."""
        return SessionRunArgs(self._step)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Stops if it is there."""
        last = self._last_step or 0
        # What was fetched is the count before this run.
        if run_values.results + 1 >= last and int(run_context.session.run(self._step)) >= last:
            run_context.request_stop()


class NanLossDuringTrainingError(RuntimeError):
    """A loss that is not a number."""

    def __str__(self) -> str:
        return "NaN loss during training."


class NanTensorHook(SessionRunHook):
    """Stops when a loss is not a number.

    Args:
        loss_tensor: the loss.
        fail_on_nan_loss: whether that is an error, `NanLossDuringTrainingError`.
    """

    @checks_flags
    def __init__(self, loss_tensor: Any, fail_on_nan_loss: bool = True) -> None:
        self._loss, self._fail = loss_tensor, fail_on_nan_loss

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        """Asks for the loss."""
        return SessionRunArgs(self._loss)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Stops if need be."""
        if not math.isnan(float(run_values.results)):
            return
        if self._fail:
            logging.error("Model diverged with loss = NaN.")
            raise NanLossDuringTrainingError
        logging.warning("Model diverged with loss = NaN.")
        run_context.request_stop()


class FinalOpsHook(SessionRunHook):
    """Runs something at the end; `final_ops_values` has its values then.

    Args:
        final_ops: what is fetched.
        final_ops_feed_dict: what is fed.
    """

    def __init__(self, final_ops: Any, final_ops_feed_dict: Any = None) -> None:
        self._fetches, self._feeds = final_ops, final_ops_feed_dict
        self._values: Any = None

    @property
    def final_ops_values(self) -> Any:
        """What was fetched; None before the end."""
        return self._values

    def end(self, session: Any) -> None:
        """Fetches it."""
        if self._fetches is not None:
            self._values = session.run(self._fetches, feed_dict=self._feeds)


class FeedFnHook(SessionRunHook):
    """Feeds every run what a function returns, a dict."""

    def __init__(self, feed_fn: Callable[[], Any]) -> None:
        self.feed_fn = feed_fn

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        """Calls it."""
        return SessionRunArgs(None, self.feed_fn())


class GlobalStepWaiterHook(SessionRunHook):
    """Waits until others have counted so many steps; alone, there is nobody to wait for.

    Args:
        wait_until_step: the step; at most 0 for no waiting.
    """

    def __init__(self, wait_until_step: int) -> None:
        self._wait_until_step = wait_until_step
