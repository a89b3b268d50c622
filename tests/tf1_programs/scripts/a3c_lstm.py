"""A3C's LSTM: workers with networks of their own act, and train the global one, whose weights they then copy."""
# tensorflow.compat.v1 runs this.

import json

import numpy as np
import tensorflow as tf

tf.app.flags.DEFINE_integer("steps", 200, "updates of the global network")
FLAGS = tf.app.flags.FLAGS

S_SIZE, A_SIZE, UNITS, EPISODE, GAMMA = 4, 3, 16, 12, 0.1


class Corridor(object):
    """Shows one of three signs; the action that it names is rewarded a step later, when it is no longer to be seen."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def reset(self):
        self.sign = None
        return self.look()

    def look(self):
        self.shown = self.rng.integers(A_SIZE)
        state = np.zeros(S_SIZE, np.float32)
        state[self.shown] = 1.0
        return state

    def step(self, action):
        reward = 0.0 if self.sign is None else float(action == self.sign)
        self.sign = self.shown
        return self.look(), reward


class ACNetwork(object):
    def __init__(self, scope, trainer):
        with tf.variable_scope(scope):
            self.inputs = tf.placeholder(tf.float32, [None, S_SIZE])
            hidden = tf.layers.dense(self.inputs, 16, tf.nn.elu)
            lstm_cell = tf.nn.rnn_cell.BasicLSTMCell(UNITS, state_is_tuple=True)
            c_in = tf.placeholder(tf.float32, [1, lstm_cell.state_size.c])
            h_in = tf.placeholder(tf.float32, [1, lstm_cell.state_size.h])
            self.state_init = [np.zeros((1, UNITS), np.float32), np.zeros((1, UNITS), np.float32)]
            self.state_in = (c_in, h_in)
            rnn_in = tf.expand_dims(hidden, [0])
            step_size = tf.shape(self.inputs)[:1]
            lstm_outputs, lstm_state = tf.nn.dynamic_rnn(
                lstm_cell,
                rnn_in,
                initial_state=tf.nn.rnn_cell.LSTMStateTuple(c_in, h_in),
                sequence_length=step_size,
                time_major=False,
            )
            lstm_c, lstm_h = lstm_state
            self.state_out = (lstm_c[:1, :], lstm_h[:1, :])
            rnn_out = tf.reshape(lstm_outputs, [-1, UNITS])
            self.policy = tf.layers.dense(rnn_out, A_SIZE, tf.nn.softmax)
            self.value = tf.layers.dense(rnn_out, 1)

            if scope != "global":
                self.actions = tf.placeholder(tf.int32, [None])
                self.target_v = tf.placeholder(tf.float32, [None])
                self.advantages = tf.placeholder(tf.float32, [None])
                actions_onehot = tf.one_hot(self.actions, A_SIZE, dtype=tf.float32)
                responsible_outputs = tf.reduce_sum(self.policy * actions_onehot, [1])
                self.value_loss = 0.5 * tf.reduce_sum(tf.square(self.target_v - tf.reshape(self.value, [-1])))
                self.entropy = -tf.reduce_sum(self.policy * tf.log(self.policy))
                self.policy_loss = -tf.reduce_sum(tf.log(responsible_outputs) * self.advantages)
                self.loss = 0.5 * self.value_loss + self.policy_loss - self.entropy * 0.05
                local_vars = tf.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES, scope)
                grads, self.grad_norms = tf.clip_by_global_norm(tf.gradients(self.loss, local_vars), 40.0)
                global_vars = tf.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES, "global")
                self.apply_grads = trainer.apply_gradients(zip(grads, global_vars))
                self.copy = [to.assign(given) for to, given in zip(local_vars, global_vars)]


class Worker(object):
    def __init__(self, number, trainer):
        self.network = ACNetwork("worker_%d" % number, trainer)
        self.env = Corridor(number)
        self.rng = np.random.default_rng(100 + number)

    def work(self, sess):
        net = self.network
        sess.run(net.copy)
        s, rnn_state = self.env.reset(), net.state_init
        states, actions, rewards, values = [], [], [], []
        for _ in range(EPISODE):
            feed = {net.inputs: [s], net.state_in[0]: rnn_state[0], net.state_in[1]: rnn_state[1]}
            a_dist, v, rnn_state = sess.run([net.policy, net.value, net.state_out], feed)
            a = min(int(np.searchsorted(np.cumsum(a_dist[0]), self.rng.uniform())), A_SIZE - 1)
            s1, r = self.env.step(a)
            states.append(s)
            actions.append(a)
            rewards.append(r)
            values.append(v[0, 0])
            s = s1
        returns = np.zeros(EPISODE, np.float32)
        running = 0.0
        for t in reversed(range(EPISODE)):
            running = rewards[t] + GAMMA * running
            returns[t] = running
        feed = {
            net.inputs: np.array(states),
            net.actions: actions,
            net.target_v: returns,
            net.advantages: returns - np.array(values),
            net.state_in[0]: net.state_init[0],
            net.state_in[1]: net.state_init[1],
        }
        loss, _, _ = sess.run([net.loss, net.apply_grads, net.grad_norms], feed)
        return float(loss), np.mean(rewards[1:])


def main(_):
    tf.set_random_seed(0)
    global_episodes = tf.Variable(0, dtype=tf.int32, name="global_episodes", trainable=False)
    trainer = tf.train.AdamOptimizer(learning_rate=0.02)
    ACNetwork("global", None)
    workers = [Worker(k, trainer) for k in range(2)]
    increment = global_episodes.assign_add(1)
    losses, rewards = [], []
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        while sess.run(global_episodes) < FLAGS.steps:
            loss, reward = workers[len(losses) % 2].work(sess)
            losses.append(loss)
            rewards.append(reward)
            sess.run(increment)
    if FLAGS.steps == 200:
        print("reward", np.mean(rewards[:20]), "to", np.mean(rewards[-20:]))
        assert np.mean(rewards[-20:]) > 0.7, rewards  # chance is a third
    print("losses:", json.dumps(losses))


if __name__ == "__main__":
    tf.app.run()
