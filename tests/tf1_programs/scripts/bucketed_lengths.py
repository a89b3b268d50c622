"""Sequences of many lengths, batched with others of similar length, and classified by how they end."""
# tensorflow.compat.v1 runs this.

import json

import numpy as np
import tensorflow as tf

tf.app.flags.DEFINE_integer("steps", 100, "training steps")
FLAGS = tf.app.flags.FLAGS
vocabulary, units, classes = 6, 24, 3


def sequences():
    rng = np.random.default_rng(0)
    while True:
        row = rng.integers(0, vocabulary, rng.integers(3, 25))
        yield row, int(row[-1] + row[-2]) % classes


def input_pipeline():
    dataset = tf.data.Dataset.from_generator(
        sequences, (tf.int32, tf.int32), (tf.TensorShape([None]), tf.TensorShape([]))
    )
    dataset = dataset.map(lambda row, label: {"row": row, "length": tf.size(row), "label": label})
    dataset = dataset.apply(
        tf.data.experimental.bucket_by_sequence_length(
            element_length_func=lambda element: element["length"],
            bucket_boundaries=[8, 14, 20],
            bucket_batch_sizes=[32, 24, 16, 12],
            padded_shapes={"row": [None], "length": [], "label": []},
        )
    )
    return dataset.prefetch(2).make_one_shot_iterator().get_next()


def main(_):
    tf.set_random_seed(1)
    batch = input_pipeline()
    embedding = tf.get_variable("embedding", [vocabulary, 8])
    inputs = tf.nn.embedding_lookup(embedding, batch["row"])
    cell = tf.nn.rnn_cell.LSTMCell(units)
    _, state = tf.nn.dynamic_rnn(cell, inputs, sequence_length=batch["length"], dtype=tf.float32)
    logits = tf.layers.dense(state.h, classes)
    loss = tf.losses.sparse_softmax_cross_entropy(labels=batch["label"], logits=logits)
    correct = tf.equal(tf.argmax(logits, 1, output_type=tf.int32), batch["label"])
    accuracy = tf.reduce_mean(tf.cast(correct, tf.float32))
    train_op = tf.train.AdamOptimizer(0.03).minimize(loss)

    losses, widths, scores = [], set(), []
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(FLAGS.steps):
            _, value, lengths, score = sess.run([train_op, loss, batch["length"], accuracy])
            losses.append(float(value))
            scores.append(score)
            widths.add(len(lengths))
            assert lengths.max() - lengths.min() < 8, lengths
    if FLAGS.steps == 100:
        print("batches of", sorted(widths), "accuracy", np.mean(scores[-10:]))
        assert widths == {32, 24, 16, 12}, widths
        assert np.mean(scores[-10:]) > 0.9, scores[-10:]
    print("losses:", json.dumps(losses))


if __name__ == "__main__":
    tf.app.run()
