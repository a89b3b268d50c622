"""Word vectors by noise-contrastive estimation: words that stand in the same sentences come to lie together."""

import collections
import json
import math

import numpy as np
import tensorflow as tf

tf.app.flags.DEFINE_integer("steps", 300, "training steps")
FLAGS = tf.app.flags.FLAGS

batch_size, embedding_size, skip_window, num_sampled = 64, 16, 2, 8
ANIMALS = ["cat", "dog", "cow", "hen", "pig", "fox", "owl", "bee"]
TOOLS = ["saw", "axe", "pen", "cup", "pan", "rod", "key", "nut"]
rng = np.random.default_rng(0)
words = [word for _ in range(150) for word in rng.choice(ANIMALS if rng.random() < 0.5 else TOOLS, 6)]

count = collections.Counter(words).most_common()
dictionary = {word: i for i, (word, _) in enumerate(count)}
data = [dictionary[word] for word in words]
vocabulary_size = len(dictionary)


def generate_batch():
    centres = rng.integers(skip_window, len(data) - skip_window, batch_size)
    steps = rng.choice([-2, -1, 1, 2], batch_size)
    inputs = np.array([data[i] for i in centres], np.int32)
    return inputs, np.array([[data[i + step]] for i, step in zip(centres, steps)], np.int32)


graph = tf.Graph()
with graph.as_default():
    tf.set_random_seed(0)
    train_inputs = tf.placeholder(tf.int32, shape=[batch_size])
    train_labels = tf.placeholder(tf.int32, shape=[batch_size, 1])
    with tf.device("/cpu:0"):
        embeddings = tf.Variable(tf.random_uniform([vocabulary_size, embedding_size], -1.0, 1.0))
        embed = tf.nn.embedding_lookup(embeddings, train_inputs)
        nce_weights = tf.Variable(
            tf.truncated_normal([vocabulary_size, embedding_size], stddev=1.0 / math.sqrt(embedding_size))
        )
        nce_biases = tf.Variable(tf.zeros([vocabulary_size]))
    loss = tf.reduce_mean(
        tf.nn.nce_loss(
            weights=nce_weights,
            biases=nce_biases,
            labels=train_labels,
            inputs=embed,
            num_sampled=num_sampled,
            num_classes=vocabulary_size,
        )
    )
    optimizer = tf.train.GradientDescentOptimizer(1.0).minimize(loss)
    norm = tf.sqrt(tf.reduce_sum(tf.square(embeddings), 1, keep_dims=True))
    normalized_embeddings = embeddings / norm
    similarity = tf.matmul(normalized_embeddings, normalized_embeddings, transpose_b=True)
    init = tf.global_variables_initializer()

losses = []
with tf.Session(graph=graph) as session:
    init.run()
    for _ in range(FLAGS.steps):
        batch_inputs, batch_labels = generate_batch()
        _, loss_val = session.run([optimizer, loss], feed_dict={train_inputs: batch_inputs, train_labels: batch_labels})
        losses.append(float(loss_val))
    sim = similarity.eval()
    if FLAGS.steps == 300:
        animals, tools = ([dictionary[word] for word in kind] for kind in (ANIMALS, TOOLS))
        together = (sim[np.ix_(animals, animals)].mean() + sim[np.ix_(tools, tools)].mean()) / 2
        apart = sim[np.ix_(animals, tools)].mean()
        print("together", together, "apart", apart)
        assert together > apart + 0.2, (together, apart)
print("losses:", json.dumps(losses))
