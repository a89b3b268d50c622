"""`tf.train.Supervisor`: a session that begins from the latest checkpoint, with threads that save and summarise."""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

from unspool.flags import checks_flags
from unspool.tf1 import logging
from unspool.tf1.graph import Graph, get_default_graph
from unspool.tf1.queues.coordinator import Coordinator, LooperThread
from unspool.tf1.queues.runners import start_queue_runners
from unspool.tf1.session import Session
from unspool.tf1.summary import merge_all
from unspool.tf1.train.sessions.manager import Scaffold, SessionManager, saver_or_default
from unspool.tf1.train.sessions.writers import writer_for
from unspool.tf1.train.step import get_global_step
from unspool.tf1.variables import (
    GraphKeys,
    global_variables,
    global_variables_initializer,
    report_uninitialized_variables,
)


class Supervisor:
    """Prepares a session, and looks after it while a program trains.

    Args:
        graph: the graph; the default one if None. It is final once the supervisor is made.
        ready_op: a tensor with the names of what has no value yet.
        is_chief: accepted: there is one process.
        init_op: initialises variables if there is no checkpoint; None if nothing shall.
        init_feed_dict: for `init_op`.
        local_init_op: run in every session; initialises local variables and tables by default.
        logdir: the folder of checkpoints and summaries; nothing is saved without one.
        summary_op: what is summarised every so often; None if the program does so itself.
        saver: what saves; None for nothing.
        global_step: the variable that counts steps.
        save_summaries_secs: every how many seconds summaries are written; 0 for never.
        save_model_secs: every how many seconds a checkpoint is saved; 0 for never.
        stop_grace_secs: how long threads may take to stop.
        checkpoint_basename: the name of checkpoints.
        session_manager: what prepares sessions.
        summary_writer: what writes summaries; None for nothing.
        init_fn: called with a new session, after `init_op`.
        recovery_wait_secs, ready_for_local_init_op, local_init_run_options: accepted.
    """

    USE_DEFAULT: Any = 0

    @checks_flags
    def __init__(
        self,
        graph: Graph | None = None,
        ready_op: Any = USE_DEFAULT,
        ready_for_local_init_op: Any = USE_DEFAULT,
        is_chief: bool = True,
        init_op: Any = USE_DEFAULT,
        init_feed_dict: Any = None,
        local_init_op: Any = USE_DEFAULT,
        logdir: Any = None,
        summary_op: Any = USE_DEFAULT,
        saver: Any = USE_DEFAULT,
        global_step: Any = USE_DEFAULT,
        save_summaries_secs: float = 120,
        save_model_secs: float = 600,
        recovery_wait_secs: float = 30,
        stop_grace_secs: float = 120,
        checkpoint_basename: str = "model.ckpt",
        session_manager: SessionManager | None = None,
        summary_writer: Any = USE_DEFAULT,
        init_fn: Any = None,
        local_init_run_options: Any = None,
    ) -> None:
        self._graph = graph or get_default_graph().root
        default = Supervisor.USE_DEFAULT
        with self._graph.as_default():
            self._ready_op = self._made(ready_op, GraphKeys.READY_OP, self._default_ready_op)
            self._init_op = self._made(init_op, GraphKeys.INIT_OP, global_variables_initializer)
            self._local_init_op = self._made(local_init_op, GraphKeys.LOCAL_INIT_OP, Scaffold.default_local_init_op)
            self._saver = self._default_saver() if saver is default else saver
            self._summary_op = self._made(summary_op, GraphKeys.SUMMARY_OP, merge_all)
            self._global_step = get_global_step(self._graph) if global_step is default else global_step
        self._init_feed_dict, self._init_fn = init_feed_dict, init_fn
        self._logdir = None if logdir is None else os.fspath(logdir)
        self._save_path = None if self._logdir is None else os.path.join(self._logdir, checkpoint_basename)
        self._save_summaries_secs, self._save_model_secs = save_summaries_secs, save_model_secs
        self._grace = stop_grace_secs
        self._coord = Coordinator()
        self._writer: Any = summary_writer
        if summary_writer is default:
            self._writer = None if self._logdir is None else writer_for(self._logdir)
        self._manager = session_manager or SessionManager(
            local_init_op=self._local_init_op, ready_op=self._ready_op, graph=self._graph
        )
        self._graph.finalize()

    def _made(self, given: Any, key: str, make: Any) -> Any:
        """What was given, or what the graph has in a collection, or else what is made."""
        if given is not Supervisor.USE_DEFAULT:
            return given
        found = self._graph.get_collection(key)
        return found[0] if found else make()

    def _default_ready_op(self) -> Any:
        return report_uninitialized_variables(global_variables())

    def _default_saver(self) -> Any:
        return saver_or_default() if self._graph.get_collection(GraphKeys.GLOBAL_VARIABLES) else None

    # -- what it has -------------------------------------------------------------------------------------------------

    @property
    def session_manager(self) -> SessionManager:
        """What prepares sessions."""
        return self._manager

    @property
    def coord(self) -> Coordinator:
        """What lets threads stop together."""
        return self._coord

    @property
    def init_op(self) -> Any:
        """What initialises variables."""
        return self._init_op

    @property
    def init_feed_dict(self) -> Any:
        """What `init_op` is fed."""
        return self._init_feed_dict

    @property
    def ready_op(self) -> Any:
        """The names of what has no value yet."""
        return self._ready_op

    @property
    def summary_writer(self) -> Any:
        """What writes summaries."""
        return self._writer

    @property
    def summary_op(self) -> Any:
        """What is summarised."""
        return self._summary_op

    @property
    def save_summaries_secs(self) -> float:
        """Every how many seconds summaries are written."""
        return self._save_summaries_secs

    @property
    def global_step(self) -> Any:
        """The variable that counts steps."""
        return self._global_step

    @property
    def saver(self) -> Any:
        """What saves."""
        return self._saver

    @property
    def save_model_secs(self) -> float:
        """Every how many seconds a checkpoint is saved."""
        return self._save_model_secs

    @property
    def save_path(self) -> str | None:
        """The prefix of checkpoints."""
        return self._save_path

    @property
    def is_chief(self) -> bool:
        """True: there is one process."""
        return True

    # -- sessions ----------------------------------------------------------------------------------------------------

    @contextmanager
    def managed_session(
        self,
        master: str = "",
        config: Any = None,
        start_standard_services: bool = True,
        close_summary_writer: bool = True,
    ) -> Generator[Session, None, None]:
        """A context with a session whose variables have values.

        Errors in it stop all threads, and are raised at its end; `OutOfRangeError` just ends it.

        Args:
            master: accepted.
            config: accepted.
            start_standard_services: whether threads save and summarise, and queue runners start.
            close_summary_writer: whether the writer of summaries is closed at the end.
        """
        session = self.prepare_or_wait_for_session(master, config, start_standard_services=start_standard_services)
        try:
            with session.graph.as_default(), session.as_default():
                yield session
        except Exception as error:
            self.request_stop(error)
        finally:
            try:
                self.stop(close_summary_writer=close_summary_writer)
            finally:
                session.close()

    def prepare_or_wait_for_session(
        self,
        master: str = "",
        config: Any = None,
        wait_for_checkpoint: bool = False,
        max_wait_secs: float = 7200,
        start_standard_services: bool = True,
    ) -> Session:
        """A session whose variables have values: those of the latest checkpoint, or the first ones."""
        self._coord.clear_stop()
        if self._writer is not None:
            self._writer.reopen()
        session = self._manager.prepare_session(
            master,
            init_op=self._init_op,
            saver=self._saver,
            checkpoint_dir=self._logdir,
            config=config,
            init_feed_dict=self._init_feed_dict,
            init_fn=self._init_fn,
        )
        if start_standard_services:
            self.start_standard_services(session)
            self.start_queue_runners(session)
        return session

    PrepareSession = prepare_or_wait_for_session

    def start_standard_services(self, sess: Session) -> list[LooperThread]:
        """Starts the threads that save checkpoints and write summaries."""
        if self._logdir is None:
            logging.warning("Standard services need a 'logdir' passed to the SessionManager")
            return []
        made: list[LooperThread] = []
        if self._save_summaries_secs and self._writer is not None and self._summary_op is not None:
            made.append(self.loop(self._save_summaries_secs, self._summarize, (sess,)))
        if self._saver is not None and self._save_model_secs:
            made.append(self.loop(self._save_model_secs, self._save, (sess,)))
        return made

    def _summarize(self, sess: Session) -> None:
        self.summary_computed(sess, sess.run(self._summary_op))

    def _save(self, sess: Session) -> None:
        os.makedirs(self._logdir or ".", exist_ok=True)
        self._saver.save(sess, self._save_path, global_step=self._global_step)

    def start_queue_runners(self, sess: Session, queue_runners: Sequence[Any] | None = None) -> list[Any]:
        """Starts queue runners: all that the graph has, or those given."""
        if queue_runners is None:
            return list(start_queue_runners(sess, self._coord))
        return [
            each for one in queue_runners for each in one.create_threads(sess, self._coord, daemon=True, start=True)
        ]

    def loop(
        self, timer_interval_secs: float | None, target: Any, args: Any = None, kwargs: Any = None
    ) -> LooperThread:
        """Starts a thread that calls a function again and again until all stop."""
        return LooperThread.loop(self._coord, timer_interval_secs, target, args, kwargs)

    Loop = loop

    # -- the end -----------------------------------------------------------------------------------------------------

    def stop(self, threads: Any = None, close_summary_writer: bool = True, ignore_live_threads: bool = False) -> None:
        """Stops all threads, and waits for them."""
        self._coord.request_stop()
        try:
            self._coord.join(threads, self._grace, ignore_live_threads)
        finally:
            if close_summary_writer and self._writer is not None:
                self._writer.close()

    Stop = stop

    def request_stop(self, ex: Any = None) -> None:
        """Lets all threads stop, for an error if there is one."""
        self._coord.request_stop(ex)

    RequestStop = request_stop

    def should_stop(self) -> bool:
        """Whether somebody has asked to stop."""
        return self._coord.should_stop()

    ShouldStop = should_stop

    def stop_on_exception(self) -> Any:
        """A context whose errors become a request to stop."""
        return self._coord.stop_on_exception()

    def wait_for_stop(self) -> None:
        """Waits until somebody asks to stop."""
        self._coord.wait_for_stop()

    def summary_computed(self, sess: Session, summary: Any, global_step: Any = None) -> None:
        """Writes a summary that the program has computed.

        Raises:
            RuntimeError: if there is nothing to write with.
        """
        if self._writer is None:
            raise RuntimeError("Writing a summary requires a summary writer.")
        if global_step is None and self._global_step is not None:
            global_step = int(sess.run(self._global_step))
        self._writer.add_summary(summary, global_step)
