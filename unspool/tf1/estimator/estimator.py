"""`tf.estimator.Estimator`: a model function, and what trains, evaluates and runs it."""

from __future__ import annotations

import copy
import inspect
import os
import tempfile
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any

from unspool.structure import flatten, map_structure
from unspool.tf1 import logging
from unspool.tf1.data.dataset import Dataset
from unspool.tf1.estimator import export
from unspool.tf1.estimator.run_config import RunConfig
from unspool.tf1.estimator.spec import EstimatorSpec, ModeKeys
from unspool.tf1.graph import Graph, get_default_graph
from unspool.tf1.metrics import mean
from unspool.tf1.seeds import set_random_seed
from unspool.tf1.session import Session
from unspool.tf1.summary import scalar
from unspool.tf1.train.checkpoint_state import latest_checkpoint
from unspool.tf1.train.reader import list_variables, load_checkpoint
from unspool.tf1.train.saver import Saver
from unspool.tf1.train.sessions.basic_hooks import FinalOpsHook, NanTensorHook, StopAtStepHook
from unspool.tf1.train.sessions.hooks import SessionRunContext, SessionRunHook, SessionRunValues
from unspool.tf1.train.sessions.manager import Scaffold
from unspool.tf1.train.sessions.monitored import ChiefSessionCreator, MonitoredSession, MonitoredTrainingSession
from unspool.tf1.train.sessions.writers import writer_for
from unspool.tf1.train.sessions.writing_hooks import CheckpointSaverHook, LoggingTensorHook
from unspool.tf1.train.step import create_global_step
from unspool.tf1.variables import GraphKeys, group


class Estimator:
    """A model function, with a folder in which what it has learnt is kept.

    Args:
        model_fn: takes `features`, and, as far as its arguments have these names, `labels`, `mode`, `params` and
            `config`, to an `EstimatorSpec`.
        model_dir: the folder; by default that of the config, or a new one.
        config: a `RunConfig`.
        params: a dict, or `HParams`, for the model function.
        warm_start_from: not supported.

    >>> from unspool import tf1 as tf
    >>> def model(features, labels, mode):
    ...     guess = tf.get_variable("guess", [], initializer=tf.zeros_initializer())
    ...     loss = tf.reduce_mean((labels - guess) ** 2)
    ...     step = tf.train.get_global_step()
    ...     train = tf.train.GradientDescentOptimizer(0.5).minimize(loss, global_step=step)
    ...     return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train)
    >>> estimator = tf.estimator.Estimator(model)
    >>> data = lambda: tf.data.Dataset.from_tensors(([0.0], [3.0])).repeat()
    >>> estimator = estimator.train(data, steps=5)
    >>> estimator.evaluate(data, steps=1)["global_step"], estimator.get_variable_value("guess").item()
    (np.int64(5), 3.0)
    """

    def __init__(
        self,
        model_fn: Callable[..., Any],
        model_dir: Any = None,
        config: RunConfig | None = None,
        params: Any = None,
        warm_start_from: Any = None,
    ) -> None:
        if warm_start_from is not None:
            raise NotImplementedError("warm_start_from is not supported: restore variables with a Scaffold's init_fn")
        self._model_fn = model_fn
        chosen = config or RunConfig()
        if model_dir and chosen.model_dir and os.fspath(model_dir) != os.fspath(chosen.model_dir):
            raise ValueError(
                "model_dir are set both in constructor and RunConfig, but with different values: "
                f"'{model_dir}' and '{chosen.model_dir}'"
            )
        self._folder = os.fspath(model_dir or chosen.model_dir or tempfile.mkdtemp())
        self._config = chosen.replace(model_dir=self._folder)
        self._params = {} if params is None else copy.deepcopy(params)

    @property
    def model_dir(self) -> str:
        """The folder of checkpoints."""
        return self._folder

    @property
    def config(self) -> RunConfig:
        """How it runs."""
        return self._config

    @property
    def params(self) -> Any:
        """What the model function is given."""
        return copy.deepcopy(self._params)

    @property
    def model_fn(self) -> Callable[..., Any]:
        """The model function, of features, labels, mode and config."""
        return lambda features, labels, mode, config: self._call_model(features, labels, mode)

    def latest_checkpoint(self) -> str | None:
        """The prefix of the latest checkpoint; None if there is none."""
        return latest_checkpoint(self._folder)

    def get_variable_names(self) -> list[str]:
        """The names of the variables of the latest checkpoint; `ValueError` if there is none."""
        return [name for name, _ in list_variables(self._trained())]

    def get_variable_value(self, name: str) -> Any:
        """The value of a variable in the latest checkpoint; `ValueError` if there is none."""
        return load_checkpoint(self._trained()).get_tensor(name)

    def eval_dir(self, name: str | None = None) -> str:
        """The folder of the summaries of evaluations."""
        return os.path.join(self._folder, "eval" if not name else f"eval_{name}")

    def _trained(self) -> str:
        found = self.latest_checkpoint()
        if found is None:
            raise ValueError("Estimator has not been fitted yet.")
        return found

    # -- training ----------------------------------------------------------------------------------------------------

    def train(
        self,
        input_fn: Callable[..., Any],
        hooks: Sequence[SessionRunHook] | None = None,
        steps: int | None = None,
        max_steps: int | None = None,
        saving_listeners: Sequence[Any] | None = None,
    ) -> Estimator:
        """Trains the model from where the latest checkpoint is.

        Args:
            input_fn: makes a dataset of features and labels, or these themselves.
            hooks: `SessionRunHook`s.
            steps: how many steps; until the data end by default. Or
            max_steps: the step at which to end, wherever it began.
            saving_listeners: `CheckpointSaverListener`s.

        Returns:
            Itself.

        Raises:
            ValueError: if both numbers are given, or one is not positive.
        """
        if steps is not None and max_steps is not None:
            raise ValueError("Can not provide both steps and max_steps.")
        for name, value in (("steps", steps), ("max_steps", max_steps)):
            if value is not None and value <= 0:
                raise ValueError(f"Must specify {name} > 0, given: {value}")
        if max_steps is not None and self._step_reached() >= max_steps:
            logging.info("Skipping training since max_steps has already saved.")
            return self
        own = list(hooks or ())
        if steps is not None or max_steps is not None:
            own.append(StopAtStepHook(steps, max_steps))
        self._train(input_fn, own, list(saving_listeners or ()))
        return self

    def _step_reached(self) -> int:
        found = self.latest_checkpoint()
        return 0 if found is None else int(load_checkpoint(found).get_tensor(GraphKeys.GLOBAL_STEP))

    def _train(self, input_fn: Callable[..., Any], hooks: list[SessionRunHook], listeners: list[Any]) -> None:
        config, loss = self._config, None
        with Graph().as_default():
            set_random_seed(config.tf_random_seed)
            step = create_global_step()
            features, labels, own = self._inputs(input_fn, ModeKeys.TRAIN)
            spec = self._call_model(features, labels, ModeKeys.TRAIN)
            get_default_graph().add_to_collection(GraphKeys.LOSSES, spec.loss)
            if not any(each.name == "loss:0" for each in get_default_graph().get_collection(GraphKeys.SUMMARIES)):
                scalar("loss", spec.loss)
            shown = {"loss": spec.loss, "step": step.value()}
            hooks = [*own, *hooks, NanTensorHook(spec.loss)]
            if config.log_step_count_steps:
                hooks.append(LoggingTensorHook(shown, every_n_iter=config.log_step_count_steps))
            hooks += spec.training_hooks
            scaffold = self._scaffold(spec)
            chief = list(spec.training_chief_hooks)
            if not any(isinstance(each, CheckpointSaverHook) for each in [*hooks, *chief]):
                secs, steps = config.save_checkpoints_secs, config.save_checkpoints_steps
                if secs or steps:
                    chief.append(CheckpointSaverHook(self._folder, secs, steps, scaffold=scaffold, listeners=listeners))
            with MonitoredTrainingSession(
                checkpoint_dir=self._folder,
                scaffold=scaffold,
                hooks=hooks,
                chief_only_hooks=chief,
                save_checkpoint_secs=0,
                save_summaries_steps=config.save_summary_steps,
                config=config.session_config,
                log_step_count_steps=config.log_step_count_steps,
            ) as session:
                while not session.should_stop():
                    _, loss = session.run([spec.train_op, spec.loss])
        logging.info("Loss for final step: %s.", loss)

    def _scaffold(self, spec: EstimatorSpec) -> Scaffold:
        scaffold = spec.scaffold or Scaffold()
        if scaffold.saver is None and not get_default_graph().get_collection(GraphKeys.SAVERS):
            scaffold.saver = Saver(
                max_to_keep=self._config.keep_checkpoint_max,
                keep_checkpoint_every_n_hours=self._config.keep_checkpoint_every_n_hours,
                defer_build=True,
                save_relative_paths=True,
                allow_empty=True,
            )
            get_default_graph().add_to_collection(GraphKeys.SAVERS, scaffold.saver)
        return scaffold

    # -- evaluating --------------------------------------------------------------------------------------------------

    def evaluate(
        self,
        input_fn: Callable[..., Any],
        steps: int | None = None,
        hooks: Sequence[SessionRunHook] | None = None,
        checkpoint_path: Any = None,
        name: str | None = None,
    ) -> dict[str, Any]:
        """The metrics of the model on data, with its mean loss and the step of the checkpoint.

        Args:
            input_fn: makes a dataset of features and labels, or these themselves.
            steps: how many batches; until the data end by default.
            hooks: `SessionRunHook`s.
            checkpoint_path: the prefix of the checkpoint; the latest by default.
            name: of the evaluation, if there are several.
        """
        if steps is not None and steps <= 0:
            raise ValueError(f"Must specify steps > 0, given: {steps}")
        prefix = checkpoint_path or self.latest_checkpoint()
        if prefix is None:
            logging.info("Could not find trained model in model_dir: %s, running initialization.", self._folder)
        with Graph().as_default():
            set_random_seed(self._config.tf_random_seed)
            step = create_global_step()
            features, labels, own = self._inputs(input_fn, ModeKeys.EVAL)
            spec = self._call_model(features, labels, ModeKeys.EVAL)
            metrics = dict(spec.eval_metric_ops)
            if "loss" not in metrics:
                metrics["loss"] = mean(spec.loss, name="mean_loss")
            update = group(*(each for _, each in metrics.values()))
            values = {key: value for key, (value, _) in metrics.items()}
            if GraphKeys.GLOBAL_STEP not in values:
                values[GraphKeys.GLOBAL_STEP] = step
            final = FinalOpsHook(values)
            counted = [] if steps is None else [_StopAfterRuns(steps)]
            all_hooks = [*own, *(hooks or ()), *spec.evaluation_hooks, *counted, final]
            creator = ChiefSessionCreator(self._scaffold(spec), checkpoint_filename_with_path=prefix)
            with MonitoredSession(creator, all_hooks) as session:
                while not session.should_stop():
                    session.run(update)
        found = {key: final.final_ops_values[key] for key in sorted(final.final_ops_values)}
        self._write_evaluation(name, found)
        return found

    def _write_evaluation(self, name: str | None, found: Mapping[str, Any]) -> None:
        writer = writer_for(self.eval_dir(name))
        if writer is None:
            return
        from unspool.tf1.summary import Summary

        numbers = {key: float(value) for key, value in found.items() if getattr(value, "ndim", 0) == 0}
        step = int(numbers.pop(GraphKeys.GLOBAL_STEP, 0))
        writer.add_summary(Summary(value=[Summary.Value(tag=k, simple_value=v) for k, v in numbers.items()]), step)
        writer.flush()

    # -- predicting --------------------------------------------------------------------------------------------------

    def predict(
        self,
        input_fn: Callable[..., Any],
        predict_keys: Any = None,
        hooks: Sequence[SessionRunHook] | None = None,
        checkpoint_path: Any = None,
        yield_single_examples: bool = True,
    ) -> Generator[Any, None, None]:
        """The predictions of the model, one by one.

        Args:
            input_fn: makes a dataset of features, or these themselves; labels are left out.
            predict_keys: the names of the predictions that are wanted; all by default.
            hooks: `SessionRunHook`s.
            checkpoint_path: the prefix of the checkpoint; the latest by default.
            yield_single_examples: whether rows come one by one; else batches do.
        """
        prefix = checkpoint_path or self.latest_checkpoint()
        if prefix is None:
            logging.info("Could not find trained model in model_dir: %s, running initialization.", self._folder)
        with Graph().as_default():
            set_random_seed(self._config.tf_random_seed)
            create_global_step()
            features, _, own = self._inputs(input_fn, ModeKeys.PREDICT)
            spec = self._call_model(features, None, ModeKeys.PREDICT)
            predictions = _chosen(spec.predictions, predict_keys)
            all_hooks = [*own, *(hooks or ()), *spec.prediction_hooks]
            creator = ChiefSessionCreator(self._scaffold(spec), checkpoint_filename_with_path=prefix)
            session = MonitoredSession(creator, all_hooks)
        with session:
            while not session.should_stop():
                values = session.run(predictions)
                if not yield_single_examples:
                    yield values
                    continue
                for place in range(_rows(values)):
                    yield map_structure(lambda each, row=place: each[row], values)

    def export_savedmodel(
        self,
        export_dir_base: str | os.PathLike[str],
        serving_input_receiver_fn: Callable[[], Any],
        assets_extra: Any = None,
        as_text: bool = False,
        checkpoint_path: Any = None,
        **unused: Any,
    ) -> bytes:
        """Writes the model for prediction as a saved model; see `tf.saved_model.Builder`.

        Args:
            export_dir_base: the folder in which a new one is made, named after the time.
            serving_input_receiver_fn: makes placeholders, as a `tf.estimator.export.ServingInputReceiver`.
            assets_extra, as_text, unused: not read.
            checkpoint_path: the prefix of the checkpoint; the latest by default.

        Returns:
            The path of the new folder.

        Raises:
            ValueError: if there is no checkpoint.
        """
        prefix = checkpoint_path or self.latest_checkpoint()
        if prefix is None:
            raise ValueError(f"Couldn't find trained model at {self._folder}.")
        with Graph().as_default() as graph:
            signatures, saver = self.served(serving_input_receiver_fn)
            with Session(graph=graph) as session:
                saver.restore(session, prefix)
                return os.fsencode(export.exported(session, export_dir_base, signatures, saver))

    def served(self, serving_input_receiver_fn: Callable[[], Any]) -> tuple[dict[str, Any], Saver]:
        """Builds the model for prediction in the default graph: its signatures, and what restores its variables."""
        set_random_seed(self._config.tf_random_seed)
        create_global_step()
        receiver = serving_input_receiver_fn()
        spec = self._call_model(receiver.features, None, ModeKeys.PREDICT)
        return export.signatures_of(spec, receiver), Saver(allow_empty=True)

    export_saved_model = export_savedmodel

    # -- the functions that it was given -----------------------------------------------------------------------------

    def _inputs(self, input_fn: Callable[..., Any], mode: str) -> tuple[Any, Any, list[SessionRunHook]]:
        """Features, labels, and what has to run for them."""
        takes = _parameters(input_fn)
        given = {"mode": mode, "params": self.params, "config": self._config}
        made = input_fn(**{name: value for name, value in given.items() if name in takes})
        hooks: list[SessionRunHook] = []
        if isinstance(made, Dataset):
            iterator = made.make_initializable_iterator()
            hooks.append(_Initialize(iterator.initializer))
            made = iterator.get_next()
        if isinstance(made, list | tuple):
            parts = list(made)  # pyright: ignore[reportUnknownArgumentType]
            if len(parts) != 2:
                raise ValueError(f"input_fn should return (features, labels) as a len 2 tuple, but has {len(parts)}")
            return parts[0], parts[1], hooks
        return made, None, hooks

    def _call_model(self, features: Any, labels: Any, mode: str) -> EstimatorSpec:
        takes = _parameters(self._model_fn)
        given: dict[str, Any] = {}
        if "labels" in takes:
            given["labels"] = labels
        elif labels is not None:
            raise ValueError("model_fn does not take labels, but input_fn returns labels.")
        more = {"mode": mode, "params": self.params, "config": self._config}
        given |= {name: value for name, value in more.items() if name in takes}
        made = self._model_fn(features=features, **given)
        if not isinstance(made, EstimatorSpec):
            raise ValueError("model_fn should return an EstimatorSpec.")
        return made


class _Initialize(SessionRunHook):
    """Begins to read a dataset."""

    def __init__(self, initializer: Any) -> None:
        self._initializer = initializer

    def after_create_session(self, session: Any, coord: Any) -> None:
        session.run(self._initializer)


class _StopAfterRuns(SessionRunHook):
    """Stops after so many runs."""

    def __init__(self, runs: int) -> None:
        self._left = runs

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        self._left -= 1
        if self._left <= 0:
            run_context.request_stop()


def _parameters(function: Callable[..., Any]) -> set[str]:
    return set(inspect.signature(function).parameters)


def _chosen(predictions: Any, keys: Any) -> Any:
    if not keys:
        return predictions
    if not isinstance(predictions, Mapping):
        raise ValueError("predict_keys argument is not valid in case of non-dict predictions.")
    wanted = {keys} if isinstance(keys, str) else set(keys)
    found = {name: value for name, value in predictions.items() if name in wanted}  # pyright: ignore[reportUnknownVariableType]
    if not found:
        raise ValueError(f"Expected to run at least one output from {sorted(predictions)}, provided {sorted(wanted)}.")  # pyright: ignore[reportUnknownArgumentType]
    return found


def _rows(values: Any) -> int:
    counts = {len(each) for each in flatten(values)}
    if len(counts) != 1:
        raise ValueError(f"Batch length of predictions should be same, but there are {sorted(counts)} rows")
    return counts.pop()
