"""Word vectors with candidates that are drawn outside of the graph, and fed: both losses over them, together."""
# tensorflow.compat.v1 runs this.

import json

import numpy as np
import tensorflow as tf

tf.app.flags.DEFINE_integer("steps", 150, "training steps")
FLAGS = tf.app.flags.FLAGS

VOCABULARY, WIDTH, BATCH, SAMPLED = 30, 12, 32, 6
rng = np.random.default_rng(0)
# The frequent words come first, as candidates by Zipf's law want it.
chances = np.log1p(1.0 / (1 + np.arange(VOCABULARY))) / np.log(VOCABULARY + 1)

tf.set_random_seed(0)
centre = tf.placeholder(tf.int32, [BATCH])
context = tf.placeholder(tf.int64, [BATCH, 1])
sampled = tf.placeholder(tf.int64, [SAMPLED])
true_expected = tf.placeholder(tf.float32, [BATCH, 1])
sampled_expected = tf.placeholder(tf.float32, [SAMPLED])

embeddings = tf.get_variable("embeddings", [VOCABULARY, WIDTH], initializer=tf.random_uniform_initializer(-1, 1))
weights = tf.get_variable("weights", [VOCABULARY, WIDTH])
biases = tf.get_variable("biases", [VOCABULARY], initializer=tf.zeros_initializer())
hidden = tf.nn.embedding_lookup(embeddings, centre)
given = (sampled, true_expected, sampled_expected)
nce = tf.nn.nce_loss(weights, biases, context, hidden, SAMPLED, VOCABULARY, sampled_values=given)
softmax = tf.nn.sampled_softmax_loss(weights, biases, context, hidden, SAMPLED, VOCABULARY, sampled_values=given)
cost = tf.reduce_mean(nce) + 0.5 * tf.reduce_mean(softmax)
optimizer = tf.train.AdagradOptimizer(0.5)
grads_and_vars = optimizer.compute_gradients(cost)
clipped, _ = tf.clip_by_global_norm([grad for grad, _ in grads_and_vars], 5.0)
train_op = optimizer.apply_gradients(zip(clipped, [var for _, var in grads_and_vars]))
best = tf.argmax(tf.matmul(hidden, weights, transpose_b=True) + biases, 1)


def batch():
    words = rng.choice(VOCABULARY, BATCH, p=chances / chances.sum())
    after = (words + 1) % VOCABULARY
    drawn = rng.choice(VOCABULARY, SAMPLED, replace=False, p=chances / chances.sum())
    return {
        centre: words,
        context: after[:, None],
        sampled: drawn,
        true_expected: SAMPLED * chances[after][:, None],
        sampled_expected: SAMPLED * chances[drawn],
    }


losses = []
with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    for _ in range(FLAGS.steps):
        _, loss = sess.run([train_op, cost], batch())
        losses.append(float(loss))
    if FLAGS.steps == 150:
        feed = batch()
        right = np.mean(sess.run(best, feed) == feed[context][:, 0])
        print("right", right)
        assert right > 0.7, right
print("losses:", json.dumps(losses))
