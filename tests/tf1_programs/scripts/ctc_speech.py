"""Speech-like labelling: a bidirectional LSTM and CTC; phones last for some frames, and nobody says which."""
# tensorflow.compat.v1 runs this.

import json

import numpy as np
import tensorflow as tf

tf.app.flags.DEFINE_integer("steps", 120, "training steps")
FLAGS = tf.app.flags.FLAGS

num_features, num_units, num_phones, batch_size, max_frames = 6, 24, 5, 16, 24
num_classes = num_phones + 1  # and the blank


def sparse_tuple_from(sequences):
    indices = [(n, t) for n, seq in enumerate(sequences) for t in range(len(seq))]
    values = [value for seq in sequences for value in seq]
    shape = [len(sequences), max(len(seq) for seq in sequences)]
    return np.asarray(indices, np.int64), np.asarray(values, np.int32), np.asarray(shape, np.int64)


sounds = np.random.default_rng(1).normal(size=(num_phones, num_features))


def make_batch(rng):
    inputs, labels, lengths = np.zeros((batch_size, max_frames, num_features)), [], []
    for row in range(batch_size):
        phones, frames = [], []
        for _ in range(rng.integers(2, 5)):
            phones.append(rng.integers(num_phones))
            frames += [sounds[phones[-1]]] * rng.integers(2, 5) + [np.zeros(num_features)] * rng.integers(1, 3)
        inputs[row, : len(frames)] = frames + 0.3 * rng.normal(size=(len(frames), num_features))
        labels.append(phones)
        lengths.append(len(frames))
    return inputs, sparse_tuple_from(labels), lengths


graph = tf.Graph()
with graph.as_default():
    tf.set_random_seed(0)
    inputs = tf.placeholder(tf.float32, [None, None, num_features])
    targets = tf.sparse_placeholder(tf.int32)
    seq_len = tf.placeholder(tf.int32, [None])

    (fw, bw), _ = tf.nn.bidirectional_dynamic_rnn(
        tf.nn.rnn_cell.LSTMCell(num_units), tf.nn.rnn_cell.LSTMCell(num_units), inputs, seq_len, dtype=tf.float32
    )
    shape = tf.shape(inputs)
    outputs = tf.reshape(tf.concat([fw, bw], 2), [-1, 2 * num_units])
    W = tf.Variable(tf.truncated_normal([2 * num_units, num_classes], stddev=0.1), name="W")
    b = tf.Variable(tf.constant(0.0, shape=[num_classes]), name="b")
    logits = tf.reshape(tf.matmul(outputs, W) + b, [shape[0], -1, num_classes])
    logits = tf.transpose(logits, (1, 0, 2))

    cost = tf.reduce_mean(tf.nn.ctc_loss(targets, logits, seq_len))
    optimizer = tf.train.AdamOptimizer(0.02).minimize(cost)
    decoded, log_prob = tf.nn.ctc_greedy_decoder(logits, seq_len)
    ler = tf.reduce_mean(tf.edit_distance(tf.cast(decoded[0], tf.int32), targets))

losses = []
with tf.Session(graph=graph) as session:
    session.run(tf.global_variables_initializer())
    rng = np.random.default_rng(0)
    for _ in range(FLAGS.steps):
        x, y, lengths = make_batch(rng)
        batch_cost, _ = session.run([cost, optimizer], {inputs: x, targets: y, seq_len: lengths})
        losses.append(float(batch_cost))
    if FLAGS.steps == 120:
        x, y, lengths = make_batch(rng)
        error = session.run(ler, {inputs: x, targets: y, seq_len: lengths})
        print("label error rate", error)
        assert error < 0.15, error
print("losses:", json.dumps(losses))
