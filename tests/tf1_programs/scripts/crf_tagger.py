"""A tagger of names in sentences: words into a bidirectional LSTM, a CRF on top, Viterbi's algorithm outside."""

import json

import numpy as np
import tensorflow as tf

tf.app.flags.DEFINE_integer("steps", 80, "training steps")
FLAGS = tf.app.flags.FLAGS

TAGS = ["O", "B", "I"]
VOCABULARY, MAX_LENGTH, BATCH = 40, 12, 16


def sentences(rng):
    """A name begins after the word 1, and lasts as long as words are above 29: what is a name depends on the past."""
    words = rng.integers(2, VOCABULARY, (BATCH, MAX_LENGTH))
    words[rng.random(words.shape) < 0.25] = 1
    lengths = rng.integers(4, MAX_LENGTH + 1, BATCH)
    tags = np.zeros_like(words)
    for row in range(BATCH):
        for t in range(1, MAX_LENGTH):
            if words[row, t - 1] == 1 and words[row, t] != 1:
                tags[row, t] = 1
            elif tags[row, t - 1] > 0 and words[row, t] > 29:
                tags[row, t] = 2
        words[row, lengths[row] :] = tags[row, lengths[row] :] = 0
    return words, tags, lengths


class NERModel:
    def __init__(self, hidden=24):
        self.word_ids = tf.placeholder(tf.int32, shape=[None, None], name="word_ids")
        self.sequence_lengths = tf.placeholder(tf.int32, shape=[None], name="sequence_lengths")
        self.labels = tf.placeholder(tf.int32, shape=[None, None], name="labels")
        with tf.variable_scope("words"):
            table = tf.get_variable("_word_embeddings", [VOCABULARY, 16])
            embeddings = tf.nn.embedding_lookup(table, self.word_ids, name="word_embeddings")
        with tf.variable_scope("bi-lstm"):
            (output_fw, output_bw), _ = tf.nn.bidirectional_dynamic_rnn(
                tf.contrib.rnn.LSTMCell(hidden),
                tf.contrib.rnn.LSTMCell(hidden),
                embeddings,
                sequence_length=self.sequence_lengths,
                dtype=tf.float32,
            )
            output = tf.concat([output_fw, output_bw], axis=-1)
        with tf.variable_scope("proj"):
            w = tf.get_variable("W", dtype=tf.float32, shape=[2 * hidden, len(TAGS)])
            b = tf.get_variable("b", shape=[len(TAGS)], initializer=tf.zeros_initializer())
            nsteps = tf.shape(output)[1]
            pred = tf.matmul(tf.reshape(output, [-1, 2 * hidden]), w) + b
            self.logits = tf.reshape(pred, [-1, nsteps, len(TAGS)])
        log_likelihood, self.trans_params = tf.contrib.crf.crf_log_likelihood(
            self.logits, self.labels, self.sequence_lengths
        )
        self.loss = tf.reduce_mean(-log_likelihood)
        self.best, _ = tf.contrib.crf.crf_decode(self.logits, self.trans_params, self.sequence_lengths)
        with tf.variable_scope("train_step"):
            optimizer = tf.train.AdamOptimizer(0.02)
            grads, variables = zip(*optimizer.compute_gradients(self.loss))
            grads, _ = tf.clip_by_global_norm(grads, 5.0)
            self.train_op = optimizer.apply_gradients(zip(grads, variables))

    def feed(self, words, tags, lengths):
        return {self.word_ids: words, self.labels: tags, self.sequence_lengths: lengths}

    def predict(self, sess, feed):
        logits, trans_params, lengths, best = sess.run(
            [self.logits, self.trans_params, self.sequence_lengths, self.best], feed
        )
        for logit, length, decoded in zip(logits, lengths, best):
            viterbi_seq, _ = tf.contrib.crf.viterbi_decode(logit[:length], trans_params)
            assert list(viterbi_seq) == list(decoded[:length])
            yield viterbi_seq


def main(_):
    tf.set_random_seed(0)
    model = NERModel()
    rng = np.random.default_rng(0)
    losses = []
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(FLAGS.steps):
            _, train_loss = sess.run([model.train_op, model.loss], model.feed(*sentences(rng)))
            losses.append(float(train_loss))
        if FLAGS.steps == 80:
            words, tags, lengths = sentences(rng)
            found = model.predict(sess, model.feed(words, tags, lengths))
            right = [a == b for seq, row in zip(found, tags) for a, b in zip(seq, row)]
            print("accuracy", np.mean(right))
            assert np.mean(right) > 0.9, np.mean(right)
    print("losses:", json.dumps(losses))


if __name__ == "__main__":
    tf.app.run()
