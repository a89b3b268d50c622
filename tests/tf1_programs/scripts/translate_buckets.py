"""The translation tutorial's model, small: buckets, attention, sampled softmax; it learns to turn sequences round."""

import json
import random

import numpy as np
import tensorflow as tf

tf.app.flags.DEFINE_integer("steps", 150, "training steps")
FLAGS = tf.app.flags.FLAGS

PAD_ID, GO_ID, EOS_ID = 0, 1, 2
VOCAB_SIZE, SIZE, BATCH_SIZE = 20, 32, 32
_buckets = [(3, 4), (5, 6)]


class Seq2SeqModel:
    def __init__(self, forward_only=False):
        self.global_step = tf.Variable(0, trainable=False)
        self.learning_rate = tf.Variable(0.01, trainable=False)
        w_t = tf.get_variable("proj_w", [VOCAB_SIZE, SIZE])
        w = tf.transpose(w_t)
        b = tf.get_variable("proj_b", [VOCAB_SIZE])
        output_projection = (w, b)

        def sampled_loss(labels, logits):
            labels = tf.reshape(labels, [-1, 1])
            return tf.nn.sampled_softmax_loss(
                weights=w_t, biases=b, labels=labels, inputs=logits, num_sampled=12, num_classes=VOCAB_SIZE
            )

        def seq2seq_f(encoder_inputs, decoder_inputs, do_decode):
            return tf.contrib.legacy_seq2seq.embedding_attention_seq2seq(
                encoder_inputs,
                decoder_inputs,
                tf.contrib.rnn.GRUCell(SIZE),
                num_encoder_symbols=VOCAB_SIZE,
                num_decoder_symbols=VOCAB_SIZE,
                embedding_size=SIZE,
                output_projection=output_projection,
                feed_previous=do_decode,
            )

        self.encoder_inputs = [tf.placeholder(tf.int32, [None], f"encoder{i}") for i in range(_buckets[-1][0])]
        self.decoder_inputs = [tf.placeholder(tf.int32, [None], f"decoder{i}") for i in range(_buckets[-1][1] + 1)]
        self.target_weights = [tf.placeholder(tf.float32, [None], f"weight{i}") for i in range(_buckets[-1][1] + 1)]
        targets = self.decoder_inputs[1:]
        self.outputs, self.losses = tf.contrib.legacy_seq2seq.model_with_buckets(
            self.encoder_inputs,
            self.decoder_inputs,
            targets,
            self.target_weights,
            _buckets,
            lambda x, y: seq2seq_f(x, y, forward_only),
            softmax_loss_function=sampled_loss,
        )
        if forward_only:
            self.outputs = [[tf.matmul(each, w) + b for each in outputs] for outputs in self.outputs]
            return
        params = tf.trainable_variables()
        opt = tf.train.AdamOptimizer(self.learning_rate)
        self.updates = []
        for loss in self.losses:
            clipped, _ = tf.clip_by_global_norm(tf.gradients(loss, params), 5.0)
            self.updates.append(opt.apply_gradients(zip(clipped, params), global_step=self.global_step))

    def feed(self, batch, bucket_id):
        encoder_size, decoder_size = _buckets[bucket_id]
        encoder, decoder, weights = batch
        feed = {self.encoder_inputs[t]: encoder[t] for t in range(encoder_size)}
        feed.update({self.decoder_inputs[t]: decoder[t] for t in range(decoder_size)})
        feed.update({self.target_weights[t]: weights[t] for t in range(decoder_size)})
        feed[self.decoder_inputs[decoder_size]] = np.zeros(len(encoder[0]), np.int32)
        return feed


def get_batch(rng, bucket_id):
    encoder_size, decoder_size = _buckets[bucket_id]
    encoder = np.full((BATCH_SIZE, encoder_size), PAD_ID, np.int32)
    decoder = np.full((BATCH_SIZE, decoder_size), PAD_ID, np.int32)
    weights = np.zeros((BATCH_SIZE, decoder_size), np.float32)
    for row in range(BATCH_SIZE):
        words = rng.integers(3, VOCAB_SIZE, rng.integers(2, encoder_size + 1))
        encoder[row, encoder_size - len(words) :] = words[::-1]
        decoder[row, : len(words) + 1] = [GO_ID, *words[::-1]]
        weights[row, : len(words) + 1] = 1.0
        if len(words) + 1 < decoder_size:
            decoder[row, len(words) + 1] = EOS_ID
    return encoder.T, decoder.T, weights.T


def main(_):
    random.seed(0)
    tf.set_random_seed(3)
    rng = np.random.default_rng(0)
    with tf.variable_scope("model"):
        model = Seq2SeqModel()
    with tf.variable_scope("model", reuse=True):
        decoding = Seq2SeqModel(forward_only=True)
    losses = []
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(FLAGS.steps):
            bucket_id = random.randrange(len(_buckets))
            feed = model.feed(get_batch(rng, bucket_id), bucket_id)
            loss, _ = sess.run([model.losses[bucket_id], model.updates[bucket_id]], feed)
            losses.append(float(loss))
        if FLAGS.steps == 150:
            batch = get_batch(rng, 0)
            logits = sess.run(decoding.outputs[0], decoding.feed(batch, 0))
            right = np.stack([np.argmax(each, 1) for each in logits[:-1]]) == batch[1][1:]
            words = batch[1][1:] >= 3
            print("words right", right[words].mean())
            assert right[words].mean() > 0.6, right[words].mean()
            assert np.mean(losses[-10:]) < 0.5 * np.mean(losses[:10]), losses
    print("losses:", json.dumps(losses))


if __name__ == "__main__":
    tf.app.run()
