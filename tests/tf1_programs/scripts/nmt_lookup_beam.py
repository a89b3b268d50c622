"""Translation of spelled numbers: text lines, lookup tables and padded batches into an encoder and a decoder.

Attention while it trains, beam search when it translates, and words again from numbers by a table.
"""

import json
import os
import tempfile

import numpy as np
import tensorflow as tf

flags = tf.app.flags
flags.DEFINE_integer("steps", 120, "training steps")
FLAGS = flags.FLAGS

UNK, SOS, EOS = "<unk>", "<s>", "</s>"
SOURCE = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
TARGET = ["null", "eins", "zwei", "drei", "vier", "fuenf", "sechs", "sieben", "acht", "neun"]
batch_size, units, src_max_len, tgt_max_len = 16, 32, 6, 6


def write(folder, rng, count):
    """Sentences, and the same backwards in another language."""
    paths = [os.path.join(folder, name) for name in ("train.src", "train.tgt", "vocab.src", "vocab.tgt")]
    rows = [rng.integers(0, 10, rng.integers(2, 6)) for _ in range(count)]
    texts = [
        "\n".join(" ".join(SOURCE[n] for n in row) for row in rows),
        "\n".join(" ".join(TARGET[n] for n in row[::-1]) for row in rows),
        "\n".join([UNK, SOS, EOS, *SOURCE]),
        "\n".join([UNK, SOS, EOS, *TARGET]),
    ]
    for path, text in zip(paths, texts, strict=True):
        with tf.gfile.GFile(path, "w") as file:
            file.write(text + "\n")
    return paths


def get_iterator(src_dataset, tgt_dataset, src_table, tgt_table):
    src_eos_id = tf.cast(src_table.lookup(tf.constant(EOS)), tf.int32)
    tgt_sos_id = tf.cast(tgt_table.lookup(tf.constant(SOS)), tf.int32)
    tgt_eos_id = tf.cast(tgt_table.lookup(tf.constant(EOS)), tf.int32)
    dataset = tf.data.Dataset.zip((src_dataset, tgt_dataset)).repeat()
    dataset = dataset.map(
        lambda src, tgt: (tf.string_split([src]).values, tf.string_split([tgt]).values), num_parallel_calls=4
    ).prefetch(100)
    dataset = dataset.filter(lambda src, tgt: tf.logical_and(tf.size(src) > 0, tf.size(tgt) > 0))
    dataset = dataset.map(lambda src, tgt: (src[:src_max_len], tgt[:tgt_max_len]))
    dataset = dataset.map(
        lambda src, tgt: (tf.cast(src_table.lookup(src), tf.int32), tf.cast(tgt_table.lookup(tgt), tf.int32))
    )
    dataset = dataset.map(lambda src, tgt: (src, tf.concat(([tgt_sos_id], tgt), 0), tf.concat((tgt, [tgt_eos_id]), 0)))
    dataset = dataset.map(lambda src, tgt_in, tgt_out: (src, tgt_in, tgt_out, tf.size(src), tf.size(tgt_in)))

    def batching_func(x):
        return x.padded_batch(
            batch_size,
            padded_shapes=(
                tf.TensorShape([None]),
                tf.TensorShape([None]),
                tf.TensorShape([None]),
                tf.TensorShape([]),
                tf.TensorShape([]),
            ),
            padding_values=(src_eos_id, tgt_eos_id, tgt_eos_id, 0, 0),
        )

    def key_func(src, tgt_in, tgt_out, src_len, tgt_len):
        return tf.to_int64(tf.maximum(src_len // 3, tgt_len // 3))

    def reduce_func(key, windowed_data):
        return batching_func(windowed_data)

    batched = dataset.apply(
        tf.contrib.data.group_by_window(key_func=key_func, reduce_func=reduce_func, window_size=batch_size)
    )
    return batched.make_initializable_iterator()


class Model:
    def __init__(self, iterator):
        source, target_in, target_out, src_len, tgt_len = iterator.get_next()
        vocab_size = len(TARGET) + 3
        with tf.variable_scope("encoder"):
            embedding = tf.get_variable("embedding", [len(SOURCE) + 3, units])
            inputs = tf.nn.embedding_lookup(embedding, source)
            encoder_outputs, encoder_state = tf.nn.dynamic_rnn(
                tf.nn.rnn_cell.LSTMCell(units), inputs, sequence_length=src_len, dtype=tf.float32
            )
        decoder_embedding = tf.get_variable("decoder_embedding", [vocab_size, units])
        projection = tf.layers.Dense(vocab_size, use_bias=False, name="projection")

        def cell_with_attention(memory, lengths):
            attention = tf.contrib.seq2seq.LuongAttention(units, memory, memory_sequence_length=lengths)
            cell = tf.nn.rnn_cell.LSTMCell(units)
            return tf.contrib.seq2seq.AttentionWrapper(cell, attention, attention_layer_size=units)

        with tf.variable_scope("decoder") as scope:
            cell = cell_with_attention(encoder_outputs, src_len)
            size = tf.shape(source)[0]
            start = cell.zero_state(size, tf.float32).clone(cell_state=encoder_state)
            helper = tf.contrib.seq2seq.TrainingHelper(tf.nn.embedding_lookup(decoder_embedding, target_in), tgt_len)
            decoder = tf.contrib.seq2seq.BasicDecoder(cell, helper, start, output_layer=projection)
            outputs, _, _ = tf.contrib.seq2seq.dynamic_decode(decoder, scope=scope)
        mask = tf.sequence_mask(tgt_len, dtype=tf.float32)
        self.loss = tf.contrib.seq2seq.sequence_loss(outputs.rnn_output, target_out, mask)
        self.target_out, self.tgt_len = target_out, tgt_len

        beam_width = 3
        with tf.variable_scope("decoder", reuse=True) as scope:
            tiled = [
                tf.contrib.seq2seq.tile_batch(each, beam_width) for each in (encoder_outputs, encoder_state, src_len)
            ]
            cell = cell_with_attention(tiled[0], tiled[2])
            start = cell.zero_state(size * beam_width, tf.float32).clone(cell_state=tiled[1])
            beams = tf.contrib.seq2seq.BeamSearchDecoder(
                cell, decoder_embedding, tf.fill([size], 1), 2, start, beam_width, output_layer=projection
            )
            decoded, _, _ = tf.contrib.seq2seq.dynamic_decode(beams, maximum_iterations=8, scope=scope)
        self.translation = decoded.predicted_ids[:, :, 0]


def main(_):
    tf.set_random_seed(1)
    rng = np.random.default_rng(0)
    src_file, tgt_file, src_vocab, tgt_vocab = write(tempfile.mkdtemp(), rng, 200)
    src_table = tf.contrib.lookup.index_table_from_file(src_vocab, default_value=0)
    tgt_table = tf.contrib.lookup.index_table_from_file(tgt_vocab, default_value=0)
    reverse_table = tf.contrib.lookup.index_to_string_table_from_file(tgt_vocab, default_value=UNK)
    iterator = get_iterator(tf.data.TextLineDataset(src_file), tf.data.TextLineDataset(tgt_file), src_table, tgt_table)
    model = Model(iterator)
    params = tf.trainable_variables()
    gradients, _ = tf.clip_by_global_norm(tf.gradients(model.loss, params), 5.0)
    train_op = tf.train.AdamOptimizer(0.01).apply_gradients(zip(gradients, params))
    words = reverse_table.lookup(tf.to_int64(model.translation))

    losses = []
    with tf.Session() as sess:
        sess.run([tf.global_variables_initializer(), tf.tables_initializer()])
        sess.run(iterator.initializer)
        for _ in range(FLAGS.steps):
            loss, _ = sess.run([model.loss, train_op])
            losses.append(float(loss))
        if FLAGS.steps == 120:
            found, spelled, wanted, lengths = sess.run([model.translation, words, model.target_out, model.tgt_len])
            right = [
                np.array_equal(row[: n - 1], target[: n - 1])
                for row, target, n in zip(found, wanted, lengths, strict=True)
            ]
            print(b" ".join(spelled[0]).decode(), np.mean(right))
            assert np.mean(right) > 0.7, np.mean(right)
    print("losses:", json.dumps(losses))


if __name__ == "__main__":
    tf.app.run()
