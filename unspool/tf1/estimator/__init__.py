"""`tf.estimator`: models as functions, which are trained, evaluated and run by the estimator around them."""

from __future__ import annotations

from typing import Any

from unspool.tf1.estimator import early_stopping as experimental
from unspool.tf1.estimator import export, inputs
from unspool.tf1.estimator.estimator import Estimator
from unspool.tf1.estimator.run_config import RunConfig
from unspool.tf1.estimator.spec import EstimatorSpec, ModeKeys
from unspool.tf1.estimator.training import EvalSpec, TrainSpec, train_and_evaluate
from unspool.tf1.namespace import missing
from unspool.tf1.train.sessions.basic_hooks import (
    FeedFnHook,
    FinalOpsHook,
    GlobalStepWaiterHook,
    NanLossDuringTrainingError,
    NanTensorHook,
    SecondOrStepTimer,
    StopAtStepHook,
)
from unspool.tf1.train.sessions.hooks import (
    CheckpointSaverListener,
    SessionRunArgs,
    SessionRunContext,
    SessionRunHook,
    SessionRunValues,
)
from unspool.tf1.train.sessions.writing_hooks import (
    CheckpointSaverHook,
    LoggingTensorHook,
    StepCounterHook,
    SummarySaverHook,
)

__all__ = [
    "CheckpointSaverHook",
    "CheckpointSaverListener",
    "Estimator",
    "EstimatorSpec",
    "EvalSpec",
    "FeedFnHook",
    "FinalOpsHook",
    "GlobalStepWaiterHook",
    "LoggingTensorHook",
    "ModeKeys",
    "NanLossDuringTrainingError",
    "NanTensorHook",
    "RunConfig",
    "SecondOrStepTimer",
    "SessionRunArgs",
    "SessionRunContext",
    "SessionRunHook",
    "SessionRunValues",
    "StepCounterHook",
    "StopAtStepHook",
    "SummarySaverHook",
    "TrainSpec",
    "experimental",
    "export",
    "inputs",
    "train_and_evaluate",
]


def __getattr__(name: str) -> Any:
    raise missing("tf.estimator", name, globals())
