"""`tf.train.MonitoredSession`: a session with hooks, which begins from the latest checkpoint and ends by itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from unspool.flags import checks_flags
from unspool.tf1.errors import OutOfRangeError
from unspool.tf1.graph import Graph
from unspool.tf1.queues.coordinator import Coordinator
from unspool.tf1.queues.runners import start_queue_runners
from unspool.tf1.session import Session
from unspool.tf1.train.sessions.hooks import SessionRunArgs, SessionRunContext, SessionRunHook, SessionRunValues
from unspool.tf1.train.sessions.manager import Scaffold, SessionManager
from unspool.tf1.train.sessions.writing_hooks import CheckpointSaverHook, StepCounterHook, SummarySaverHook

__all__ = [
    "ChiefSessionCreator",
    "MonitoredSession",
    "MonitoredTrainingSession",
    "SessionCreator",
    "SingularMonitoredSession",
    "WorkerSessionCreator",
]

USE_DEFAULT: Any = object()
"""Stands for what an argument is if it is not given."""


class SessionCreator:
    """Makes the session of a `MonitoredSession`."""

    def create_session(self) -> Session:
        """The session, with values for all variables."""
        raise NotImplementedError("create_session is not implemented")


class ChiefSessionCreator(SessionCreator):
    """Makes a session from a checkpoint, or by the initialisers of a scaffold.

    Args:
        scaffold: what the session needs of the graph.
        master: accepted.
        config: accepted.
        checkpoint_dir: the folder of checkpoints; or
        checkpoint_filename_with_path: the prefix of one.
    """

    def __init__(
        self,
        scaffold: Scaffold | None = None,
        master: str = "",
        config: Any = None,
        checkpoint_dir: Any = None,
        checkpoint_filename_with_path: Any = None,
    ) -> None:
        self._scaffold = scaffold or Scaffold()
        self._master, self._config = master, config
        self._folder, self._prefix = checkpoint_dir, checkpoint_filename_with_path

    def create_session(self) -> Session:
        """The session; the graph is final from now on."""
        scaffold = self._scaffold.finalize()
        manager = SessionManager(
            local_init_op=scaffold.local_init_op,
            ready_op=scaffold.ready_op,
            ready_for_local_init_op=scaffold.ready_for_local_init_op,
            local_init_feed_dict=scaffold.local_init_feed_dict,
        )
        return manager.prepare_session(
            self._master,
            saver=scaffold.saver,
            checkpoint_dir=self._folder,
            checkpoint_filename_with_path=self._prefix,
            config=self._config,
            init_op=scaffold.init_op,
            init_feed_dict=scaffold.init_feed_dict,
            init_fn=scaffold.init_fn,
        )


WorkerSessionCreator = ChiefSessionCreator
"""The same: there is one process."""


class MonitoredSession:
    """A session that calls hooks around every run, starts queue runners, and ends with the program's block.

    Args:
        session_creator: what makes the session; a `ChiefSessionCreator` by default.
        hooks: `SessionRunHook`s.
        stop_grace_period_secs: how long threads may take to stop.

    >>> from unspool import tf1 as tf
    >>> with tf.Graph().as_default():
    ...     step = tf.assign_add(tf.train.get_or_create_global_step(), 1)
    ...     with tf.train.MonitoredSession(hooks=[tf.train.StopAtStepHook(num_steps=3)]) as session:
    ...         while not session.should_stop():
    ...             last = session.run(step)
    >>> last
    np.int64(3)
    """

    def __init__(
        self,
        session_creator: SessionCreator | None = None,
        hooks: Sequence[SessionRunHook] | None = None,
        stop_grace_period_secs: float = 120,
    ) -> None:
        self._hooks = list(hooks or ())
        for each in self._hooks:
            each.begin()
        self._coord = Coordinator(clean_stop_exception_types=())
        self._grace = stop_grace_period_secs
        self._stop = False
        session = (session_creator or ChiefSessionCreator()).create_session()
        self._session: Session | None = session
        self._graph = session.graph
        self._context = session.graph.as_default()
        self._default = session.as_default()
        start_queue_runners(session, self._coord)
        for each in self._hooks:
            each.after_create_session(session, self._coord)

    @property
    def graph(self) -> Graph:
        """The graph that it runs."""
        return self._graph

    def run(self, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None) -> Any:
        """`Session.run`, with what hooks add to it.

        Raises:
            RuntimeError: if it is closed, was to stop, or two hooks feed the same tensor.
        """
        session = self._opened()
        if self.should_stop():
            raise RuntimeError("Run called even after should_stop requested.")
        context = SessionRunContext(SessionRunArgs(fetches, feed_dict), session)
        asked, feeds = self._ask_hooks(context, feed_dict)
        try:
            values = session.run([fetches, *asked.values()], feeds)
        except Exception:
            self._coord.raise_requested_exception()  # a thread's error, which may be the cause of this one
            raise
        results = dict(zip(asked, values[1:], strict=True))
        for number, hook in enumerate(self._hooks):
            hook.after_run(context, SessionRunValues(results.get(number), None, None))
        self._stop = self._stop or context.stop_requested
        return values[0]

    def _ask_hooks(self, context: SessionRunContext, feed_dict: Any) -> tuple[dict[int, Any], dict[Any, Any]]:
        """What hooks fetch, by their numbers, and all that is fed."""
        asked: dict[int, Any] = {}
        feeds: dict[Any, Any] = {}
        for number, hook in enumerate(self._hooks):
            wanted = hook.before_run(context)
            if wanted is None:
                continue
            if wanted.fetches is not None:
                asked[number] = wanted.fetches
            if wanted.feed_dict:
                if feeds.keys() & wanted.feed_dict.keys():
                    raise RuntimeError("Same tensor is fed by two hooks.")
                feeds.update(wanted.feed_dict)
        if feed_dict:
            if feeds.keys() & feed_dict.keys():
                raise RuntimeError("Same tensor is fed by a user and hooks.")
            feeds.update(feed_dict)
        return asked, feeds

    def run_step_fn(self, step_fn: Callable[..., Any]) -> Any:
        """Calls a function with a `step_context`: its `session` is without hooks, `run_with_hooks` with them."""
        return step_fn(_StepContext(self._opened(), self))

    def should_stop(self) -> bool:
        """Whether a hook, a thread or the end of the program has asked for no further run."""
        return self._session is None or self._stop or self._coord.should_stop()

    def close(self) -> None:
        """Calls the hooks for the last time, stops the threads, and closes the session."""
        self._close(None)

    def _close(self, error: type[BaseException] | None) -> None:
        session = self._session
        if session is None:
            return
        try:
            if error is None:
                for each in self._hooks:
                    each.end(session)
        finally:
            self._session = None
            try:
                self._coord.request_stop()
                self._coord.join(stop_grace_period_secs=self._grace, ignore_live_threads=True)
            finally:
                session.close()

    def _opened(self) -> Session:
        if self._session is None:
            raise RuntimeError("Attempted to use a closed session.")
        return self._session

    def _tf_sess(self) -> Session:
        return self._opened()

    def __enter__(self) -> MonitoredSession:
        self._context.__enter__()
        self._default.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: Any, trace: Any) -> bool:
        over = kind is not None and issubclass(kind, OutOfRangeError | StopIteration)
        self._default.__exit__(None, None, None)
        self._context.__exit__(None, None, None)
        self._close(None if over else kind)
        return over


class _StepContext:
    """What `run_step_fn` calls its function with."""

    def __init__(self, session: Session, monitored: MonitoredSession) -> None:
        self.session, self._monitored = session, monitored

    def run_with_hooks(self, *args: Any, **kwargs: Any) -> Any:
        """`MonitoredSession.run`."""
        return self._monitored.run(*args, **kwargs)

    def request_stop(self) -> None:
        """Ends the loop around it."""
        raise StopIteration("step_fn has requested the iterations to stop.")


class SingularMonitoredSession(MonitoredSession):
    """A `MonitoredSession` from its parts; `raw_session()` is the session inside.

    Args:
        hooks: `SessionRunHook`s.
        scaffold: what the session needs of the graph.
        master: accepted.
        config: accepted.
        checkpoint_dir: the folder of checkpoints; or
        stop_grace_period_secs: how long threads may take to stop.
        checkpoint_filename_with_path: the prefix of a checkpoint.
    """

    def __init__(
        self,
        hooks: Sequence[SessionRunHook] | None = None,
        scaffold: Scaffold | None = None,
        master: str = "",
        config: Any = None,
        checkpoint_dir: Any = None,
        stop_grace_period_secs: float = 120,
        checkpoint_filename_with_path: Any = None,
    ) -> None:
        creator = ChiefSessionCreator(scaffold, master, config, checkpoint_dir, checkpoint_filename_with_path)
        super().__init__(creator, hooks, stop_grace_period_secs)

    def raw_session(self) -> Session:
        """The session, without hooks."""
        return self._opened()


@checks_flags
def MonitoredTrainingSession(  # noqa: N802
    master: str = "",
    is_chief: bool = True,
    checkpoint_dir: Any = None,
    scaffold: Scaffold | None = None,
    hooks: Sequence[SessionRunHook] | None = None,
    chief_only_hooks: Sequence[SessionRunHook] | None = None,
    save_checkpoint_secs: Any = USE_DEFAULT,
    save_summaries_steps: Any = USE_DEFAULT,
    save_summaries_secs: Any = USE_DEFAULT,
    config: Any = None,
    stop_grace_period_secs: float = 120,
    log_step_count_steps: int | None = 100,
    max_wait_secs: float = 7200,
    save_checkpoint_steps: Any = USE_DEFAULT,
    summary_dir: Any = None,
) -> MonitoredSession:
    """A `MonitoredSession` that saves checkpoints and summaries to a folder, and begins with what is there.

    Args:
        checkpoint_dir: the folder; nothing is saved without one.
        scaffold: what the session needs of the graph.
        hooks: `SessionRunHook`s.
        chief_only_hooks: the same; there is one process.
        save_checkpoint_secs: every how many seconds there is a checkpoint, 600 by default; or
        save_checkpoint_steps: every how many steps.
        save_summaries_steps: every how many steps there is a summary, 100 by default; or
        save_summaries_secs: every how many seconds.
        log_step_count_steps: every how many steps their rate is logged.
        summary_dir: the folder of summaries, if it is another one.
        stop_grace_period_secs: how long threads may take to stop.
        master, is_chief, config, max_wait_secs: accepted.
    """
    summary_secs = None if save_summaries_secs is USE_DEFAULT else save_summaries_secs
    summary_steps = None if save_summaries_steps is USE_DEFAULT else save_summaries_steps
    if save_summaries_secs is USE_DEFAULT and save_summaries_steps is USE_DEFAULT:
        summary_steps = 100
    secs = None if save_checkpoint_secs is USE_DEFAULT else save_checkpoint_secs
    steps = None if save_checkpoint_steps is USE_DEFAULT else save_checkpoint_steps
    if save_checkpoint_secs is USE_DEFAULT and save_checkpoint_steps is USE_DEFAULT:
        secs = 600
    chosen = scaffold or Scaffold()
    all_hooks = list(chief_only_hooks or ())
    folder = summary_dir or checkpoint_dir
    if folder and log_step_count_steps:
        all_hooks.append(StepCounterHook(every_n_steps=log_step_count_steps, output_dir=folder))
    if folder and (summary_steps or summary_secs):
        all_hooks.append(SummarySaverHook(summary_steps, summary_secs, folder, scaffold=chosen))
    if checkpoint_dir and (secs or steps):
        all_hooks.append(CheckpointSaverHook(checkpoint_dir, secs or None, steps or None, scaffold=chosen))
    all_hooks += hooks or ()
    creator = ChiefSessionCreator(chosen, master, config, checkpoint_dir)
    return MonitoredSession(creator, all_hooks, stop_grace_period_secs)
