"""A chatbot of a few answers: embedding_rnn_seq2seq, which reads its own answers where a placeholder says so."""

import json

import numpy as np
import tensorflow as tf
from tensorflow.contrib.legacy_seq2seq import embedding_rnn_seq2seq, sequence_loss

tf.app.flags.DEFINE_integer("steps", 80, "training steps")
FLAGS = tf.app.flags.FLAGS

DIALOG = [
    ("hello", "hi there"),
    ("how are you", "i am fine"),
    ("what is your name", "my name is bot"),
    ("do you like rain", "no i like sun"),
    ("good bye", "see you"),
]
PAD, GO, EOS = "_PAD", "_GO", "_EOS"
vocab = [PAD, GO, EOS, *sorted({word for pair in DIALOG for text in pair for word in text.split()})]
ids = {word: i for i, word in enumerate(vocab)}
ENCODER_SIZE, DECODER_SIZE = 4, 6


def encode(question):
    words = [ids[word] for word in question.split()]
    return [ids[PAD]] * (ENCODER_SIZE - len(words)) + words[::-1]


def answer_ids(answer):
    words = [ids[GO], *(ids[word] for word in answer.split()), ids[EOS]]
    return words + [ids[PAD]] * (DECODER_SIZE + 1 - len(words))


encoder_inputs = [tf.placeholder(tf.int32, [None], name=f"encoder{i}") for i in range(ENCODER_SIZE)]
decoder_inputs = [tf.placeholder(tf.int32, [None], name=f"decoder{i}") for i in range(DECODER_SIZE + 1)]
feed_previous = tf.placeholder(tf.bool, [], name="feed_previous")
keep_prob = tf.placeholder_with_default(1.0, [], name="keep_prob")

tf.set_random_seed(2)
cell = tf.contrib.rnn.DropoutWrapper(tf.contrib.rnn.BasicLSTMCell(32), output_keep_prob=keep_prob)
outputs, state = embedding_rnn_seq2seq(
    encoder_inputs,
    decoder_inputs[:-1],
    cell,
    num_encoder_symbols=len(vocab),
    num_decoder_symbols=len(vocab),
    embedding_size=16,
    feed_previous=feed_previous,
)
targets = decoder_inputs[1:]
weights = [tf.cast(tf.not_equal(target, ids[PAD]), tf.float32) for target in targets]
loss = sequence_loss(outputs, targets, weights)
train_op = tf.train.AdamOptimizer(0.03).minimize(loss)
predicted = [tf.argmax(output, 1) for output in outputs]


def feed(dialog, previous, keep=1.0):
    questions = np.array([encode(question) for question, _ in dialog])
    answers = np.array([answer_ids(answer) for _, answer in dialog])
    values = dict(zip(encoder_inputs, questions.T))
    values.update(zip(decoder_inputs, answers.T))
    values.update({feed_previous: previous, keep_prob: keep})
    return values


losses = []
rng = np.random.default_rng(0)
with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    for _ in range(FLAGS.steps):
        rows = [DIALOG[k] for k in rng.integers(0, len(DIALOG), 16)]
        _, value = sess.run([train_op, loss], feed(rows, previous=False, keep=0.9))
        losses.append(float(value))
    if FLAGS.steps == 80:
        found = np.array(sess.run(predicted, feed([(question, "") for question, _ in DIALOG], previous=True))).T
        for (question, answer), row in zip(DIALOG, found):
            said = " ".join(vocab[k] for k in row[: list(row).index(ids[EOS])] if k) if ids[EOS] in row else "?"
            print(question, "->", said)
            assert said == answer, (said, answer)
print("losses:", json.dumps(losses))
