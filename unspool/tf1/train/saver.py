"""Saving the variables of a session, and restoring them: checkpoints that TensorFlow reads, and those it wrote."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from unspool.checkpoints.write import save_tf1_checkpoint
from unspool.tf1 import logging
from unspool.tf1.errors import InvalidArgumentError, NotFoundError
from unspool.tf1.graph import get_default_graph
from unspool.tf1.session import Session
from unspool.tf1.train.checkpoint_state import checkpoint_exists, remove_checkpoint, update_checkpoint_state
from unspool.tf1.train.meta_graph import export_meta_graph
from unspool.tf1.train.reader import open_bundle, read_array
from unspool.tf1.train.saveable import Saveable
from unspool.tf1.train.step import global_step as count_of
from unspool.tf1.variables import GraphKeys, Variable, global_variables


class Saver:
    """Writes the variables of a session to files, and reads them again.

    Args:
        var_list: the variables; or a dict of them by the names that they have in the file. All global ones by default,
            of those that there are when the saver is made.
        reshape: whether a variable takes a value of another shape with as many elements.
        max_to_keep: how many checkpoints stay; older ones are removed. None or 0 for all.
        keep_checkpoint_every_n_hours: one of so many hours stays anyway.
        name: accepted.
        save_relative_paths: whether the file `checkpoint` names them relative to the folder, so that it can be moved.
        pad_step_number: whether step numbers in names have eight digits.
        defer_build: whether the variables are chosen when first needed.
        allow_empty: whether there may be no variables; then nothing is saved.
        sharded, restore_sequentially, saver_def, builder, write_version, filename: accepted.

    >>> import tempfile
    >>> from unspool import tf1 as tf
    >>> weight = tf.get_variable("saved", [2], initializer=tf.ones_initializer())
    >>> saver = tf.train.Saver([weight])
    >>> with tempfile.TemporaryDirectory() as folder, tf.Session() as session:
    ...     session.run(weight.initializer)
    ...     prefix = saver.save(session, folder + "/model.ckpt", global_step=7)
    ...     session.run(weight.assign([5.0, 5.0]))
    ...     saver.restore(session, tf.train.latest_checkpoint(folder))
    ...     print(prefix == folder + "/model.ckpt-7", session.run(weight))
    array([5., 5.], dtype=float32)
    True [1. 1.]
    """

    def __init__(
        self,
        var_list: Any = None,
        reshape: bool = False,
        sharded: bool = False,
        max_to_keep: int | None = 5,
        keep_checkpoint_every_n_hours: float = 10000.0,
        name: str | None = None,
        restore_sequentially: bool = False,
        saver_def: Any = None,
        builder: Any = None,
        defer_build: bool = False,
        allow_empty: bool = False,
        write_version: Any = None,
        pad_step_number: bool = False,
        save_relative_paths: bool = False,
        filename: str | None = None,
    ) -> None:
        self._var_list, self._reshape, self._allow_empty = var_list, reshape, allow_empty
        self._max_to_keep = max_to_keep or 0
        self._keep_seconds = keep_checkpoint_every_n_hours * 3600
        self._next_kept = time.time() + self._keep_seconds
        self._pad_step_number, self._relative = pad_step_number, save_relative_paths
        self._kept: list[tuple[str, float]] = []
        self._variables: dict[str, Variable] | None = None
        self._written: tuple[int, bytes | None] = (-1, None)
        """How many operations the graph had that was written last, and what was."""
        self._saveables: list[Saveable] = []
        if not defer_build:
            self.build()

    def build(self) -> None:
        """Chooses the variables; needed with `defer_build` only."""
        given: Any = self._var_list
        if given is None:
            given = [*global_variables(), *get_default_graph().get_collection(GraphKeys.SAVEABLE_OBJECTS)]
        pairs = list(given.items()) if isinstance(given, Mapping) else [(None, each) for each in given]
        self._saveables = [each for _, each in pairs if isinstance(each, Saveable)]
        self._variables = _by_name([pair for pair in pairs if not isinstance(pair[1], Saveable)])
        if not self._variables and not self._saveables and not self._allow_empty:
            raise ValueError("No variables to save")

    def build_once(self) -> None:
        """Chooses the variables, unless that was done."""
        if self._variables is None:
            self.build()

    @property
    def last_checkpoints(self) -> list[str]:
        """The prefixes of the checkpoints that are kept, oldest first."""
        return [prefix for prefix, _ in self._kept]

    def set_last_checkpoints(self, last_checkpoints: Sequence[str]) -> None:
        """Says which checkpoints there are already."""
        self._kept = [(prefix, float("inf")) for prefix in last_checkpoints]

    def set_last_checkpoints_with_time(self, last_checkpoints_with_time: Sequence[tuple[str, float]]) -> None:
        """Says which checkpoints there are already, and when they were written."""
        self._kept = list(last_checkpoints_with_time)

    def recover_last_checkpoints(self, checkpoint_paths: Sequence[str]) -> None:
        """Finds which of these checkpoints are still there, so that they are removed in their turn."""
        there = [prefix for prefix in checkpoint_paths if checkpoint_exists(prefix)]
        self._kept = [(prefix, os.path.getmtime(f"{prefix}.index")) for prefix in there]

    # -- saving ------------------------------------------------------------------------------------------------------

    def save(
        self,
        sess: Any,
        save_path: str | os.PathLike[str],
        global_step: Any = None,
        latest_filename: str | None = None,
        meta_graph_suffix: str = "meta",
        write_meta_graph: bool = True,
        write_state: bool = True,
        strip_default_attrs: bool = False,
        save_debug_info: bool = False,
    ) -> str | None:
        """Writes a checkpoint, and notes it in the file `checkpoint` of its folder, which is made if there is none.

        Args:
            sess: the session whose values are saved.
            save_path: the prefix of the files.
            global_step: a number, or a variable that counts steps, for the end of the prefix.
            latest_filename: the name of the file that notes it, if it is another than "checkpoint".
            write_state: whether it is noted, and older ones are removed.
            meta_graph_suffix: the end of the name of the graph's file.
            write_meta_graph: whether the graph is written too, for `tf.train.import_meta_graph`, if it can be.
            strip_default_attrs: accepted, as the next.
            save_debug_info: accepted.

        Returns:
            The prefix, for `restore`.

        Raises:
            FailedPreconditionError: if a variable has no value; nothing is written then.
        """
        variables = self.named_variables()
        session = _session(sess)
        path, state = os.fspath(save_path), latest_filename or "checkpoint"
        if os.path.split(state)[0]:
            raise ValueError(f"'latest_filename' must not contain path components, but is {state!r}")
        if global_step is None and os.path.basename(path) == state:
            raise ValueError(f"'latest_filename' collides with 'save_path': '{state}' and '{path}'")
        if global_step is not None:
            count = count_of(session, global_step) if hasattr(global_step, "op") else int(global_step)
            path = f"{path}-{count:08d}" if self._pad_step_number else f"{path}-{count}"
        if not variables and not self._saveables:
            return None
        values: dict[str, Any] = {name: session.state.value_of(each) for name, each in variables.items()}
        for each in self._saveables:
            values.update(each.arrays(session.state.value_of(each.variable).detach().cpu().numpy()))
        save_tf1_checkpoint(path, values)
        if write_meta_graph:
            self._write_graph(session.graph, f"{path}.{meta_graph_suffix}")
        if write_state:
            dropped = self._keep(path)
            update_checkpoint_state(os.path.dirname(path), path, self.last_checkpoints, state, self._relative)
            for prefix in dropped:
                remove_checkpoint(prefix)
        return path

    def _write_graph(self, graph: Any, path: str) -> None:
        """Writes the graph, as last time if nothing was added; one that cannot be written is no reason to stop."""
        count = len(graph.get_operations())
        if self._written[0] != count:
            try:
                self._written = count, export_meta_graph(graph=graph, saver=self).SerializeToString()
            except TypeError as error:
                logging.info("%s was not written: %s", path, error)
                self._written = count, None
        if self._written[1] is not None:
            with open(path, "wb") as file:
                file.write(self._written[1])

    def export_meta_graph(self, filename: str | None = None, **unused: Any) -> Any:
        """`tf.train.export_meta_graph`, with this saver."""
        return export_meta_graph(filename, saver=self)

    def _keep(self, path: str) -> list[str]:
        """Notes a checkpoint; the prefixes of those that go for it."""
        if not self._max_to_keep:
            return []
        self._kept = [*(each for each in self._kept if each[0] != path), (path, time.time())]
        dropped: list[str] = []
        while len(self._kept) > self._max_to_keep:
            prefix, written = self._kept.pop(0)
            if written > self._next_kept:
                self._next_kept += self._keep_seconds
            else:
                dropped.append(prefix)
        return dropped

    # -- restoring ---------------------------------------------------------------------------------------------------

    def restore(self, sess: Any, save_path: str | os.PathLike[str] | None) -> None:
        """Gives the variables of a session the values of a checkpoint: all of them, or none if there is an error.

        Args:
            sess: the session; its variables need not be initialised.
            save_path: the prefix, as `save` returns it.

        Raises:
            ValueError: if there is no such checkpoint.
            NotFoundError: if it lacks variables; they are listed.
            InvalidArgumentError: if variables have another shape or dtype in it; they are listed.
            DataLossError: if it is broken.
        """
        if save_path is None:
            raise ValueError("Can't load save_path when it is None.")
        variables, session, prefix = self.named_variables(), _session(sess), os.fspath(save_path)
        if not variables and not self._saveables:
            return
        if not checkpoint_exists(prefix):
            raise ValueError(f"The passed save_path is not a valid checkpoint: {prefix}")
        bundle = open_bundle(prefix)
        owned = {each.variable for each in self._saveables}
        variables = {name: each for name, each in variables.items() if each not in owned}
        blanks = {name: array for each in self._saveables for name, array in each.blank().items()}
        missing = [name for name in [*variables, *blanks] if name not in bundle]
        if missing:
            raise NotFoundError(None, None, f"Keys not found in checkpoint {prefix}: {', '.join(missing)}")
        wrong = [
            problem
            for name, variable in variables.items()
            for problem in self._problems(name, variable, bundle.shape(name), bundle.dtype(name))
        ]
        wrong += [
            f"{name} has shape {list(bundle.shape(name))} in the checkpoint, but {list(array.shape)} in the graph"
            for name, array in blanks.items()
            if bundle.shape(name) != array.shape
        ]
        if wrong:
            raise InvalidArgumentError(None, None, f"checkpoint {prefix} does not fit the graph: {'; '.join(wrong)}")
        values = {variable: read_array(bundle, name) for name, variable in variables.items()}
        for variable, array in values.items():
            sizes: Any = variable.dims if variable.shape.is_fully_defined() else array.shape
            session.state.assign(variable, torch.from_numpy(array.reshape(sizes)).to(variable.dtype.torch))
        for each in self._saveables:  # not as the variables themselves, whose form may be another machine's
            value = each.value({name: read_array(bundle, name) for name in each.blank()})
            session.state.assign(each.variable, torch.from_numpy(value).to(each.variable.dtype.torch))

    def _problems(self, name: str, variable: Variable, shape: tuple[int, ...], dtype: np.dtype[Any]) -> list[str]:
        wanted = "float32" if variable.dtype.name == "bfloat16" else variable.dtype.name
        if dtype.name != wanted:
            return [f"{name} is {dtype.name} in the checkpoint, but {variable.dtype.name} in the graph"]
        counted = self._reshape and variable.shape.num_elements() == int(np.prod(shape))
        if variable.shape.is_compatible_with(shape) or counted:
            return []
        return [f"{name} has shape {list(shape)} in the checkpoint, but {variable.shape.as_list()} in the graph"]

    def named_variables(self) -> Mapping[str, Variable]:
        """The variables by their names in a checkpoint."""
        if self._variables is None:
            raise RuntimeError("the saver was made with defer_build=True: call its build() first")
        return self._variables


def _session(sess: Any) -> Session:
    if not isinstance(sess, Session):
        raise TypeError(f"'sess' must be a Session; {sess!r}")
    return sess


def _by_name(pairs: Sequence[tuple[Any, Any]]) -> dict[str, Variable]:
    found: dict[str, Variable] = {}
    for given, variable in pairs:
        if not isinstance(variable, Variable):
            raise TypeError(f"var_list must hold variables, but has {variable!r}")
        name = variable.op.name if given is None else str(given)
        if name in found:
            raise ValueError(f"At least two variables have the same name: {name}")
        found[name] = variable
    return found
