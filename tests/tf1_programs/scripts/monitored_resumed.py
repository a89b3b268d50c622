"""A GRU that remembers its first input, trained in a MonitoredTrainingSession that is stopped, and resumed."""
# tensorflow.compat.v1 runs this.

import json
import os
import tempfile

import numpy as np
import tensorflow as tf

tf.app.flags.DEFINE_integer("steps", 100, "training steps")
FLAGS = tf.app.flags.FLAGS
n_steps, n_units, n_classes, batch_size = 10, 24, 4, 32


class LossLogger(tf.train.SessionRunHook):
    """Keeps the loss of every step."""

    def __init__(self, loss, losses):
        self.loss, self.losses = loss, losses

    def before_run(self, run_context):
        return tf.train.SessionRunArgs(fetches={"loss": self.loss})

    def after_run(self, run_context, run_values):
        self.losses.append(float(run_values.results["loss"]))


def build(x, y):
    first = tf.one_hot(x, n_classes)
    _, state = tf.nn.dynamic_rnn(tf.nn.rnn_cell.GRUCell(n_units), first, dtype=tf.float32)
    logits = tf.layers.dense(state, n_classes)
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=y))
    accuracy = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(logits, 1, output_type=tf.int32), y), tf.float32))
    return loss, accuracy


def batches(seed):
    rng = np.random.default_rng(seed)
    while True:
        rows = rng.integers(0, n_classes, (batch_size, n_steps)).astype(np.int32)
        yield rows, rows[:, 0]


def train(folder, last_step, data, losses):
    with tf.Graph().as_default():
        tf.set_random_seed(1)
        x = tf.placeholder(tf.int32, [None, n_steps])
        y = tf.placeholder(tf.int32, [None])
        loss, accuracy = build(x, y)
        global_step = tf.train.get_or_create_global_step()
        rate = tf.train.exponential_decay(0.02, global_step, 50, 0.8)
        train_op = tf.train.AdamOptimizer(rate).minimize(loss, global_step=global_step)
        tf.summary.scalar("loss", loss)
        hooks = [
            tf.train.FeedFnHook(lambda: dict(zip((x, y), next(data), strict=True))),
            tf.train.StopAtStepHook(last_step=last_step),
            tf.train.NanTensorHook(loss),
            tf.train.LoggingTensorHook({"loss": loss, "step": global_step}, every_n_iter=50),
            LossLogger(loss, losses),
        ]
        with tf.train.MonitoredTrainingSession(
            checkpoint_dir=folder, hooks=hooks, save_checkpoint_secs=None, save_checkpoint_steps=25
        ) as sess:
            score = None
            while not sess.should_stop():
                _, score = sess.run([train_op, accuracy])
        return score


def main(_):
    folder, losses, data = tempfile.mkdtemp(), [], batches(0)
    half = FLAGS.steps // 2
    train(folder, half, data, losses)
    assert len(losses) == half
    assert os.path.basename(tf.train.latest_checkpoint(folder)) == "model.ckpt-%d" % half
    score = train(folder, FLAGS.steps, data, losses)
    assert len(losses) == FLAGS.steps
    if FLAGS.steps == 100:
        print("accuracy", score)
        assert losses[half] < 2 * losses[half - 1], "it has begun anew"
        assert score > 0.9, score
    print("losses:", json.dumps(losses))


if __name__ == "__main__":
    tf.app.run()
