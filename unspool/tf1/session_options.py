"""Options of a session, which are accepted and have no effect: torch has its own."""

from __future__ import annotations

from typing import Any


class Options:
    """Fields with TensorFlow's first values, a class where a field has fields of its own; others are accepted too."""

    FIELDS: dict[str, Any]

    def __init__(self, **options: Any) -> None:
        for name, first in self.FIELDS.items():
            setattr(self, name, first() if isinstance(first, type) else first)
        self.__dict__.update(options)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"{type(self).__name__} has no field {name!r}")


class GPUOptions(Options):
    """TensorFlow's options for GPUs: any are accepted, and none has an effect."""

    FIELDS = dict(
        per_process_gpu_memory_fraction=0.0,
        allow_growth=False,
        allocator_type="",
        deferred_deletion_bytes=0,
        visible_device_list="",
        polling_active_delay_usecs=0,
        polling_inactive_delay_msecs=0,
        force_gpu_compatible=False,
    )


class OptimizerOptions(Options):
    """TensorFlow's options for how a graph is optimised: any are accepted, and none has an effect."""

    L0, L1 = -1, 0
    DEFAULT, OFF, ON_1, ON_2 = 0, -1, 1, 2
    FIELDS = dict(
        do_common_subexpression_elimination=False,
        do_constant_folding=False,
        max_folded_constant_in_bytes=0,
        do_function_inlining=False,
        opt_level=0,
        global_jit_level=0,
    )


class RewriterConfig(Options):
    """TensorFlow's options for how a graph is rewritten: any are accepted, and none has an effect."""

    FIELDS = {}


class GraphOptions(Options):
    """TensorFlow's options for graphs: any are accepted, and none has an effect."""

    FIELDS = dict(
        enable_recv_scheduling=False,
        optimizer_options=OptimizerOptions,
        build_cost_model=0,
        build_cost_model_after=0,
        infer_shapes=False,
        place_pruned_graph=False,
        enable_bfloat16_sendrecv=False,
        timeline_step=0,
        rewrite_options=RewriterConfig,
    )


class RunOptions(Options):
    """TensorFlow's options for a run, such as tracing: any are accepted, and none has an effect."""

    NO_TRACE, SOFTWARE_TRACE, HARDWARE_TRACE, FULL_TRACE = 0, 1, 2, 3
    FIELDS = dict(
        trace_level=0,
        timeout_in_ms=0,
        inter_op_thread_pool=0,
        output_partition_graphs=False,
        report_tensor_allocations_upon_oom=False,
    )


class StepStats(Options):
    """What TensorFlow measures of a run, by device: nothing."""

    FIELDS = dict(dev_stats=list)


class RunMetadata(Options):
    """Where TensorFlow puts what it traced of a run: it stays empty. `torch.profiler` traces what runs here.

    >>> from unspool import tf1 as tf
    >>> tf.RunMetadata().step_stats.dev_stats
    []
    """

    FIELDS = dict(step_stats=StepStats, partition_graphs=list)


class ConfigProto(Options):
    """TensorFlow's options for a session: any are accepted, and none has an effect.

    >>> from unspool import tf1 as tf
    >>> config = tf.ConfigProto(allow_soft_placement=True)
    >>> config.gpu_options.allow_growth = True
    >>> tf.Session(config=config).run(tf.constant(1)), config.log_device_placement
    (np.int32(1), False)
    """

    FIELDS = dict(
        device_count=dict,
        intra_op_parallelism_threads=0,
        inter_op_parallelism_threads=0,
        use_per_session_threads=False,
        placement_period=0,
        device_filters=list,
        gpu_options=GPUOptions,
        allow_soft_placement=False,
        log_device_placement=False,
        graph_options=GraphOptions,
        operation_timeout_in_ms=0,
        isolate_session_state=False,
    )
