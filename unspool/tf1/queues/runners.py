"""Threads that fill queues: `tf.train.QueueRunner`, and what starts all that a graph has."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from unspool.flags import checks_flags
from unspool.tf1.errors import CancelledError, OpError, OutOfRangeError
from unspool.tf1.graph import get_default_graph
from unspool.tf1.queues.coordinator import Coordinator
from unspool.tf1.session import Session, get_default_session
from unspool.tf1.variables import GraphKeys


class QueueRunner:
    """Threads that run operations which put elements into a queue, until one says that there are no more.

    Args:
        queue: the queue.
        enqueue_ops: the operations, a thread for each.
        close_op: closes the queue, so that what is there can be taken out; made if None.
        cancel_op: closes it at once; made if None.
        queue_closed_exception_types: errors that say there are no more elements.
        queue_runner_def, import_scope: accepted.
    """

    def __init__(
        self,
        queue: Any = None,
        enqueue_ops: Sequence[Any] | None = None,
        close_op: Any = None,
        cancel_op: Any = None,
        queue_closed_exception_types: Any = None,
        queue_runner_def: Any = None,
        import_scope: Any = None,
    ) -> None:
        if not queue or not enqueue_ops:
            raise ValueError("Must provide queue and enqueue_ops.")
        self._queue, self._enqueue_ops = queue, list(enqueue_ops)
        self._close_op = queue.close() if close_op is None else close_op
        self._cancel_op = queue.close(cancel_pending_enqueues=True) if cancel_op is None else cancel_op
        ends = (OutOfRangeError,) if queue_closed_exception_types is None else tuple(queue_closed_exception_types)
        self._ends: tuple[type[Exception], ...] = (*ends, CancelledError)
        self._lock = threading.Lock()
        self._running: dict[Session, int] = {}
        self._raised: list[Exception] = []

    @property
    def queue(self) -> Any:
        """The queue."""
        return self._queue

    @property
    def enqueue_ops(self) -> list[Any]:
        """What is run."""
        return self._enqueue_ops

    @property
    def close_op(self) -> Any:
        """What closes the queue."""
        return self._close_op

    @property
    def cancel_op(self) -> Any:
        """What closes it at once."""
        return self._cancel_op

    @property
    def name(self) -> str:
        """The queue's."""
        return self._queue.name

    @property
    def exceptions_raised(self) -> list[Exception]:
        """The errors of its threads, if they have no coordinator to tell."""
        return self._raised

    def create_threads(
        self, sess: Session, coord: Coordinator | None = None, daemon: bool = False, start: bool = False
    ) -> list[threading.Thread]:
        """Threads for a session; none if it has them already.

        Args:
            sess: the session.
            coord: what tells them to stop.
            daemon: whether the process may end while they run.
            start: whether to start them; else that is left to the caller.
        """
        with self._lock:
            if self._running.get(sess, 0) > 0:
                return []
            self._running[sess] = len(self._enqueue_ops)
            self._raised = []
        made = [
            threading.Thread(target=self._run, args=(sess, each, coord), name=f"QueueRunnerThread-{self.name}")
            for each in self._enqueue_ops
        ]
        if coord is not None:
            closing = threading.Thread(target=self._close_on_stop, args=(sess, coord), name=f"QueueCloser-{self.name}")
            made.append(closing)
        for each in made:
            each.daemon = daemon
            if coord is not None:
                coord.register_thread(each)
            if start:
                each.start()
        return made

    def _run(self, sess: Session, enqueue: Any, coord: Coordinator | None) -> None:
        counted = False
        try:
            while coord is None or not coord.should_stop():
                try:
                    sess.run(enqueue)
                except self._ends:
                    counted = True
                    if self._was_last(sess):
                        _run_quietly(sess, self._close_op)
                    return
        except Exception as error:
            if _is_closed(sess):
                return  # the session is over, which nobody has to be told
            if coord is not None:
                coord.request_stop(error)
            else:
                with self._lock:
                    self._raised.append(error)
                raise
        finally:
            if not counted:
                self._was_last(sess)

    def _was_last(self, sess: Session) -> bool:
        """Notes that a thread ends; whether it is the last one."""
        with self._lock:
            self._running[sess] -= 1
            if self._running[sess]:
                return False
            del self._running[sess]
            return True

    def _close_on_stop(self, sess: Session, coord: Coordinator) -> None:
        coord.wait_for_stop()
        _run_quietly(sess, self._cancel_op)


def _run_quietly(sess: Session, operation: Any) -> None:
    """Closes a queue, unless the session has done so by ending."""
    try:
        sess.run(operation)
    except (OpError, RuntimeError):
        if not _is_closed(sess):
            raise


def _is_closed(sess: Any) -> bool:
    return getattr(sess, "closed", False)


def add_queue_runner(qr: QueueRunner, collection: str = GraphKeys.QUEUE_RUNNERS) -> None:
    """Adds a runner to those that `start_queue_runners` starts."""
    get_default_graph().add_to_collection(collection, qr)


@checks_flags
def start_queue_runners(
    sess: Any = None,
    coord: Coordinator | None = None,
    daemon: bool = True,
    start: bool = True,
    collection: str = GraphKeys.QUEUE_RUNNERS,
) -> list[threading.Thread]:
    """Starts the threads of all queue runners of a session's graph.

    Args:
        sess: the session; the default one if None.
        coord: what tells threads to stop, and is told of their errors.
        daemon: whether the process may end while they run.
        start: whether to start them.
        collection: the name of the list of runners.

    Raises:
        ValueError: if there is no session.
        TypeError: if `sess` is no session.
    """
    chosen = get_default_session() if sess is None else sess
    if chosen is None:
        raise ValueError(
            "Cannot start queue runners: No default session is registered. Use `with sess.as_default()` or pass an "
            "explicit session to tf.start_queue_runners(sess=sess)"
        )
    if not isinstance(chosen, Session):
        raise TypeError(f"sess must be a `tf.Session` object. Given class: {type(chosen)}")
    made: list[threading.Thread] = []
    for runner in chosen.graph.get_collection(collection):
        made += runner.create_threads(chosen, coord, daemon=daemon, start=start)
    return made
