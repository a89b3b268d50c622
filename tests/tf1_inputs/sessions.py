"""Supervisors, monitored sessions and their hooks."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np


def model(tf: Any, first: float = 5.0) -> tuple[Any, Any, Any]:
    """A loss, a training step and the counter of steps."""
    x = tf.get_variable("x", [], initializer=tf.constant_initializer(first))
    loss = x * x
    step = tf.train.get_or_create_global_step()
    return loss, tf.train.GradientDescentOptimizer(0.1).minimize(loss, global_step=step), step


def checkpoints(folder: Path) -> list[str]:
    return sorted(each.removesuffix(".index") for each in os.listdir(folder) if each.endswith(".index"))


def noting_hook(tf: Any, notes: list[Any], fetch: Any) -> Any:
    """A hook that notes when it is called, and with what."""

    class Noting(tf.train.SessionRunHook):
        def begin(self) -> None:
            notes.append("begin")

        def after_create_session(self, session: Any, coord: Any) -> None:
            notes.append(["created", float(session.run(fetch))])

        def before_run(self, run_context: Any) -> Any:
            notes.append(["before", run_context.original_args.feed_dict is None])
            return tf.train.SessionRunArgs({"it": fetch})

        def after_run(self, run_context: Any, run_values: Any) -> None:
            notes.append(["after", float(run_values.results["it"]), run_context.stop_requested])

        def end(self, session: Any) -> None:
            notes.append(["end", float(session.run(fetch))])

    return Noting()


def monitored(tf: Any, folder: Path) -> Any:
    loss, train, _ = model(tf)
    notes: list[Any] = []
    hooks = [noting_hook(tf, notes, loss), tf.train.StopAtStepHook(last_step=3)]
    with tf.train.MonitoredSession(hooks=hooks) as session:
        while not session.should_stop():
            notes.append(session.run([loss, train])[0])
    return [notes, session.should_stop()]


def resumed(tf: Any, folder: Path) -> Any:
    found = []
    for last in (5, 12):
        with tf.Graph().as_default():
            loss, train, _ = model(tf)
            with tf.train.MonitoredTrainingSession(
                checkpoint_dir=str(folder),
                hooks=[tf.train.StopAtStepHook(last_step=last), tf.train.NanTensorHook(loss)],
                save_checkpoint_steps=4,
                save_checkpoint_secs=None,
            ) as session:
                while not session.should_stop():
                    found.append(session.run([loss, train])[0])
            found.append(checkpoints(folder))
    return found


def steps_from_where_it_begins(tf: Any, folder: Path) -> Any:
    found = []
    for _ in range(2):
        with tf.Graph().as_default():
            _, train, step = model(tf)
            hooks = [tf.train.StopAtStepHook(num_steps=3), tf.train.CheckpointSaverHook(str(folder), save_steps=100)]
            creator = tf.train.ChiefSessionCreator(checkpoint_dir=str(folder))
            with tf.train.MonitoredSession(creator, hooks) as session:
                while not session.should_stop():
                    session.run(train)
                    found.append(None if session.should_stop() else session.run(step))
    return found


def singular(tf: Any, folder: Path) -> Any:
    loss, train, _ = model(tf)
    with tf.train.SingularMonitoredSession(checkpoint_dir=str(folder)) as session:
        session.run(train)
        return [session.run(loss), session.raw_session().run(loss)]


def scaffolded(tf: Any, folder: Path) -> Any:
    loss, _, _ = model(tf)
    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(["a"], [3]), -1)
    found = table.lookup(tf.constant(["a", "b"]))
    (x,) = tf.trainable_variables()
    doubled = x.assign(x * 2)
    scaffold = tf.train.Scaffold(init_fn=lambda scaffold, session: session.run(doubled))
    with tf.train.MonitoredTrainingSession(scaffold=scaffold) as session:
        return session.run([loss, found])


def of_a_dataset(tf: Any, folder: Path) -> Any:
    element = tf.data.make_one_shot_iterator(tf.data.Dataset.range(3)).get_next()
    tf.train.get_or_create_global_step()
    found = []
    with tf.train.MonitoredTrainingSession() as session:
        while not session.should_stop():
            found.append(session.run(element))
    return found


def of_queues(tf: Any, folder: Path) -> Any:
    number = tf.train.range_input_producer(3, num_epochs=1, shuffle=False).dequeue()
    tf.train.get_or_create_global_step()
    found = []
    with tf.train.MonitoredTrainingSession() as session:
        while not session.should_stop():
            found.append(session.run(number))
    return found


def fed_by_a_hook(tf: Any, folder: Path) -> Any:
    x = tf.placeholder(tf.float32, [])
    numbers, double = iter([1.0, 2.0, 3.0]), x * 2
    final = tf.train.FinalOpsHook(tf.constant(7))
    with tf.train.MonitoredSession(hooks=[tf.train.FeedFnHook(lambda: {x: next(numbers)}), final]) as session:
        found = [session.run(double), session.run(x)]
    return [found, final.final_ops_values]


def step_functions(tf: Any, folder: Path) -> Any:
    loss, train, step = model(tf)
    notes: list[Any] = []

    def one(step_context: Any) -> Any:
        before = step_context.session.run(step)
        return [before, step_context.run_with_hooks([loss, train])[0]]

    with tf.train.MonitoredSession(hooks=[noting_hook(tf, notes, loss)]) as session:
        return [session.run_step_fn(one), session.run_step_fn(one), len(notes)]


def supervised(tf: Any, folder: Path) -> Any:
    found = []
    for _ in range(2):
        with tf.Graph().as_default():
            loss, train, step = model(tf)
            supervisor = tf.train.Supervisor(logdir=str(folder), save_model_secs=0, save_summaries_secs=0)
            with supervisor.managed_session() as session:
                for _ in range(3):
                    if supervisor.should_stop():
                        break
                    found += [session.run([loss, train])[0], session.run(step)]
                supervisor.saver.save(session, supervisor.save_path, global_step=supervisor.global_step)
            found += [checkpoints(folder), supervisor.should_stop(), tf.get_default_graph().finalized]
    return found


def supervised_without_a_folder(tf: Any, folder: Path) -> Any:
    number = tf.train.range_input_producer(3, num_epochs=1, shuffle=False).dequeue()
    word = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(["a"], [3]), -1).lookup(tf.constant("a"))
    model(tf)
    supervisor, found = tf.train.Supervisor(logdir=None), []
    with supervisor.managed_session() as session:
        found.append(session.run(word))
        while not supervisor.should_stop():
            found.append(session.run(number))
    return found


def timer(tf: Any, folder: Path) -> Any:
    made = tf.train.SecondOrStepTimer(every_steps=3)
    found = []
    for step in range(8):
        due = made.should_trigger_for_step(step)
        found.append([due, due and made.update_last_triggered_step(step)[1], made.last_triggered_step()])
    return found


def listened(tf: Any, folder: Path) -> Any:
    notes: list[Any] = []

    class Listener(tf.train.CheckpointSaverListener):
        def before_save(self, session: Any, global_step_value: int) -> None:
            notes.append(["before", int(global_step_value)])

        def after_save(self, session: Any, global_step_value: int) -> bool:
            notes.append(["after", int(global_step_value), *checkpoints(folder)])
            return global_step_value >= 4

        def end(self, session: Any, global_step_value: int) -> None:
            notes.append(["end", int(global_step_value)])

    _, train, _ = model(tf)
    hook = tf.train.CheckpointSaverHook(str(folder), save_steps=2, listeners=[Listener()])
    with tf.train.MonitoredSession(hooks=[hook]) as session:
        while not session.should_stop():
            session.run(train)
    return notes


CASES = {
    each.__name__.replace("_", " "): each
    for each in (
        *(monitored, resumed, steps_from_where_it_begins, singular, scaffolded, of_a_dataset, of_queues),
        *(fed_by_a_hook, step_functions, supervised, supervised_without_a_folder, timer, listened),
    )
}


def _nan(tf: Any) -> None:
    x = tf.placeholder_with_default(np.float32(np.nan), [])
    with tf.train.MonitoredSession(hooks=[tf.train.NanTensorHook(x)]) as session:
        session.run(x)


def _after_the_stop(tf: Any) -> None:
    _, train, _ = model(tf)
    with tf.train.MonitoredSession(hooks=[tf.train.StopAtStepHook(last_step=1)]) as session:
        session.run(train)
        session.run(train)


def _fed_twice(tf: Any) -> None:
    x = tf.placeholder(tf.float32, [])
    with tf.train.MonitoredSession(hooks=[tf.train.FeedFnHook(lambda: {x: 1.0})]) as session:
        session.run(x, {x: 2.0})


def _added(tf: Any) -> None:
    model(tf)
    with tf.train.MonitoredSession():
        tf.constant(1)


def _own_error(tf: Any) -> None:
    model(tf)
    with tf.train.Supervisor().managed_session():
        raise KeyError("lost")


MISTAKES: dict[str, Callable[[Any], Any]] = {
    "both numbers of steps": lambda tf: tf.train.StopAtStepHook(num_steps=1, last_step=2),
    "no number of steps": lambda tf: tf.train.StopAtStepHook(),
    "no counter": lambda tf: tf.train.MonitoredSession(hooks=[tf.train.StopAtStepHook(last_step=2)]),
    "no counter to save": lambda tf: tf.train.MonitoredTrainingSession(checkpoint_dir="/tmp"),
    "both intervals": lambda tf: tf.train.SecondOrStepTimer(every_secs=1, every_steps=1),
    "no interval": lambda tf: tf.train.LoggingTensorHook({}),
    "no steps between logs": lambda tf: tf.train.LoggingTensorHook({}, every_n_iter=0),
    "a saver and a scaffold": lambda tf: tf.train.CheckpointSaverHook(
        "/tmp", save_steps=1, saver=1, scaffold=tf.train.Scaffold()
    ),
    "no summary": lambda tf: tf.train.SummarySaverHook(save_steps=1),
    "a loss that is no number": _nan,
    "a run after the stop": _after_the_stop,
    "a tensor fed twice": _fed_twice,
    "an operation after all": _added,
    "an error of the program": _own_error,
    "a folder and a file": lambda tf: tf.train.SessionManager().prepare_session(
        "", saver=tf.train.Saver(allow_empty=True), checkpoint_dir="/tmp", checkpoint_filename_with_path="/tmp/x"
    ),
    "nothing to initialise with": lambda tf: tf.train.SessionManager().prepare_session(""),
    "something left uninitialised": lambda tf: tf.train.MonitoredSession(
        tf.train.ChiefSessionCreator(tf.train.Scaffold(init_op=tf.no_op(), saver=tf.train.Saver([model(tf)[2]])))
    ),
    "a summary without a writer": lambda tf: tf.train.Supervisor(logdir=None).summary_computed(None, b""),
}
