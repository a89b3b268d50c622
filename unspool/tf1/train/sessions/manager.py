"""How a session begins: from a checkpoint, or by initialisers; and that nothing is left uninitialised then."""

from __future__ import annotations

from typing import Any

from unspool.tf1.errors import FailedPreconditionError
from unspool.tf1.graph import Graph, get_default_graph
from unspool.tf1.lookup import tables_initializer
from unspool.tf1.session import Session
from unspool.tf1.summary import merge_all
from unspool.tf1.train.checkpoint_state import get_checkpoint_state
from unspool.tf1.train.saver import Saver
from unspool.tf1.variables import (
    GraphKeys,
    global_variables,
    global_variables_initializer,
    group,
    local_variables,
    local_variables_initializer,
    report_uninitialized_variables,
)


class SessionManager:
    """Makes sessions whose variables have values.

    Args:
        local_init_op: run in every session, whether it was restored or not.
        ready_op: a tensor with the names of what has no value yet.
        ready_for_local_init_op: the same, for what `local_init_op` needs.
        graph: the graph; the default one if None.
        recovery_wait_secs, local_init_run_options: accepted.
    """

    def __init__(
        self,
        local_init_op: Any = None,
        ready_op: Any = None,
        ready_for_local_init_op: Any = None,
        graph: Graph | None = None,
        recovery_wait_secs: float = 30,
        local_init_run_options: Any = None,
        local_init_feed_dict: Any = None,
    ) -> None:
        self._graph = graph or get_default_graph()
        self._local_init_op, self._local_feed = local_init_op, local_init_feed_dict
        self._ready_op, self._ready_for_local = ready_op, ready_for_local_init_op

    def prepare_session(
        self,
        master: str = "",
        init_op: Any = None,
        saver: Saver | None = None,
        checkpoint_dir: Any = None,
        checkpoint_filename_with_path: Any = None,
        wait_for_checkpoint: bool = False,
        max_wait_secs: float = 7200,
        config: Any = None,
        init_feed_dict: Any = None,
        init_fn: Any = None,
    ) -> Session:
        """A session that was restored from the latest checkpoint, or else initialised.

        Args:
            init_op: run if there is no checkpoint.
            saver: what restores.
            checkpoint_dir: the folder of checkpoints.
            checkpoint_filename_with_path: the prefix of the one to restore, instead.
            init_feed_dict: for `init_op`.
            init_fn: called with the session, after `init_op`.
            master, wait_for_checkpoint, max_wait_secs, config: accepted.

        Raises:
            RuntimeError: if there is no checkpoint and nothing to initialise with, or something is left uninitialised.
        """
        session = Session(master, graph=self._graph, config=config)
        if not self._restore(session, saver, checkpoint_dir, checkpoint_filename_with_path):
            if init_op is None and not init_fn and self._local_init_op is None:
                raise RuntimeError("Model is not initialized and no init_op or init_fn or local_init_op was given")
            if init_op is not None:
                session.run(init_op, feed_dict=init_feed_dict)
            if init_fn:
                init_fn(session)
        problem = self._missing(session, self._ready_for_local)
        if problem:
            raise RuntimeError(f"Init operations did not make model ready for local_init. Variables: {problem}")
        if self._local_init_op is not None:
            session.run(self._local_init_op, feed_dict=self._local_feed)
        problem = self._missing(session, self._ready_op)
        if problem:
            raise RuntimeError(
                f"Init operations did not make model ready. Init op: {getattr(init_op, 'name', None)}, init fn: "
                f"{init_fn}, local_init_op: {getattr(self._local_init_op, 'name', None)}, error: Variables not "
                f"initialized: {problem}"
            )
        return session

    def _restore(self, session: Session, saver: Saver | None, folder: Any, prefix: Any) -> bool:
        if folder and prefix:
            raise ValueError("Can not provide both checkpoint_dir and checkpoint_filename_with_path.")
        if saver is None or not (folder or prefix):
            return False
        if prefix:
            saver.restore(session, prefix)
            return True
        state = get_checkpoint_state(folder)
        if state is None:
            return False
        saver.restore(session, state.model_checkpoint_path)
        saver.recover_last_checkpoints(state.all_model_checkpoint_paths)
        return True

    @staticmethod
    def _missing(session: Session, ready_op: Any) -> str:
        """What has no value yet; nothing if all have."""
        if ready_op is None:
            return ""
        try:
            found = session.run(ready_op)
        except FailedPreconditionError as error:
            return error.message
        return ", ".join(each.decode() for each in found)


class Scaffold:
    """What a training session needs of a graph, made where it is not given.

    Args:
        init_op: initialises the global variables.
        init_feed_dict: for `init_op`.
        init_fn: takes the scaffold and the session, after `init_op`.
        ready_op: a tensor with the names of what has no value yet.
        ready_for_local_init_op: the same, before `local_init_op`.
        local_init_op: initialises local variables and tables, in every session.
        summary_op: all summaries as one.
        saver: what saves and restores.
        copy_from_scaffold: another scaffold, for what is not given.
        local_init_feed_dict: for `local_init_op`.
    """

    def __init__(
        self,
        init_op: Any = None,
        init_feed_dict: Any = None,
        init_fn: Any = None,
        ready_op: Any = None,
        ready_for_local_init_op: Any = None,
        local_init_op: Any = None,
        summary_op: Any = None,
        saver: Saver | None = None,
        copy_from_scaffold: Scaffold | None = None,
        local_init_feed_dict: Any = None,
    ) -> None:
        other = copy_from_scaffold

        def either(given: Any, name: str) -> Any:
            return getattr(other, name) if given is None and other is not None else given

        self.init_op, self.init_feed_dict = either(init_op, "init_op"), either(init_feed_dict, "init_feed_dict")
        self.ready_op = either(ready_op, "ready_op")
        self.ready_for_local_init_op = either(ready_for_local_init_op, "ready_for_local_init_op")
        self.local_init_op = either(local_init_op, "local_init_op")
        self.local_init_feed_dict = either(local_init_feed_dict, "local_init_feed_dict")
        self.summary_op, self.saver = either(summary_op, "summary_op"), either(saver, "saver")
        self.init_fn: Any = (lambda session: init_fn(self, session)) if init_fn else getattr(other, "init_fn", None)

    def finalize(self) -> Scaffold:
        """Makes what is missing, and lets nothing be added to the graph any more."""
        if self.init_op is None:
            self.init_op = global_variables_initializer()
        if self.ready_op is None:
            self.ready_op = report_uninitialized_variables([*global_variables(), *local_variables()])
        if self.ready_for_local_init_op is None:
            self.ready_for_local_init_op = report_uninitialized_variables(global_variables())
        if self.local_init_op is None:
            self.local_init_op = self.default_local_init_op()
        if self.summary_op is None:
            self.summary_op = merge_all()
        if self.saver is None:
            self.saver = saver_or_default()
        self.saver.build_once()
        get_default_graph().finalize()
        return self

    @staticmethod
    def default_local_init_op() -> Any:
        """Initialises local variables and tables."""
        return group(local_variables_initializer(), tables_initializer())


def saver_or_default() -> Saver:
    """The saver of the graph, made if there is none.

    Raises:
        RuntimeError: if there are several.
    """
    graph = get_default_graph()
    found = graph.get_collection(GraphKeys.SAVERS)
    if len(found) > 1:
        raise RuntimeError(f"More than one item in collection {GraphKeys.SAVERS}: {found}")
    if found:
        return found[0]
    made = Saver(allow_empty=True)
    graph.add_to_collection(GraphKeys.SAVERS, made)
    return made
