"""A language model on cudnn_rnn's LSTM: trained, saved, and sampled by cells that take its checkpoint."""

import json
import os

import numpy as np
import tensorflow as tf
from tensorflow.contrib import cudnn_rnn

flags = tf.app.flags
flags.DEFINE_integer("steps", 60, "training steps")
flags.DEFINE_string("model_dir", "cudnn_model", "where checkpoints are")
FLAGS = flags.FLAGS

TEXT = "abcdefghij" * 20
CHARS = sorted(set(TEXT))
LAYERS, UNITS, BATCH, TIME = 2, 24, 6, 10


def rows(rng):
    data = np.array([CHARS.index(each) for each in TEXT])
    starts = rng.integers(0, len(data) - TIME - 1, BATCH)
    return np.stack([data[start : start + TIME + 1] for start in starts])


def embedded(ids):
    return tf.nn.embedding_lookup(tf.get_variable("embedding", [len(CHARS), 12]), ids)


def projected(outputs):
    w = tf.get_variable("softmax_w", [UNITS, len(CHARS)])
    b = tf.get_variable("softmax_b", [len(CHARS)], initializer=tf.zeros_initializer())
    return tf.tensordot(outputs, w, [[2], [0]]) + b


def train(losses):
    with tf.Graph().as_default():
        tf.set_random_seed(4)
        ids = tf.placeholder(tf.int32, [BATCH, TIME + 1])
        lstm = cudnn_rnn.CudnnLSTM(LAYERS, UNITS, dropout=0.1, name="lstm")
        outputs, _ = lstm(tf.transpose(embedded(ids[:, :-1]), [1, 0, 2]), training=True)
        logits = tf.transpose(projected(outputs), [1, 0, 2])
        loss = tf.contrib.seq2seq.sequence_loss(logits, ids[:, 1:], tf.ones([BATCH, TIME]))
        step = tf.train.get_or_create_global_step()
        train_op = tf.train.AdamOptimizer(0.02).minimize(loss, global_step=step)
        saver = tf.train.Saver()
        rng = np.random.default_rng(0)
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            for _ in range(FLAGS.steps):
                losses.append(float(sess.run([loss, train_op], {ids: rows(rng)})[0]))
            return saver.save(sess, os.path.join(FLAGS.model_dir, "model"), global_step=step)


def generate(checkpoint, seed, count):
    """What comes after a text, on a CPU: the cells that cuDNN's weights fit, under the same names."""
    with tf.Graph().as_default():
        ids = tf.placeholder(tf.int32, [1, 1])
        with tf.variable_scope("lstm"):
            cell = tf.nn.rnn_cell.MultiRNNCell([cudnn_rnn.CudnnCompatibleLSTMCell(UNITS) for _ in range(LAYERS)])
        state = cell.zero_state(1, tf.float32)
        inputs = tf.transpose(embedded(ids), [1, 0, 2])
        with tf.variable_scope("lstm"):
            outputs, final = tf.nn.dynamic_rnn(cell, inputs, initial_state=state, time_major=True)
        choice = tf.argmax(projected(outputs)[-1, 0])
        with tf.Session() as sess:
            tf.train.Saver().restore(sess, checkpoint)
            text, now = seed, sess.run(state)
            for at in range(len(seed) + count - 1):
                found, now = sess.run([choice, final], {ids: [[CHARS.index(text[at])]], state: now})
                if at >= len(seed) - 1:
                    text += CHARS[found]
            return text


def main(_):
    losses = []
    checkpoint = train(losses)
    text = generate(tf.train.latest_checkpoint(FLAGS.model_dir), "cde", 12)
    assert checkpoint == tf.train.latest_checkpoint(FLAGS.model_dir)
    if FLAGS.steps == 60:
        assert text == "cdefghijabcdefg", text
    print("losses:", json.dumps(losses))


if __name__ == "__main__":
    tf.app.run()
