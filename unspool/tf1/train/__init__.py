"""`tf.train`: optimisers, learning rates that fall, step counters, moving averages and checkpoints."""

from __future__ import annotations

from typing import Any

from unspool.tf1.namespace import missing
from unspool.tf1.train.adaptive import (
    AdadeltaOptimizer,
    AdagradOptimizer,
    AdamOptimizer,
    FtrlOptimizer,
    RMSPropOptimizer,
)
from unspool.tf1.train.checkpoint_state import (
    CheckpointState,
    checkpoint_exists,
    get_checkpoint_state,
    latest_checkpoint,
    remove_checkpoint,
    update_checkpoint_state,
)
from unspool.tf1.train.decays import (
    cosine_decay,
    exponential_decay,
    inverse_time_decay,
    natural_exp_decay,
    piecewise_constant,
    polynomial_decay,
)
from unspool.tf1.train.descent import GradientDescentOptimizer, MomentumOptimizer
from unspool.tf1.train.moving_average import ExponentialMovingAverage
from unspool.tf1.train.optimizer import Optimizer
from unspool.tf1.train.reader import (
    CheckpointReader,
    NewCheckpointReader,
    list_variables,
    load_checkpoint,
    load_variable,
)
from unspool.tf1.train.saver import Saver
from unspool.tf1.train.step import create_global_step, get_global_step, get_or_create_global_step, global_step

__all__ = [
    "AdadeltaOptimizer",
    "AdagradOptimizer",
    "AdamOptimizer",
    "CheckpointReader",
    "CheckpointState",
    "ExponentialMovingAverage",
    "FtrlOptimizer",
    "GradientDescentOptimizer",
    "MomentumOptimizer",
    "NewCheckpointReader",
    "Optimizer",
    "RMSPropOptimizer",
    "Saver",
    "checkpoint_exists",
    "cosine_decay",
    "create_global_step",
    "exponential_decay",
    "get_checkpoint_state",
    "get_global_step",
    "get_or_create_global_step",
    "global_step",
    "inverse_time_decay",
    "latest_checkpoint",
    "list_variables",
    "load_checkpoint",
    "load_variable",
    "natural_exp_decay",
    "piecewise_constant",
    "polynomial_decay",
    "remove_checkpoint",
    "update_checkpoint_state",
]


def __getattr__(name: str) -> Any:
    raise missing("tf.train", name, globals())
