"""A tagger with a table of what each user wrote before: rows are gathered, joined to the input, and written back."""
# tensorflow.compat.v1 runs this.

import json

import numpy as np
import tensorflow as tf

tf.flags.DEFINE_integer("steps", 100, "training steps")
FLAGS = tf.flags.FLAGS
n_users, n_memory, n_words, n_steps, n_rows, n_tags = 6, 8, 10, 5, 4, 3

tf.set_random_seed(1)
users = tf.placeholder(tf.int32, [None], name="users")
words = tf.placeholder(tf.int32, [None, n_steps], name="words")
tags = tf.placeholder(tf.int32, [None, n_steps], name="tags")

table = tf.Variable(tf.zeros([n_users, n_memory]), trainable=False, name="table")
seen = tf.Variable(tf.zeros([n_users]), trainable=False, name="seen")
memory = tf.gather(table, users)
embedding = tf.get_variable("embedding", [n_words, 6], initializer=tf.random_uniform_initializer(-1.0, 1.0))
read = tf.nn.embedding_lookup(embedding, words)
spread = tf.tile(tf.expand_dims(memory, 1), [1, n_steps, 1])
cell = tf.nn.rnn_cell.LSTMCell(n_memory)
outputs, state = tf.nn.dynamic_rnn(cell, tf.concat([read, spread], 2), dtype=tf.float32)
logits = tf.layers.dense(outputs, n_tags, name="tags")

# Only the words that count: the others are put aside, and the losses of both are put together again in their places.
flat_tags, flat_logits = tf.reshape(tags, [-1]), tf.reshape(logits, [-1, n_tags])
ignored = tf.cast(tf.equal(tf.reshape(words, [-1]), 0), tf.int32)
places = tf.dynamic_partition(tf.range(tf.size(flat_tags)), ignored, 2)
counted = tf.nn.sparse_softmax_cross_entropy_with_logits(
    labels=tf.gather(flat_tags, places[0]), logits=tf.gather(flat_logits, places[0])
)
every = tf.dynamic_stitch(places, [counted, tf.zeros_like(tf.to_float(places[1]))])
loss = tf.reduce_sum(every) / tf.to_float(tf.size(places[0]))
train = tf.train.AdagradOptimizer(0.3).minimize(loss)
with tf.control_dependencies([train]):
    write = tf.group(tf.scatter_update(table, users, state.h), tf.scatter_add(seen, users, tf.ones([n_rows])))

rng = np.random.default_rng(0)
losses = []
with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    for _ in range(FLAGS.steps):
        who = rng.permutation(n_users)[:n_rows]
        text = rng.integers(0, n_words, (n_rows, n_steps))
        feed = {users: who, words: text, tags: text % n_tags}
        found, _ = sess.run([loss, write], feed)
        losses.append(float(found))
    count = sess.run(seen)
assert count.sum() == FLAGS.steps * n_rows, count
if FLAGS.steps == 100:
    assert np.mean(losses[-10:]) < 0.6 * losses[0], losses
print("losses:", json.dumps(losses))
