"""A tagger with a CRF, whose sentences come from a dataset, in an Estimator that trains, evaluates and predicts."""

import json
import tempfile

import numpy as np
import tensorflow as tf

tf.flags.DEFINE_integer("steps", 60, "training steps")
FLAGS = tf.flags.FLAGS

VOCABULARY, TAGS = 12, 4


def sentences(seed, count):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        words = rng.integers(1, VOCABULARY, rng.integers(3, 9))
        # A word's tag depends on the word before it.
        before = np.concatenate([[0], words[:-1]])
        yield {"words": words, "length": len(words)}, (words + before) % TAGS


def input_fn(seed, count, epochs):
    shapes = ({"words": [None], "length": []}, [None])
    dataset = tf.data.Dataset.from_generator(
        lambda: sentences(seed, count), ({"words": tf.int32, "length": tf.int32}, tf.int32), shapes
    )
    return dataset.repeat(epochs).padded_batch(16, shapes).prefetch(1)


def model_fn(features, labels, mode, params):
    embeddings = tf.get_variable("embeddings", [VOCABULARY, params["dim"]])
    inputs = tf.nn.embedding_lookup(embeddings, features["words"])
    (fw, bw), _ = tf.nn.bidirectional_dynamic_rnn(
        tf.nn.rnn_cell.LSTMCell(params["units"]),
        tf.nn.rnn_cell.LSTMCell(params["units"]),
        inputs,
        sequence_length=features["length"],
        dtype=tf.float32,
    )
    logits = tf.layers.dense(tf.concat([fw, bw], -1), TAGS)
    transitions = tf.get_variable("transitions", [TAGS, TAGS])
    tags, _ = tf.contrib.crf.crf_decode(logits, transitions, features["length"])
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions={"tags": tags, "length": features["length"]})

    weights = tf.sequence_mask(features["length"], tf.shape(labels)[1], tf.float32)
    likelihood, _ = tf.contrib.crf.crf_log_likelihood(logits, labels, features["length"], transitions)
    loss = tf.reduce_mean(-likelihood)
    metrics = {"accuracy": tf.metrics.accuracy(labels, tags, weights)}
    tf.summary.scalar("accuracy", metrics["accuracy"][1])
    if mode == tf.estimator.ModeKeys.EVAL:
        return tf.estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops=metrics)

    train_op = tf.train.AdamOptimizer(params["rate"]).minimize(loss, global_step=tf.train.get_or_create_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, training_hooks=[Losses(loss)])


class Losses(tf.train.SessionRunHook):
    seen = []

    def __init__(self, loss):
        self.loss = loss

    def before_run(self, run_context):
        return tf.train.SessionRunArgs(self.loss)

    def after_run(self, run_context, run_values):
        self.seen.append(float(run_values.results))


def main(_):
    config = tf.estimator.RunConfig(save_checkpoints_steps=30, tf_random_seed=1)
    params = {"dim": 16, "units": 24, "rate": 0.03}
    estimator = tf.estimator.Estimator(model_fn, tempfile.mkdtemp(), config, params)
    train_spec = tf.estimator.TrainSpec(input_fn=lambda: input_fn(0, 200, None), max_steps=FLAGS.steps)
    eval_spec = tf.estimator.EvalSpec(input_fn=lambda: input_fn(1, 50, 1), steps=None, throttle_secs=0)
    tf.estimator.train_and_evaluate(estimator, train_spec, eval_spec)

    found = estimator.evaluate(lambda: input_fn(1, 50, 1))
    print(found)
    assert found["global_step"] == FLAGS.steps
    if FLAGS.steps == 60:
        assert found["accuracy"] > 0.9, found
        predictions = list(estimator.predict(lambda: input_fn(1, 50, 1)))
        wanted = [labels for _, labels in sentences(1, 50)]
        right = [p["tags"][: p["length"]] == labels for p, labels in zip(predictions, wanted, strict=True)]
        assert np.concatenate(right).mean() > 0.9
    print("losses:", json.dumps(Losses.seen))


if __name__ == "__main__":
    tf.app.run()
