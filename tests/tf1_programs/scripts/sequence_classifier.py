"""Whether a row's sum is positive: a GRU over rows of their own lengths, and a dense layer on its last state."""
# tensorflow.compat.v1 runs this.

import json

import numpy as np
import tensorflow as tf

tf.flags.DEFINE_integer("steps", 120, "training steps")
FLAGS = tf.flags.FLAGS

# Parameters
n_steps, n_input, n_hidden, n_classes, batch_size = 12, 2, 16, 2, 32

tf.set_random_seed(0)
x = tf.placeholder("float", [None, n_steps, n_input])
y = tf.placeholder("int64", [None])
seqlen = tf.placeholder(tf.int32, [None])

outputs, states = tf.nn.dynamic_rnn(tf.nn.rnn_cell.GRUCell(n_hidden), x, sequence_length=seqlen, dtype=tf.float32)
weights = tf.Variable(tf.random_normal([n_hidden, n_classes], stddev=0.1), name="weights")
biases = tf.Variable(tf.zeros([n_classes]), name="biases")
pred = tf.matmul(states, weights) + biases

cost = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(logits=pred, labels=y))
optimizer = tf.train.RMSPropOptimizer(learning_rate=0.01).minimize(cost)
accuracy = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(pred, 1), y), tf.float32))


def batch(rng):
    values = rng.normal(size=(batch_size, n_steps, n_input)).astype(np.float32)
    lengths = rng.integers(1, n_steps + 1, batch_size)
    inside = np.arange(n_steps) < lengths[:, None]
    return {x: values, seqlen: lengths, y: (values[:, :, 0] * inside).sum(1) > 0}


rng = np.random.default_rng(0)
losses = []
with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    for _ in range(FLAGS.steps):
        _, loss = sess.run([optimizer, cost], feed_dict=batch(rng))
        losses.append(float(loss))
    if FLAGS.steps == 120:
        score = np.mean([sess.run(accuracy, feed_dict=batch(rng)) for _ in range(5)])
        print("accuracy", score)
        assert score > 0.8, score
print("losses:", json.dumps(losses))
