"""What a `model_fn` returns, and in which modes it is called."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from unspool.tf1.operations import as_tensor
from unspool.tf1.ops.array import reshape
from unspool.tf1.tensor import Tensor


class ModeKeys:
    """What a model is built for."""

    TRAIN = "train"
    EVAL = "eval"
    PREDICT = "infer"


class _Fields(NamedTuple):
    mode: Any
    predictions: Any
    loss: Any
    train_op: Any
    eval_metric_ops: Any
    export_outputs: Any
    training_chief_hooks: Any
    training_hooks: Any
    scaffold: Any
    evaluation_hooks: Any
    prediction_hooks: Any


class EstimatorSpec(_Fields):
    """What a model is: its predictions, its loss, how it trains and how it is measured.

    Args:
        mode: one of `ModeKeys`.
        predictions: a tensor, or a dict of them; needed to predict.
        loss: a scalar; needed to train and evaluate.
        train_op: one training step; needed to train.
        eval_metric_ops: a dict of pairs as `tf.metrics` returns them.
        export_outputs: what a served model returns, by name; `tf.estimator.export.PredictOutput`s.
        training_chief_hooks, training_hooks, evaluation_hooks, prediction_hooks: `SessionRunHook`s.
        scaffold: a `tf.train.Scaffold`.

    Raises:
        ValueError: if something is missing, or the loss is no scalar.
        TypeError: if something is not what it should be.
    """

    __slots__ = ()

    def __new__(
        cls,
        mode: str,
        predictions: Any = None,
        loss: Any = None,
        train_op: Any = None,
        eval_metric_ops: Any = None,
        export_outputs: Any = None,
        training_chief_hooks: Any = None,
        training_hooks: Any = None,
        scaffold: Any = None,
        evaluation_hooks: Any = None,
        prediction_hooks: Any = None,
    ) -> EstimatorSpec:
        """Checks what is given."""
        if mode == ModeKeys.TRAIN and train_op is None:
            raise ValueError("Missing train_op.")
        if mode in (ModeKeys.TRAIN, ModeKeys.EVAL) and loss is None:
            raise ValueError("Missing loss.")
        if mode == ModeKeys.PREDICT and predictions is None:
            raise ValueError("Missing predictions.")
        return super().__new__(
            cls,
            mode,
            {} if predictions is None else predictions,
            None if loss is None else _scalar(loss),
            train_op,
            _checked_metrics(eval_metric_ops),
            export_outputs,
            tuple(training_chief_hooks or ()),
            tuple(training_hooks or ()),
            scaffold,
            tuple(evaluation_hooks or ()),
            tuple(prediction_hooks or ()),
        )


def _scalar(loss: Any) -> Tensor:
    given = as_tensor(loss)
    if given.shape.num_elements() not in (None, 1):
        raise ValueError(f"Loss must be scalar, given: {given!r}")
    return given if given.dims == () else reshape(given, [])


def _checked_metrics(metrics: Any) -> dict[str, Any]:
    if metrics is None:
        return {}
    if not isinstance(metrics, Mapping):
        raise TypeError(f"eval_metric_ops must be a dict, given: {metrics!r}")
    for name, each in metrics.items():  # pyright: ignore[reportUnknownVariableType]
        if not isinstance(each, tuple) or len(each) != 2:  # pyright: ignore[reportUnknownArgumentType]
            raise TypeError(
                f"Values of eval_metric_ops must be (metric_value, update_op) tuples, given: {each!r} for key: {name}"
            )
    return dict(metrics)  # pyright: ignore[reportUnknownArgumentType]
