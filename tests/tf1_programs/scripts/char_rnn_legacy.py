"""A character model in the style of char-rnn: trained, saved, built again for one character, and asked for text."""

import json
import os

import numpy as np
import tensorflow as tf
from tensorflow.contrib import legacy_seq2seq, rnn

tf.app.flags.DEFINE_integer("steps", 80, "training steps")
tf.app.flags.DEFINE_string("save_dir", "save", "where the model is kept")
FLAGS = tf.app.flags.FLAGS

TEXT = "she sells sea shells by the sea shore. " * 8
CHARS = sorted(set(TEXT))
VOCAB = {c: i for i, c in enumerate(CHARS)}


class Model:
    def __init__(self, batch_size, seq_length, rnn_size=48, num_layers=2, infer=False):
        cells = [rnn.BasicLSTMCell(rnn_size) for _ in range(num_layers)]
        self.cell = cell = rnn.MultiRNNCell(cells, state_is_tuple=True)
        self.input_data = tf.placeholder(tf.int32, [batch_size, seq_length])
        self.targets = tf.placeholder(tf.int32, [batch_size, seq_length])
        self.initial_state = cell.zero_state(batch_size, tf.float32)

        with tf.variable_scope("rnnlm"):
            softmax_w = tf.get_variable("softmax_w", [rnn_size, len(CHARS)])
            softmax_b = tf.get_variable("softmax_b", [len(CHARS)])
            embedding = tf.get_variable("embedding", [len(CHARS), rnn_size])
            inputs = tf.split(tf.nn.embedding_lookup(embedding, self.input_data), seq_length, 1)
            inputs = [tf.squeeze(input_, [1]) for input_ in inputs]

        def loop(prev, _):
            prev = tf.matmul(prev, softmax_w) + softmax_b
            prev_symbol = tf.stop_gradient(tf.argmax(prev, 1))
            return tf.nn.embedding_lookup(embedding, prev_symbol)

        outputs, last_state = legacy_seq2seq.rnn_decoder(
            inputs, self.initial_state, cell, loop_function=loop if infer else None, scope="rnnlm"
        )
        output = tf.reshape(tf.concat(outputs, 1), [-1, rnn_size])
        self.logits = tf.matmul(output, softmax_w) + softmax_b
        self.probs = tf.nn.softmax(self.logits)
        loss = legacy_seq2seq.sequence_loss_by_example(
            [self.logits], [tf.reshape(self.targets, [-1])], [tf.ones([batch_size * seq_length])]
        )
        self.cost = tf.reduce_sum(loss) / batch_size / seq_length
        self.final_state = last_state
        self.lr = tf.Variable(0.0, trainable=False)
        tvars = tf.trainable_variables()
        grads, _ = tf.clip_by_global_norm(tf.gradients(self.cost, tvars), 5.0)
        self.train_op = tf.train.AdamOptimizer(self.lr).apply_gradients(zip(grads, tvars))

    def sample(self, sess, num, prime):
        state = sess.run(self.cell.zero_state(1, tf.float32))
        for char in prime[:-1]:
            state = sess.run(self.final_state, {self.input_data: [[VOCAB[char]]], self.initial_state: state})
        found = prime
        for _ in range(num):
            feed = {self.input_data: [[VOCAB[found[-1]]]], self.initial_state: state}
            probs, state = sess.run([self.probs, self.final_state], feed)
            found += CHARS[int(np.argmax(probs[0]))]
        return found


def train():
    data = np.array([VOCAB[c] for c in TEXT])
    batch_size, seq_length = 8, 12
    model = Model(batch_size, seq_length)
    rng = np.random.default_rng(0)
    losses = []
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        saver = tf.train.Saver(tf.global_variables())
        sess.run(tf.assign(model.lr, 0.01))
        for _ in range(FLAGS.steps):
            starts = rng.integers(0, len(data) - seq_length - 1, batch_size)
            rows = np.stack([data[s : s + seq_length + 1] for s in starts])
            feed = {model.input_data: rows[:, :-1], model.targets: rows[:, 1:]}
            train_loss, _, _ = sess.run([model.cost, model.final_state, model.train_op], feed)
            losses.append(float(train_loss))
        os.makedirs(FLAGS.save_dir, exist_ok=True)
        saver.save(sess, os.path.join(FLAGS.save_dir, "model.ckpt"), global_step=FLAGS.steps)
    return losses


def main(_):
    losses = train()
    tf.reset_default_graph()
    model = Model(1, 1, infer=True)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        ckpt = tf.train.get_checkpoint_state(FLAGS.save_dir)
        tf.train.Saver(tf.global_variables()).restore(sess, ckpt.model_checkpoint_path)
        text = model.sample(sess, 30, "she sells ")
    print(text)
    if FLAGS.steps == 80:
        assert losses[-1] < 0.25 * losses[0], losses
        assert text.startswith("she sells sea shells by "), text
    print("losses:", json.dumps(losses))


if __name__ == "__main__":
    tf.app.run()
