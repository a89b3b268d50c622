"""`tf.train.Coordinator`: threads that stop together, and errors that reach whoever waits for them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from unspool.tf1 import errors

Raised = tuple[type[BaseException], BaseException, TracebackType | None]


class Coordinator:
    """Lets threads ask whether to stop, and say that all shall.

    Args:
        clean_stop_exception_types: errors that just stop all threads, and are not raised again; `OutOfRangeError` by
            default.

    >>> import threading
    >>> coord = Coordinator()
    >>> def work():
    ...     while not coord.should_stop():
    ...         coord.wait_for_stop(0.01)
    >>> thread = threading.Thread(target=work)
    >>> thread.start()
    >>> coord.request_stop()
    >>> coord.join([thread])
    """

    def __init__(self, clean_stop_exception_types: Any = None) -> None:
        self._clean = (errors.OutOfRangeError,) if clean_stop_exception_types is None else clean_stop_exception_types
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._error: BaseException | None = None
        self._joined = False
        self._threads: set[threading.Thread] = set()

    def request_stop(self, ex: Any = None) -> None:
        """Lets all threads stop.

        Args:
            ex: the error because of which, or what `sys.exc_info()` returns: `join` raises it.
        """
        with self._lock:
            error: BaseException | None = ex[1] if isinstance(ex, tuple) else ex  # pyright: ignore[reportUnknownVariableType]
            if error is not None and isinstance(error, self._clean):
                error = None
            if self._joined:
                if error is not None:
                    raise error
                return
            if not self._stop.is_set():
                self._error = error
                self._stop.set()

    def clear_stop(self) -> None:
        """Begins again: nobody has asked to stop."""
        with self._lock:
            self._joined, self._error = False, None
            self._stop.clear()

    def should_stop(self) -> bool:
        """Whether somebody has asked to stop."""
        return self._stop.is_set()

    def wait_for_stop(self, timeout: float | None = None) -> bool:
        """Waits until somebody asks to stop, so many seconds at most; whether somebody has."""
        return self._stop.wait(timeout)

    @contextmanager
    def stop_on_exception(self) -> Generator[None, None, None]:
        """A context whose errors become a request to stop."""
        try:
            yield
        except Exception as error:
            self.request_stop(error)

    def register_thread(self, thread: threading.Thread) -> None:
        """Lets `join` wait for a thread."""
        with self._lock:
            self._threads.add(thread)

    def join(
        self,
        threads: Sequence[threading.Thread] | None = None,
        stop_grace_period_secs: float = 120,
        ignore_live_threads: bool = False,
    ) -> None:
        """Waits until all threads have stopped.

        Args:
            threads: those to wait for, besides the registered ones.
            stop_grace_period_secs: how long they may take once somebody has asked to stop.
            ignore_live_threads: whether it is no error if some take longer.

        Raises:
            RuntimeError: if a thread has not stopped in time.
            Exception: what `request_stop` was given.
        """
        with self._lock:
            waited = self._threads.union(threads or ())
        while any(each.is_alive() for each in waited) and not self.wait_for_stop(0.05):
            pass
        deadline = time.monotonic() + stop_grace_period_secs
        for each in waited:
            each.join(max(deadline - time.monotonic(), 0.001))
        alive = [each.name for each in waited if each.is_alive()]
        with self._lock:
            self._joined = True
            self._threads.clear()
            error = self._error
        if error is not None:
            raise error
        if alive and not ignore_live_threads:
            raise RuntimeError(f"Coordinator stopped with threads still running: {' '.join(alive)}")

    @property
    def joined(self) -> bool:
        """Whether `join` has returned."""
        return self._joined

    def raise_requested_exception(self) -> None:
        """Raises what `request_stop` was given, if it was."""
        with self._lock:
            if self._error is not None:
                raise self._error


class LooperThread(threading.Thread):
    """A thread that calls `run_loop` again and again until its coordinator stops.

    Args:
        coord: the coordinator.
        timer_interval_secs: how many seconds are between two calls; none if None.
        target: what is called, instead of `run_loop`.
        args: what it is called with.
        kwargs: the same by name.
    """

    def __init__(
        self,
        coord: Coordinator,
        timer_interval_secs: float | None,
        target: Callable[..., Any] | None = None,
        args: Sequence[Any] | None = None,
        kwargs: dict[str, Any] | None = None,
    ) -> None:
        if not isinstance(coord, Coordinator):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError(f"'coord' argument must be a Coordinator: {coord}")
        super().__init__(daemon=True)
        self._coord, self._interval = coord, timer_interval_secs
        self._called, self._arguments, self._named = target, tuple(args or ()), dict(kwargs or {})
        coord.register_thread(self)

    @staticmethod
    def loop(
        coord: Coordinator, timer_interval_secs: float | None, target: Any, args: Any = None, kwargs: Any = None
    ) -> LooperThread:
        """Starts a thread that calls a function again and again."""
        made = LooperThread(coord, timer_interval_secs, target, args, kwargs)
        made.start()
        return made

    def run(self) -> None:
        """Calls it until the coordinator stops."""
        with self._coord.stop_on_exception():
            self.start_loop()
            if self._interval is None:
                while not self._coord.should_stop():
                    self.run_loop()
            else:
                due = time.monotonic()
                while not self._coord.wait_for_stop(max(due - time.monotonic(), 0)):
                    due += self._interval
                    self.run_loop()
            self.stop_loop()

    def start_loop(self) -> None:
        """Called before the first time."""

    def stop_loop(self) -> None:
        """Called after the last time."""

    def run_loop(self) -> None:
        """What is called."""
        if self._called is not None:
            self._called(*self._arguments, **self._named)
