"""Word vectors from a model of the next word, saved for TensorBoard's projector with the words as their names."""

import json
import os
import tempfile

import numpy as np
import tensorflow as tf
from tensorflow.contrib.tensorboard.plugins import projector

tf.flags.DEFINE_integer("steps", 80, "training steps")
tf.flags.DEFINE_string("log_dir", None, "where TensorBoard finds them")
FLAGS = tf.flags.FLAGS

NOUNS, VERBS, OTHERS = ["cat", "dog", "bird", "fish"], ["sees", "hears", "likes"], ["the", "."]
WORDS = [*NOUNS, *VERBS, *OTHERS]
numbers = {word: number for number, word in enumerate(WORDS)}
hparams = tf.contrib.training.HParams(units=16, dim=8, learning_rate=0.02, batch_size=16)


def sentences(rng, count):
    for _ in range(count):
        subject, verb, other = rng.choice(NOUNS), rng.choice(VERBS), rng.choice(NOUNS)
        yield [numbers[word] for word in ("the", subject, verb, "the", other, ".")]


def main(_):
    tf.set_random_seed(1)
    log_dir = FLAGS.log_dir or tempfile.mkdtemp()
    x = tf.placeholder(tf.int32, [None, 5])
    y = tf.placeholder(tf.int32, [None, 5])
    embedding_var = tf.get_variable("word_embedding", [len(WORDS), hparams.dim])
    inputs = tf.nn.embedding_lookup(embedding_var, x)
    outputs, _ = tf.nn.dynamic_rnn(tf.nn.rnn_cell.GRUCell(hparams.units), inputs, dtype=tf.float32)
    logits = tf.layers.dense(outputs, len(WORDS))
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
    train_op = tf.train.AdamOptimizer(hparams.learning_rate).minimize(loss)
    saver = tf.train.Saver([embedding_var])

    with open(os.path.join(log_dir, "metadata.tsv"), "w") as file:
        file.write("".join(word + "\n" for word in WORDS))
    summary_writer = tf.summary.FileWriter(log_dir)
    config = projector.ProjectorConfig()
    embedding = config.embeddings.add()
    embedding.tensor_name = embedding_var.name
    embedding.metadata_path = "metadata.tsv"
    projector.visualize_embeddings(summary_writer, config)

    rng = np.random.default_rng(0)
    losses = []
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(FLAGS.steps):
            rows = np.array(list(sentences(rng, hparams.batch_size)))
            _, value = sess.run([train_op, loss], {x: rows[:, :-1], y: rows[:, 1:]})
            losses.append(float(value))
        saver.save(sess, os.path.join(log_dir, "model.ckpt"), FLAGS.steps)
        vectors = sess.run(embedding_var)
    summary_writer.close()

    with open(os.path.join(log_dir, "projector_config.pbtxt")) as file:
        assert 'tensor_name: "word_embedding:0"' in file.read()
    saved = tf.train.load_variable(tf.train.latest_checkpoint(log_dir), "word_embedding")
    assert np.array_equal(saved, vectors)
    if FLAGS.steps == 80:
        # The best that can be: three words in five are drawn, of four, three and four.
        best = (2 * np.log(4) + np.log(3)) / 5
        assert losses[-1] < best + 0.1, (losses[-1], best)
    print("losses:", json.dumps(losses))


if __name__ == "__main__":
    tf.app.run()
