"""REINFORCE with a recurrent policy: a Categorical for what to do, a Normal for how much, a baseline by a template."""
# tensorflow.compat.v1 runs this.

import json

import numpy as np
import tensorflow as tf

tf.flags.DEFINE_integer("steps", 100, "updates")
FLAGS = tf.flags.FLAGS
n_rows, n_steps, n_signs = 24, 6, 3

tf.set_random_seed(3)
signs = tf.placeholder(tf.float32, [None, n_steps, n_signs], name="signs")
actions = tf.placeholder(tf.int32, [None], name="actions")
amounts = tf.placeholder(tf.float32, [None], name="amounts")
rewards = tf.placeholder(tf.float32, [None], name="rewards")

_, state = tf.nn.dynamic_rnn(tf.nn.rnn_cell.GRUCell(12), signs, dtype=tf.float32)
choice = tf.distributions.Categorical(logits=tf.layers.dense(state, n_signs, name="choice"))
amount = tf.distributions.Normal(tf.squeeze(tf.layers.dense(state, 1, name="amount"), 1), 0.3)


def value(h):
    hidden = tf.layers.dense(h, 8, tf.nn.tanh, name="hidden")
    return tf.squeeze(tf.layers.dense(hidden, 1, name="value"), 1)


baseline = tf.make_template("baseline", value)
expected = baseline(tf.stop_gradient(state))
advantage = tf.stop_gradient(rewards - expected)
log_prob = choice.log_prob(actions) + amount.log_prob(amounts)
policy_loss = -tf.reduce_mean(log_prob * advantage + 0.01 * choice.entropy())
value_loss = tf.reduce_mean(tf.square(rewards - baseline(tf.stop_gradient(state))))
loss = policy_loss + 0.5 * value_loss
train = tf.train.AdamOptimizer(0.02).minimize(loss)

rng = np.random.default_rng(0)
losses, means = [], []
with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    for _ in range(FLAGS.steps):
        first = rng.integers(0, n_signs, n_rows)
        shown = np.zeros([n_rows, n_steps, n_signs], np.float32)
        shown[np.arange(n_rows), 0, first] = 1.0
        shown[:, 1:] = 0.1 * rng.normal(size=shown[:, 1:].shape)
        probs, loc = sess.run([choice.probs, amount.loc], {signs: shown})
        a = np.minimum((probs.cumsum(1) < rng.uniform(size=(n_rows, 1))).sum(1), n_signs - 1)
        m = loc + 0.3 * rng.normal(size=n_rows)
        r = (a == first) - np.square(m - 0.5)
        feed = {signs: shown, actions: a, amounts: m, rewards: r}
        found, _ = sess.run([loss, train], feed)
        losses.append(float(found))
        means.append(float(r.mean()))
if FLAGS.steps == 100:
    print("reward", np.mean(means[:10]), "to", np.mean(means[-10:]))
    assert np.mean(means[-10:]) > np.mean(means[:10]) + 0.4, means
print("losses:", json.dumps(losses))
