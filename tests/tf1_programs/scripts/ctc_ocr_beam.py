"""Reading lines of glyphs: columns of pixels into an LSTM, CTC for the loss, and beam search for the text."""
# tensorflow.compat.v1 runs this.

import json

import numpy as np
import tensorflow as tf

tf.app.flags.DEFINE_integer("steps", 150, "training steps")
FLAGS = tf.app.flags.FLAGS

DIGITS, HEIGHT, WIDTH, LENGTH, BATCH = 4, 7, 4, 3, 16
GLYPHS = np.random.default_rng(2).integers(0, 2, (DIGITS, HEIGHT, WIDTH)).astype(np.float32)


def line(rng):
    # Some lines hold the same glyph twice: a decoder that merges repeats would lose one.
    text = rng.integers(0, DIGITS, LENGTH)
    if rng.random() < 0.5:
        text[1] = text[0]
    blank = np.zeros((HEIGHT, 1), np.float32)
    columns = np.concatenate([part for digit in text for part in (GLYPHS[digit], blank)], 1)
    return text, columns + 0.1 * rng.normal(size=columns.shape)


def batch(rng):
    texts, images = zip(*(line(rng) for _ in range(BATCH)))
    indices = [[row, k] for row in range(BATCH) for k in range(LENGTH)]
    labels = tf.SparseTensorValue(indices, np.concatenate(texts).astype(np.int32), [BATCH, LENGTH])
    return np.stack(images), labels, np.stack(texts)


def main(_):
    tf.set_random_seed(1)
    images = tf.placeholder(tf.float32, [None, HEIGHT, None])
    labels = tf.sparse_placeholder(tf.int32, shape=[None, None], name="labels")
    columns = tf.transpose(images, [2, 0, 1])
    frames = tf.fill([tf.shape(columns)[1]], tf.shape(columns)[0])
    with tf.variable_scope("reader"):
        outputs, _ = tf.nn.dynamic_rnn(
            tf.nn.rnn_cell.GRUCell(32), columns, frames, dtype=tf.float32, time_major=True, scope="columns"
        )
        logits = tf.layers.dense(outputs, DIGITS + 1, name="logits")
    loss = tf.nn.ctc_loss(labels=labels, inputs=logits, sequence_length=frames, ctc_merge_repeated=True)
    cost = tf.reduce_mean(loss)
    global_step = tf.Variable(0, trainable=False)
    rate = tf.train.exponential_decay(0.02, global_step, 50, 0.8)
    train_op = tf.train.AdamOptimizer(rate).minimize(cost, global_step=global_step)
    decoded, log_prob = tf.nn.ctc_beam_search_decoder(logits, frames, beam_width=10, top_paths=2, merge_repeated=False)
    dense = tf.sparse_tensor_to_dense(decoded[0], default_value=-1)
    distance = tf.edit_distance(tf.cast(decoded[0], tf.int32), labels, normalize=False)

    rng = np.random.default_rng(0)
    losses = []
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(FLAGS.steps):
            x, y, _ = batch(rng)
            _, value = sess.run([train_op, cost], {images: x, labels: y})
            losses.append(float(value))
        if FLAGS.steps == 150:
            x, y, texts = batch(rng)
            read, wrong, chances = sess.run([dense, distance, log_prob], {images: x, labels: y})
            exact = np.mean([list(row[row >= 0]) == list(text) for row, text in zip(read, texts)])
            print("lines read", exact, "wrong glyphs", wrong.mean())
            assert exact > 0.8, exact
            assert (chances[:, 0] >= chances[:, 1]).all()
    print("losses:", json.dumps(losses))


if __name__ == "__main__":
    tf.app.run()
