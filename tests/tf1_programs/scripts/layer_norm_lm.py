"""A language model of characters on two layers of layer-normalised LSTMs with recurrent dropout."""

import json

import numpy as np
import tensorflow as tf

flags = tf.flags
flags.DEFINE_integer("steps", 60, "training steps")
flags.DEFINE_float("keep_prob", 0.9, "of what is new in a memory")
FLAGS = flags.FLAGS

BATCH, TIME, UNITS = 8, 12, 32
TEXT = "she sells sea shells by the sea shore. the shells she sells are sea shells for sure. "
CHARS = sorted(set(TEXT))
DATA = np.array([CHARS.index(each) for each in TEXT * 3])


def batches(rng):
    while True:
        starts = rng.integers(0, len(DATA) - TIME - 1, BATCH)
        rows = np.stack([DATA[start : start + TIME + 1] for start in starts])
        yield rows[:, :-1], rows[:, 1:]


class PTBModel(object):
    def __init__(self, is_training):
        self.inputs = tf.placeholder(tf.int32, [BATCH, TIME])
        self.targets = tf.placeholder(tf.int32, [BATCH, TIME])
        keep = FLAGS.keep_prob if is_training else 1.0
        cell = tf.contrib.rnn.MultiRNNCell(
            [tf.contrib.rnn.LayerNormBasicLSTMCell(UNITS, dropout_keep_prob=keep) for _ in range(2)]
        )
        self.initial_state = cell.zero_state(BATCH, tf.float32)
        embedding = tf.get_variable("embedding", [len(CHARS), UNITS])
        inputs = tf.nn.embedding_lookup(embedding, self.inputs)
        outputs, self.final_state = tf.nn.dynamic_rnn(cell, inputs, initial_state=self.initial_state)
        logits = tf.contrib.layers.fully_connected(outputs, len(CHARS), activation_fn=None, scope="softmax")
        self.cost = tf.contrib.seq2seq.sequence_loss(logits, self.targets, tf.ones([BATCH, TIME]))
        if not is_training:
            return
        tvars = tf.trainable_variables()
        grads, _ = tf.clip_by_global_norm(tf.gradients(self.cost, tvars), 5.0)
        self.train_op = tf.train.AdamOptimizer(0.01).apply_gradients(zip(grads, tvars))


def main(_):
    tf.set_random_seed(0)
    with tf.variable_scope("model", initializer=tf.random_uniform_initializer(-0.2, 0.2)):
        model = PTBModel(is_training=True)
    with tf.variable_scope("model", reuse=True):
        test = PTBModel(is_training=False)
    losses, stream = [], batches(np.random.default_rng(1))
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(FLAGS.steps):
            x, y = next(stream)
            cost, _ = sess.run([model.cost, model.train_op], {model.inputs: x, model.targets: y})
            losses.append(float(cost))
        if FLAGS.steps == 60:
            x, y = next(stream)
            perplexity = np.exp(sess.run(test.cost, {test.inputs: x, test.targets: y}))
            assert perplexity < 8, (perplexity, losses)
    print("losses:", json.dumps(losses))


if __name__ == "__main__":
    tf.app.run()
