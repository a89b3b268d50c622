"""Opinions in short texts: a vocabulary of the training texts, embeddings, and an LSTM over padded rows."""

import json
import os
import tempfile

import numpy as np
import tensorflow as tf
from tensorflow.contrib import learn

tf.flags.DEFINE_integer("steps", 60, "training steps")
tf.flags.DEFINE_integer("embedding_dim", 16, "Dimensionality of embedding (default: 16)")
tf.flags.DEFINE_integer("batch_size", 32, "Batch Size (default: 32)")
FLAGS = tf.flags.FLAGS

GOOD = ["good", "great", "fine", "splendid", "lovely"]
BAD = ["bad", "poor", "dull", "awful", "boring"]
OTHER = ["the", "film", "was", "a", "plot", "actor", "scene", "with", "some", "and"]


def load_data_and_labels(rng, count):
    texts, labels = [], []
    for _ in range(count):
        label = int(rng.integers(2))
        words = [OTHER[k] for k in rng.integers(0, len(OTHER), rng.integers(3, 8))]
        words.insert(int(rng.integers(len(words))), (GOOD if label else BAD)[rng.integers(5)])
        texts.append(" ".join(words))
        labels.append([1 - label, label])
    return texts, np.array(labels)


def batch_iter(data, batch_size, rng):
    while True:
        shuffled = [data[k] for k in rng.permutation(len(data))]
        for start in range(0, len(data), batch_size):
            yield shuffled[start : start + batch_size]


class TextRNN:
    def __init__(self, sequence_length, vocab_size, embedding_size):
        self.input_x = tf.placeholder(tf.int32, [None, sequence_length], name="input_x")
        self.input_y = tf.placeholder(tf.float32, [None, 2], name="input_y")
        self.dropout_keep_prob = tf.placeholder(tf.float32, name="dropout_keep_prob")
        length = tf.reduce_sum(tf.sign(self.input_x), 1)
        with tf.name_scope("embedding"):
            weights = tf.Variable(tf.random_uniform([vocab_size, embedding_size], -1.0, 1.0), name="W")
            embedded = tf.nn.embedding_lookup(weights, self.input_x)
        cell = tf.contrib.rnn.DropoutWrapper(tf.contrib.rnn.LSTMCell(16), output_keep_prob=self.dropout_keep_prob)
        _, state = tf.nn.dynamic_rnn(cell, embedded, sequence_length=length, dtype=tf.float32)
        with tf.name_scope("output"):
            w = tf.get_variable("W", [16, 2], initializer=tf.contrib.layers.xavier_initializer())
            b = tf.Variable(tf.constant(0.1, shape=[2]), name="b")
            self.scores = tf.nn.xw_plus_b(state.h, w, b, name="scores")
        losses = tf.nn.softmax_cross_entropy_with_logits(logits=self.scores, labels=self.input_y)
        self.loss = tf.reduce_mean(losses) + 1e-4 * (tf.nn.l2_loss(w) + tf.nn.l2_loss(b))
        correct = tf.equal(tf.argmax(self.scores, 1), tf.argmax(self.input_y, 1))
        self.accuracy = tf.reduce_mean(tf.cast(correct, "float"), name="accuracy")


def main(_):
    tf.set_random_seed(1)
    rng = np.random.default_rng(0)
    x_text, y = load_data_and_labels(rng, 300)
    max_document_length = max(len(x.split(" ")) for x in x_text)
    vocab_processor = learn.preprocessing.VocabularyProcessor(max_document_length)
    x = np.array(list(vocab_processor.fit_transform(x_text)))
    x_train, x_dev, y_train, y_dev = x[:250], x[250:], y[:250], y[250:]
    print("Vocabulary Size: {:d}".format(len(vocab_processor.vocabulary_)))

    model = TextRNN(x.shape[1], len(vocab_processor.vocabulary_), FLAGS.embedding_dim)
    global_step = tf.Variable(0, name="global_step", trainable=False)
    optimizer = tf.train.AdamOptimizer(0.02)
    grads_and_vars = optimizer.compute_gradients(model.loss)
    train_op = optimizer.apply_gradients(grads_and_vars, global_step=global_step)

    folder = tempfile.mkdtemp()
    vocab_processor.save(os.path.join(folder, "vocab"))
    losses = []
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        batches = batch_iter(list(zip(x_train, y_train, strict=True)), FLAGS.batch_size, rng)
        for _ in range(FLAGS.steps):
            x_batch, y_batch = zip(*next(batches), strict=True)
            feed_dict = {model.input_x: x_batch, model.input_y: y_batch, model.dropout_keep_prob: 0.8}
            _, step, loss = sess.run([train_op, global_step, model.loss], feed_dict)
            losses.append(float(loss))
            if step % 20 == 0:
                print("step {}, loss {:g}".format(step, loss))

        restored = learn.preprocessing.VocabularyProcessor.restore(os.path.join(folder, "vocab"))
        assert np.array_equal(np.array(list(restored.transform(x_text[250:]))), x_dev)
        feed_dict = {model.input_x: x_dev, model.input_y: y_dev, model.dropout_keep_prob: 1.0}
        accuracy = sess.run(model.accuracy, feed_dict)
    if FLAGS.steps == 60:
        print("accuracy", accuracy)
        assert accuracy > 0.9, accuracy
    print("losses:", json.dumps(losses))


if __name__ == "__main__":
    tf.app.run()
