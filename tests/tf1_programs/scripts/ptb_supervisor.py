"""A language model on a corpus read by queues: training, validation and test graphs share their variables.

A Supervisor runs them; the learning rate is a variable that every epoch assigns.
"""
# tensorflow.compat.v1 runs this.

import json
import time

import numpy as np
import tensorflow as tf

flags = tf.app.flags
logging = tf.logging

flags.DEFINE_integer("steps", 150, "training steps")
flags.DEFINE_string("save_path", None, "Model output directory.")
FLAGS = flags.FLAGS


class SmallConfig:
    init_scale = 0.1
    learning_rate = 0.25
    max_grad_norm = 5
    num_layers = 2
    num_steps = 8
    hidden_size = 24
    max_epoch = 8
    keep_prob = 1.0
    lr_decay = 0.7
    batch_size = 8
    vocab_size = 12


def ptb_producer(raw_data, batch_size, num_steps, name=None):
    with tf.name_scope(name, "PTBProducer", [raw_data, batch_size, num_steps]):
        raw_data = tf.convert_to_tensor(raw_data, name="raw_data", dtype=tf.int32)
        data_len = tf.size(raw_data)
        batch_len = data_len // batch_size
        data = tf.reshape(raw_data[0 : batch_size * batch_len], [batch_size, batch_len])

        epoch_size = (batch_len - 1) // num_steps
        assertion = tf.assert_positive(epoch_size, message="epoch_size == 0, decrease batch_size or num_steps")
        with tf.control_dependencies([assertion]):
            epoch_size = tf.identity(epoch_size, name="epoch_size")

        i = tf.train.range_input_producer(epoch_size, shuffle=False).dequeue()
        x = tf.strided_slice(data, [0, i * num_steps], [batch_size, (i + 1) * num_steps])
        x.set_shape([batch_size, num_steps])
        y = tf.strided_slice(data, [0, i * num_steps + 1], [batch_size, (i + 1) * num_steps + 1])
        y.set_shape([batch_size, num_steps])
        return x, y


class PTBInput:
    def __init__(self, config, data, name=None):
        self.batch_size = config.batch_size
        self.num_steps = config.num_steps
        self.epoch_size = ((len(data) // self.batch_size) - 1) // self.num_steps
        self.input_data, self.targets = ptb_producer(data, self.batch_size, self.num_steps, name=name)


class PTBModel:
    def __init__(self, is_training, config, input_):
        self.input = input_
        size = config.hidden_size

        def lstm_cell():
            return tf.nn.rnn_cell.BasicLSTMCell(size, forget_bias=0.0, state_is_tuple=True)

        cell = tf.nn.rnn_cell.MultiRNNCell([lstm_cell() for _ in range(config.num_layers)], state_is_tuple=True)
        self.initial_state = cell.zero_state(input_.batch_size, tf.float32)
        with tf.device("/cpu:0"):
            embedding = tf.get_variable("embedding", [config.vocab_size, size], dtype=tf.float32)
            inputs = tf.nn.embedding_lookup(embedding, input_.input_data)

        outputs = []
        state = self.initial_state
        with tf.variable_scope("RNN"):
            for time_step in range(input_.num_steps):
                if time_step > 0:
                    tf.get_variable_scope().reuse_variables()
                (cell_output, state) = cell(inputs[:, time_step, :], state)
                outputs.append(cell_output)

        output = tf.reshape(tf.concat(outputs, 1), [-1, size])
        softmax_w = tf.get_variable("softmax_w", [size, config.vocab_size], dtype=tf.float32)
        softmax_b = tf.get_variable("softmax_b", [config.vocab_size], dtype=tf.float32)
        logits = tf.matmul(output, softmax_w) + softmax_b
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tf.reshape(input_.targets, [-1]), logits=logits)
        self.cost = tf.reduce_sum(loss) / input_.batch_size
        self.final_state = state
        if not is_training:
            return

        self.lr = tf.Variable(0.0, trainable=False)
        tvars = tf.trainable_variables()
        grads, _ = tf.clip_by_global_norm(tf.gradients(self.cost, tvars), config.max_grad_norm)
        optimizer = tf.train.GradientDescentOptimizer(self.lr)
        self.train_op = optimizer.apply_gradients(zip(grads, tvars), global_step=tf.train.get_or_create_global_step())
        self.new_lr = tf.placeholder(tf.float32, shape=[], name="new_learning_rate")
        self.lr_update = tf.assign(self.lr, self.new_lr)

    def assign_lr(self, session, lr_value):
        session.run(self.lr_update, feed_dict={self.new_lr: lr_value})


def run_epoch(session, model, eval_op=None, most=None, losses=None):
    costs = 0.0
    iters = 0
    state = session.run(model.initial_state)
    fetches = {"cost": model.cost, "final_state": model.final_state}
    if eval_op is not None:
        fetches["eval_op"] = eval_op
    for _ in range(model.input.epoch_size if most is None else min(most, model.input.epoch_size)):
        feed_dict = {}
        for i, (c, h) in enumerate(model.initial_state):
            feed_dict[c] = state[i].c
            feed_dict[h] = state[i].h
        vals = session.run(fetches, feed_dict)
        state = vals["final_state"]
        costs += vals["cost"]
        iters += model.input.num_steps
        if losses is not None:
            losses.append(float(vals["cost"]))
    return np.exp(costs / iters)


def corpus(rng, length):
    """Words that follow each other by a rule, most of the time."""
    words = [0]
    while len(words) < length:
        follows = (3 * words[-1] + 1) % SmallConfig.vocab_size
        words.append(int(rng.integers(SmallConfig.vocab_size)) if rng.random() < 0.05 else follows)
    return words


def main(_):
    rng = np.random.default_rng(0)
    train_data, valid_data, test_data = corpus(rng, 1000), corpus(rng, 300), corpus(rng, 300)
    config, eval_config = SmallConfig(), SmallConfig()
    eval_config.batch_size = 1
    eval_config.num_steps = 1
    losses = []
    with tf.Graph().as_default():
        initializer = tf.random_uniform_initializer(-config.init_scale, config.init_scale)
        with tf.name_scope("Train"):
            train_input = PTBInput(config=config, data=train_data, name="TrainInput")
            with tf.variable_scope("Model", reuse=None, initializer=initializer):
                m = PTBModel(is_training=True, config=config, input_=train_input)
            tf.summary.scalar("Training Loss", m.cost)
        with tf.name_scope("Valid"):
            valid_input = PTBInput(config=config, data=valid_data, name="ValidInput")
            with tf.variable_scope("Model", reuse=True, initializer=initializer):
                mvalid = PTBModel(is_training=False, config=config, input_=valid_input)
        with tf.name_scope("Test"):
            test_input = PTBInput(config=eval_config, data=test_data, name="TestInput")
            with tf.variable_scope("Model", reuse=True, initializer=initializer):
                mtest = PTBModel(is_training=False, config=eval_config, input_=test_input)

        sv = tf.train.Supervisor(logdir=FLAGS.save_path)
        with sv.managed_session() as session:
            start, epoch, perplexity = time.time(), 0, None
            while len(losses) < FLAGS.steps and not sv.should_stop():
                lr_decay = config.lr_decay ** max(epoch + 1 - config.max_epoch, 0.0)
                m.assign_lr(session, config.learning_rate * lr_decay)
                print("Epoch: %d Learning rate: %.3f" % (epoch + 1, session.run(m.lr)))
                train_perplexity = run_epoch(session, m, m.train_op, FLAGS.steps - len(losses), losses)
                print("Epoch: %d Train Perplexity: %.3f" % (epoch + 1, train_perplexity))
                perplexity = run_epoch(session, mvalid)
                print("Epoch: %d Valid Perplexity: %.3f" % (epoch + 1, perplexity))
                epoch += 1
            test_perplexity = run_epoch(session, mtest)
            print("Test Perplexity: %.3f after %.0f s" % (test_perplexity, time.time() - start))
            if FLAGS.save_path:
                sv.saver.save(session, FLAGS.save_path, global_step=sv.global_step)
    if FLAGS.steps == 150:
        assert test_perplexity < 4.0, test_perplexity
    print("losses:", json.dumps(losses))


if __name__ == "__main__":
    tf.app.run()
