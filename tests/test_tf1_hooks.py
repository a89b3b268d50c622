"""What monitored sessions and supervisors write and log; when they are called is compared with TensorFlow elsewhere."""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import Any

import pytest

import unspool.tf1 as tf


def model() -> tuple[Any, Any]:
    x = tf.get_variable("x", [], initializer=tf.constant_initializer(5.0))
    loss = tf.square(x, name="loss")
    step = tf.train.get_or_create_global_step()
    return loss, tf.train.GradientDescentOptimizer(0.1).minimize(loss, global_step=step)


def train(hooks: list[Any], steps: int, **options: Any) -> None:
    _, step = model()
    hooks = [*hooks, tf.train.StopAtStepHook(num_steps=steps)]
    with tf.train.MonitoredTrainingSession(hooks=hooks, **options) as session:
        while not session.should_stop():
            session.run(step)


def summaries(folder: Path) -> dict[str, list[int]]:
    """The steps of what was written, by name."""
    loader = pytest.importorskip("tensorboard.backend.event_processing.event_file_loader")
    found: dict[str, list[int]] = {}
    for path in sorted(folder.glob("events*")):
        for event in loader.LegacyEventFileLoader(str(path)).Load():
            for value in event.summary.value:
                found.setdefault(value.tag, []).append(event.step)
    return found


class Messages(logging.Handler):
    """Keeps what is logged, without times."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.found.append(record.getMessage().split(" (")[0])


def test_tensors_are_logged_every_so_often(monkeypatch: pytest.MonkeyPatch):
    logger, messages = logging.getLogger("tensorflow"), Messages()
    monkeypatch.setattr(logger, "handlers", [messages])
    monkeypatch.setattr(logger, "level", logging.INFO)
    logger.manager._clear_cache()
    plain = tf.train.LoggingTensorHook(["loss:0"], every_n_iter=2, at_end=True)
    own = tf.train.LoggingTensorHook({"it": "loss:0"}, every_n_iter=3, formatter=lambda values: f"{values['it']:.1f}")
    train([plain, own], 4)
    logger.manager._clear_cache()
    assert messages.found == ["loss:0 = 25.0", "25.0", "loss:0 = 10.240001", "6.6", "loss:0 = 4.1943035"]


def test_summaries_are_written_with_their_steps(tmp_path: Path):
    loss, step = model()
    tf.summary.scalar("value", loss)
    hooks = [tf.train.StopAtStepHook(last_step=7)]
    with tf.train.MonitoredTrainingSession(
        checkpoint_dir=str(tmp_path), hooks=hooks, save_summaries_steps=3, log_step_count_steps=2
    ) as session:
        while not session.should_stop():
            session.run(step)
    found = summaries(tmp_path)
    assert found["value"] == [1, 4, 7]
    assert found["global_step/sec"] == [3, 5, 7]


def test_a_training_without_tensorboard_has_checkpoints_and_no_summaries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    from unspool.tf1 import summary

    def nothing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(summary, "_imported", nothing)
    train([], 3, checkpoint_dir=str(tmp_path))
    names = [each.name for each in tmp_path.iterdir()]
    assert sorted(each for each in names if each.endswith(".index")) == ["model.ckpt-0.index", "model.ckpt-3.index"]
    assert not [each for each in names if each.startswith("events")]


def test_a_loss_that_is_no_number_may_just_stop():
    x = tf.placeholder_with_default(float("nan"), [])
    with tf.train.MonitoredSession(hooks=[tf.train.NanTensorHook(x, fail_on_nan_loss=False)]) as session:
        session.run(x)
        assert session.should_stop()


def test_an_error_in_a_hook_closes_the_session_and_calls_no_end():
    ended: list[str] = []

    class Failing(tf.train.SessionRunHook):
        def after_run(self, run_context: Any, run_values: Any) -> None:
            raise KeyError("lost")

        def end(self, session: Any) -> None:
            ended.append("end")

    _, step = model()
    session = tf.train.MonitoredSession(hooks=[Failing()])
    with pytest.raises(KeyError, match="lost"), session:
        session.run(step)
    assert ended == []
    assert session.should_stop()
    with pytest.raises(RuntimeError, match="closed"):
        session.run(step)


def test_an_error_of_a_queue_runner_reaches_the_program():
    queue = tf.FIFOQueue(2, tf.float32, shapes=[[]])
    wrong = tf.py_func(lambda: {}["lost"], [], tf.float32)
    wrong.set_shape([])
    tf.train.add_queue_runner(tf.train.QueueRunner(queue, [queue.enqueue(wrong)]))
    number = queue.dequeue()
    tf.train.get_or_create_global_step()
    with pytest.raises(tf.errors.UnknownError, match="KeyError: 'lost'"), tf.train.MonitoredSession() as session:
        session.run(number)


def test_a_supervisor_saves_and_summarizes_in_threads(tmp_path: Path):
    loss, step = model()
    tf.summary.scalar("value", loss)
    supervisor = tf.train.Supervisor(logdir=str(tmp_path), save_model_secs=0.02, save_summaries_secs=0.02)
    with supervisor.managed_session() as session:
        until = time.monotonic() + 30
        while time.monotonic() < until and tf.train.latest_checkpoint(str(tmp_path)) is None:
            session.run(step)
            supervisor.coord.wait_for_stop(0.01)
        last = int(session.run(supervisor.global_step))
        supervisor.summary_computed(session, session.run(supervisor.summary_op))
    assert tf.train.latest_checkpoint(str(tmp_path)) is not None
    assert last in summaries(tmp_path)["value"]
    assert supervisor.should_stop()


def test_an_error_in_a_supervisors_thread_ends_the_program():
    model()
    supervisor = tf.train.Supervisor()

    def fail() -> None:
        raise KeyError("lost")

    def run() -> None:
        with supervisor.managed_session():
            supervisor.loop(None, fail)
            assert supervisor.coord.wait_for_stop(30)

    with pytest.raises(KeyError, match="lost"):
        run()


def test_a_supervisor_begins_with_its_own_function_where_there_is_no_checkpoint(tmp_path: Path):
    model()
    (x,) = tf.trainable_variables()
    assign = x.assign(7.0)
    supervisor = tf.train.Supervisor(
        logdir=str(tmp_path), init_fn=lambda session: session.run(assign), save_model_secs=0, save_summaries_secs=0
    )
    with supervisor.managed_session() as session:
        assert session.run(x) == 7.0
