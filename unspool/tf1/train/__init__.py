"""`tf.train`: optimisers, learning rates that fall, step counters, moving averages and checkpoints."""

from __future__ import annotations

from typing import Any

from unspool.tf1.namespace import missing
from unspool.tf1.queues.batches import batch, shuffle_batch
from unspool.tf1.queues.coordinator import Coordinator, LooperThread
from unspool.tf1.queues.producers import (
    input_producer,
    limit_epochs,
    range_input_producer,
    slice_input_producer,
    string_input_producer,
)
from unspool.tf1.queues.runners import QueueRunner, add_queue_runner, start_queue_runners
from unspool.tf1.records.messages import (
    BytesList,
    Example,
    Feature,
    FeatureList,
    FeatureLists,
    Features,
    FloatList,
    Int64List,
    SequenceExample,
)
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
from unspool.tf1.train.devices import replica_device_setter
from unspool.tf1.train.meta_graph import export_meta_graph, import_meta_graph
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
from unspool.tf1.train.sessions.manager import Scaffold, SessionManager
from unspool.tf1.train.sessions.monitored import (
    ChiefSessionCreator,
    MonitoredSession,
    MonitoredTrainingSession,
    SessionCreator,
    SingularMonitoredSession,
    WorkerSessionCreator,
)
from unspool.tf1.train.sessions.supervisor import Supervisor
from unspool.tf1.train.sessions.writing_hooks import (
    CheckpointSaverHook,
    LoggingTensorHook,
    StepCounterHook,
    SummarySaverHook,
)
from unspool.tf1.train.step import create_global_step, get_global_step, get_or_create_global_step, global_step

__all__ = [
    "AdadeltaOptimizer",
    "AdagradOptimizer",
    "AdamOptimizer",
    "BytesList",
    "CheckpointReader",
    "CheckpointSaverHook",
    "CheckpointSaverListener",
    "CheckpointState",
    "ChiefSessionCreator",
    "Coordinator",
    "Example",
    "ExponentialMovingAverage",
    "Feature",
    "FeatureList",
    "FeatureLists",
    "Features",
    "FeedFnHook",
    "FinalOpsHook",
    "FloatList",
    "FtrlOptimizer",
    "GlobalStepWaiterHook",
    "GradientDescentOptimizer",
    "Int64List",
    "LoggingTensorHook",
    "LooperThread",
    "MomentumOptimizer",
    "MonitoredSession",
    "MonitoredTrainingSession",
    "NanLossDuringTrainingError",
    "NanTensorHook",
    "NewCheckpointReader",
    "Optimizer",
    "QueueRunner",
    "RMSPropOptimizer",
    "Saver",
    "Scaffold",
    "SecondOrStepTimer",
    "SequenceExample",
    "SessionCreator",
    "SessionManager",
    "SessionRunArgs",
    "SessionRunContext",
    "SessionRunHook",
    "SessionRunValues",
    "SingularMonitoredSession",
    "StepCounterHook",
    "StopAtStepHook",
    "SummarySaverHook",
    "Supervisor",
    "WorkerSessionCreator",
    "add_queue_runner",
    "batch",
    "checkpoint_exists",
    "cosine_decay",
    "create_global_step",
    "exponential_decay",
    "export_meta_graph",
    "get_checkpoint_state",
    "get_global_step",
    "get_or_create_global_step",
    "global_step",
    "import_meta_graph",
    "input_producer",
    "inverse_time_decay",
    "latest_checkpoint",
    "limit_epochs",
    "list_variables",
    "load_checkpoint",
    "load_variable",
    "natural_exp_decay",
    "piecewise_constant",
    "polynomial_decay",
    "range_input_producer",
    "remove_checkpoint",
    "replica_device_setter",
    "shuffle_batch",
    "slice_input_producer",
    "start_queue_runners",
    "string_input_producer",
    "update_checkpoint_state",
]

LATER = ("write_graph",)


def __getattr__(name: str) -> Any:
    if name in LATER:
        from unspool.tf1.graph_def import write_graph

        return write_graph
    raise missing("tf.train", name, globals())
