"""Hooks that write while a session trains: checkpoints, log lines, summaries, steps a second."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from unspool.flags import checks_flags
from unspool.tf1 import logging
from unspool.tf1.graph import get_default_graph
from unspool.tf1.train.saver import Saver
from unspool.tf1.train.sessions.basic_hooks import SecondOrStepTimer, step_tensor
from unspool.tf1.train.sessions.hooks import SessionRunArgs, SessionRunContext, SessionRunHook, SessionRunValues
from unspool.tf1.train.sessions.writers import writer_for

__all__ = [
    "CheckpointSaverHook",
    "LoggingTensorHook",
    "StepCounterHook",
    "SummarySaverHook",
]


class CheckpointSaverHook(SessionRunHook):
    """Saves checkpoints: at the beginning, every so many steps or seconds, and at the end.

    Args:
        checkpoint_dir: the folder.
        save_secs: every how many seconds; or
        save_steps: every how many steps.
        saver: what saves; or
        checkpoint_basename: the name of the files.
        scaffold: what has the saver.
        listeners: `CheckpointSaverListener`s.
        save_graph_def: accepted; graphs are not written.
    """

    @checks_flags
    def __init__(
        self,
        checkpoint_dir: Any,
        save_secs: float | None = None,
        save_steps: int | None = None,
        saver: Saver | None = None,
        checkpoint_basename: str = "model.ckpt",
        scaffold: Any = None,
        listeners: Sequence[Any] | None = None,
        save_graph_def: bool = True,
    ) -> None:
        if saver is not None and scaffold is not None:
            raise ValueError("You cannot provide both saver and scaffold.")
        self._saver, self._scaffold = saver, scaffold
        self._folder = os.fspath(checkpoint_dir)
        self._prefix = os.path.join(self._folder, checkpoint_basename)
        self._timer = SecondOrStepTimer(every_secs=save_secs, every_steps=save_steps)
        self._listeners = list(listeners or ())

    def begin(self) -> None:
        """Finds the counter."""
        self._step = step_tensor(self)
        for each in self._listeners:
            each.begin()

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Saves what the session begins with."""
        step = int(session.run(self._step))
        self._save(session, step)
        self._timer.update_last_triggered_step(step)

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        """Asks for the counter."""
        return SessionRunArgs(self._step)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Saves if it is time."""
        if not self._timer.should_trigger_for_step(int(run_values.results) + 1):
            return
        step = int(run_context.session.run(self._step))
        if self._timer.should_trigger_for_step(step):
            self._timer.update_last_triggered_step(step)
            if self._save(run_context.session, step):
                run_context.request_stop()

    def end(self, session: Any) -> None:
        """Saves what was not saved yet."""
        step = int(session.run(self._step))
        if step != self._timer.last_triggered_step():
            self._save(session, step)
        for each in self._listeners:
            each.end(session, step)

    def _save(self, session: Any, step: int) -> bool:
        logging.info("Saving checkpoints for %d into %s.", step, self._prefix)
        for each in self._listeners:
            each.before_save(session, step)
        os.makedirs(self._folder or ".", exist_ok=True)
        self._chosen().save(session, self._prefix, global_step=step)
        answers = [bool(each.after_save(session, step)) for each in self._listeners]
        return any(answers)

    def _chosen(self) -> Saver:
        if self._saver is None:
            from unspool.tf1.train.sessions.manager import saver_or_default

            self._saver = self._scaffold.saver if self._scaffold is not None else saver_or_default()
        return self._saver  # pyright: ignore[reportReturnType]


class LoggingTensorHook(SessionRunHook):
    """Logs tensors every so many runs or seconds.

    Args:
        tensors: names or tensors; or a dict of them by the names to log.
        every_n_iter: every how many runs; or
        every_n_secs: every how many seconds.
        at_end: whether, or only, at the end.
        formatter: takes the values, in a dict by name, to what is logged.
    """

    @checks_flags
    def __init__(
        self,
        tensors: Any,
        every_n_iter: int | None = None,
        every_n_secs: float | None = None,
        at_end: bool = False,
        formatter: Callable[[dict[str, Any]], str] | None = None,
    ) -> None:
        only_at_end = at_end and every_n_iter is None and every_n_secs is None
        if not only_at_end and (every_n_iter is None) == (every_n_secs is None):
            raise ValueError("either at_end and/or exactly one of every_n_iter and every_n_secs must be provided.")
        if every_n_iter is not None and every_n_iter <= 0:
            raise ValueError(f"invalid every_n_iter={every_n_iter}.")
        named = tensors if isinstance(tensors, Mapping) else {_name_of(each): each for each in tensors}
        self._tensors: dict[str, Any] = dict(named)  # pyright: ignore[reportUnknownArgumentType]
        self._timer = None if only_at_end else SecondOrStepTimer(every_n_secs, every_n_iter)
        self._at_end, self._formatter = at_end, formatter

    def begin(self) -> None:
        """Finds the tensors."""
        graph = get_default_graph()
        self._count = 0
        if self._timer is not None:
            self._timer.reset()
        self._current = {name: graph.as_graph_element(each) for name, each in self._tensors.items()}

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs | None:
        """Asks for the tensors if it is time."""
        self._due = self._timer is not None and self._timer.should_trigger_for_step(self._count)
        return SessionRunArgs(list(self._current.values())) if self._due else None

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Logs them."""
        if self._due:
            self._log(run_values.results)
        self._count += 1

    def end(self, session: Any) -> None:
        """Logs them once more."""
        if self._at_end:
            self._log(session.run(list(self._current.values())))

    def _log(self, values: Sequence[Any]) -> None:
        named = dict(zip(self._current, values, strict=True))
        seconds = None if self._timer is None else self._timer.update_last_triggered_step(self._count)[0]
        if self._formatter is not None:
            logging.info(self._formatter(named))
            return
        with np.printoptions(suppress=True):
            words = ", ".join(f"{name} = {value!s}" for name, value in named.items())
        logging.info(words if seconds is None else f"{words} ({seconds:.3f} sec)")


def _name_of(each: Any) -> str:
    return each if isinstance(each, str) else each.name


class SummarySaverHook(SessionRunHook):
    """Writes summaries every so many steps or seconds.

    Args:
        save_steps: every how many steps; or
        save_secs: every how many seconds.
        output_dir: the folder; or
        summary_writer: what writes.
        scaffold: what has the summary; or
        summary_op: the summary, or several.
    """

    def __init__(
        self,
        save_steps: int | None = None,
        save_secs: float | None = None,
        output_dir: Any = None,
        summary_writer: Any = None,
        scaffold: Any = None,
        summary_op: Any = None,
    ) -> None:
        if (scaffold is None) == (summary_op is None):
            raise ValueError("Exactly one of scaffold or summary_op must be provided.")
        self._timer = SecondOrStepTimer(every_secs=save_secs, every_steps=save_steps)
        self._folder, self._writer, self._scaffold, self._summary = output_dir, summary_writer, scaffold, summary_op

    def begin(self) -> None:
        """Finds the counter, and what writes."""
        self._next: int | None = None
        self._step = step_tensor(self)
        if self._writer is None and self._folder:
            self._writer = writer_for(self._folder)

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        """Asks for the summary if it is time."""
        self._due = self._next is None or self._timer.should_trigger_for_step(self._next)
        asked: list[Any] = [self._step]
        if self._due and self._writer is not None:
            asked += self._summaries()
        return SessionRunArgs(asked)

    def _opened(self) -> Any:
        return self._writer

    def _summaries(self) -> list[Any]:
        found = self._summary if self._summary is not None else self._scaffold.summary_op
        return [] if found is None else list(found) if isinstance(found, list | tuple) else [found]  # pyright: ignore[reportUnknownArgumentType]

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Writes it."""
        before, *summaries = run_values.results
        step = int(before) + 1
        if self._due:
            step = int(run_context.session.run(self._step))
            self._timer.update_last_triggered_step(step)
            for each in summaries:  # there are none without a writer
                self._opened().add_summary(each, step)
        self._next = step + 1

    def end(self, session: Any) -> None:
        """Lets all be in the file."""
        if self._writer is not None:
            self._writer.flush()


class StepCounterHook(SessionRunHook):
    """Logs how many steps a second there are, and writes a summary of it.

    Args:
        every_n_steps: every how many steps; or
        every_n_secs: every how many seconds.
        output_dir: the folder of summaries; or
        summary_writer: what writes.
    """

    def __init__(
        self,
        every_n_steps: int | None = 100,
        every_n_secs: float | None = None,
        output_dir: Any = None,
        summary_writer: Any = None,
    ) -> None:
        if (every_n_steps is None) == (every_n_secs is None):
            raise ValueError("exactly one of every_n_steps and every_n_secs should be provided.")
        self._timer = SecondOrStepTimer(every_steps=every_n_steps, every_secs=every_n_secs)
        self._folder, self._writer = output_dir, summary_writer

    def begin(self) -> None:
        """Finds the counter, and what writes."""
        self._step = step_tensor(self)
        if self._writer is None and self._folder:
            self._writer = writer_for(self._folder)

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        """Asks for the counter."""
        return SessionRunArgs(self._step)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Logs if it is time."""
        if not self._timer.should_trigger_for_step(int(run_values.results) + 1):
            return
        step = int(run_context.session.run(self._step))
        if not self._timer.should_trigger_for_step(step):
            return
        seconds, steps = self._timer.update_last_triggered_step(step)
        if seconds and steps is not None:
            self._log(steps / seconds, step)

    def _log(self, rate: float, step: int) -> None:
        logging.info("global_step/sec: %g", rate)
        if self._writer is not None:
            from unspool.tf1.summary import Summary

            value = Summary.Value(tag="global_step/sec", simple_value=rate)
            self._writer.add_summary(Summary(value=[value]), step)
