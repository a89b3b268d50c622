"""How an estimator runs: where it saves, and how often."""

from __future__ import annotations

import copy
from typing import Any

_USE_DEFAULT: Any = object()
_REPLACEABLE = (
    *("model_dir", "tf_random_seed", "save_summary_steps", "save_checkpoints_steps", "save_checkpoints_secs"),
    *("session_config", "keep_checkpoint_max", "keep_checkpoint_every_n_hours", "log_step_count_steps"),
    *("train_distribute", "device_fn", "protocol", "eval_distribute", "experimental_distribute"),
)


class RunConfig:
    """How an estimator runs.

    Args:
        model_dir: the folder of checkpoints and summaries.
        tf_random_seed: the seed of its graphs; 1 by default.
        save_summary_steps: every how many steps there are summaries.
        save_checkpoints_steps: every how many steps there is a checkpoint; or
        save_checkpoints_secs: every how many seconds, 600 by default.
        keep_checkpoint_max: how many checkpoints stay.
        keep_checkpoint_every_n_hours: one of so many hours stays anyway.
        log_step_count_steps: every how many steps the loss and the rate are logged.
        options: TensorFlow's others, which are accepted.

    Raises:
        ValueError: if checkpoints are to be saved by steps and by seconds.

    >>> RunConfig(save_checkpoints_steps=10).save_checkpoints_secs is None
    True
    """

    def __init__(
        self,
        model_dir: Any = None,
        tf_random_seed: int | None = 1,
        save_summary_steps: int | None = 100,
        save_checkpoints_steps: Any = _USE_DEFAULT,
        save_checkpoints_secs: Any = _USE_DEFAULT,
        session_config: Any = None,
        keep_checkpoint_max: int | None = 5,
        keep_checkpoint_every_n_hours: float = 10000,
        log_step_count_steps: int | None = 100,
        **options: Any,
    ) -> None:
        both = save_checkpoints_steps is not _USE_DEFAULT and save_checkpoints_secs is not _USE_DEFAULT
        if both and None not in (save_checkpoints_steps, save_checkpoints_secs):
            raise ValueError("`save_checkpoints_steps` and `save_checkpoints_secs` cannot be both set.")
        if save_checkpoints_steps is _USE_DEFAULT and save_checkpoints_secs is _USE_DEFAULT:
            save_checkpoints_steps, save_checkpoints_secs = None, 600
        self.model_dir, self.tf_random_seed = model_dir, tf_random_seed
        self.save_summary_steps = save_summary_steps
        self.save_checkpoints_steps = None if save_checkpoints_steps is _USE_DEFAULT else save_checkpoints_steps
        self.save_checkpoints_secs = None if save_checkpoints_secs is _USE_DEFAULT else save_checkpoints_secs
        self.session_config = session_config
        self.keep_checkpoint_max = keep_checkpoint_max
        self.keep_checkpoint_every_n_hours = keep_checkpoint_every_n_hours
        self.log_step_count_steps = log_step_count_steps
        self.is_chief, self.master, self.task_type, self.task_id = True, "", "worker", 0
        self.num_worker_replicas, self.num_ps_replicas, self.global_id_in_cluster = 1, 0, 0
        self.evaluation_master, self.cluster_spec = "", None
        unknown = sorted(set(options) - set(_REPLACEABLE))
        if unknown:
            raise TypeError(f"RunConfig has no {', '.join(unknown)}; it has {', '.join(_REPLACEABLE)}")
        self.__dict__.update(options)

    def replace(self, **kwargs: Any) -> RunConfig:
        """The same with other values; `ValueError` for a name that cannot be replaced."""
        for name in kwargs:
            if name not in _REPLACEABLE:
                raise ValueError(f"Replacing {name} is not supported. Allowed properties are {list(_REPLACEABLE)}.")
        if kwargs.get("save_checkpoints_steps") is not None and kwargs.get("save_checkpoints_secs") is not None:
            raise ValueError("`save_checkpoints_steps` and `save_checkpoints_secs` cannot be both set.")
        made = copy.copy(self)
        made.__dict__.update(kwargs)
        if kwargs.get("save_checkpoints_steps") is not None:
            made.save_checkpoints_secs = None
        elif kwargs.get("save_checkpoints_secs") is not None:
            made.save_checkpoints_steps = None
        return made
