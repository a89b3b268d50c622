"""What hooks are: they see every run of a monitored session, add fetches and feeds to it, and may stop it."""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["CheckpointSaverListener", "SessionRunArgs", "SessionRunContext", "SessionRunHook", "SessionRunValues"]


class SessionRunArgs(NamedTuple):
    """What is run: fetches, and what is fed."""

    fetches: Any
    feed_dict: Any = None
    options: Any = None


class SessionRunValues(NamedTuple):
    """What a run returned for a hook's fetches."""

    results: Any
    options: Any = None
    run_metadata: Any = None


class SessionRunContext:
    """One run, as hooks see it.

    Args:
        original_args: what the program asked for.
        session: the session, which hooks may use too.
    """

    def __init__(self, original_args: SessionRunArgs, session: Any) -> None:
        self.original_args, self.session = original_args, session
        self._stop = False

    @property
    def stop_requested(self) -> bool:
        """Whether a hook wants no further run."""
        return self._stop

    def request_stop(self) -> None:
        """Lets this run be the last one: `should_stop()` is true afterwards."""
        self._stop = True


class SessionRunHook:
    """What happens around every run of a monitored session; each method may be overridden.

    >>> from unspool import tf1 as tf
    >>> class Show(tf.train.SessionRunHook):
    ...     def before_run(self, run_context):
    ...         return tf.train.SessionRunArgs(count)
    ...     def after_run(self, run_context, run_values):
    ...         print("before:", run_values.results)
    >>> with tf.Graph().as_default():
    ...     count = tf.train.get_or_create_global_step()
    ...     step = tf.assign_add(count, 1)
    ...     with tf.train.MonitoredSession(hooks=[Show(), tf.train.StopAtStepHook(last_step=2)]) as session:
    ...         while not session.should_stop():
    ...             print(session.run(step))
    before: 0
    1
    before: 1
    2
    """

    def begin(self) -> None:
        """Called once, while operations can still be added to the graph."""

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Called when the session is there, and all variables have values."""

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs | None:
        """Called before each run; what it returns is fetched and fed besides."""
        return None

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Called after each run that has not failed."""

    def end(self, session: Any) -> None:
        """Called at the end, unless there was an error."""


class CheckpointSaverListener:
    """What happens before and after a checkpoint is saved; each method may be overridden."""

    def begin(self) -> None:
        """Called once, while operations can still be added to the graph."""

    def before_save(self, session: Any, global_step_value: int) -> None:
        """Called before a checkpoint is written."""

    def after_save(self, session: Any, global_step_value: int) -> Any:
        """Called after it was; True stops training."""

    def end(self, session: Any, global_step_value: int) -> None:
        """Called at the end."""
