"""Small programs that return what has a name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

NAMED: dict[str, Callable[[Any], list[Any]]] = {}


def named(program: Callable[[Any], list[Any]]) -> Callable[[Any], list[Any]]:
    """Notes a program by its name."""
    NAMED[program.__name__] = program
    return program


def names(tf: Any, program: str) -> list[str]:
    """The names that a library gives."""
    with tf.Graph().as_default():
        return [each if isinstance(each, str) else each.name for each in NAMED[program](tf)]


@named
def elementwise(tf: Any) -> list[Any]:
    x = tf.placeholder(tf.float32, [2, 3])
    functions = (
        "abs negative sign square sqrt rsqrt reciprocal exp expm1 log log1p sin cos tan asin acos atan sinh cosh"
    )
    functions += " tanh sigmoid erf lgamma floor ceil round is_nan is_inf is_finite log_sigmoid"
    return [x, *(getattr(tf, each)(x) for each in functions.split())]


@named
def arithmetic(tf: Any) -> list[Any]:
    x = tf.placeholder(tf.float32, [2, 3])
    functions = "add subtract multiply divide truediv realdiv floordiv mod floormod div_no_nan pow maximum minimum"
    functions += " squared_difference atan2 equal not_equal less less_equal greater greater_equal"
    return [getattr(tf, each)(x, x) for each in functions.split()]


@named
def logic(tf: Any) -> list[Any]:
    a = tf.placeholder(tf.bool, [2])
    return [tf.logical_not(a), tf.logical_and(a, a), tf.logical_or(a, a), tf.reduce_any(a), tf.reduce_all(a)]


@named
def operators(tf: Any) -> list[Any]:
    x = tf.placeholder(tf.float32, [2, 3])
    made = [x + 1, 1 + x, x - 1, x * 2, x / 2, x // 2, x % 2, x**2, x @ tf.transpose(x), -x, abs(x), x < 1, x >= 1]
    return [*made, x[0], x[:, 1:], x[..., None], x + x]


@named
def truths(tf: Any) -> list[Any]:
    a = tf.placeholder(tf.bool, [2])
    return [a & a, a | a, ~a]


@named
def reductions(tf: Any) -> list[Any]:
    x = tf.placeholder(tf.float32, [2, 3])
    functions = [tf.reduce_sum, tf.reduce_mean, tf.reduce_max, tf.reduce_min, tf.reduce_prod, tf.argmax, tf.argmin]
    return [*(each(x) for each in functions), tf.cumsum(x), tf.matmul(x, x, transpose_b=True)]


@named
def casts(tf: Any) -> list[Any]:
    x = tf.placeholder(tf.float32, [2, 3])
    made = [tf.cast(x, tf.int32), tf.to_float(tf.cast(x, tf.int32)), tf.to_int32(x), tf.identity(x)]
    return [*made, tf.stop_gradient(x), tf.add_n([x, x]), tf.clip_by_value(x, 0.0, 1.0)]


@named
def shapes(tf: Any) -> list[Any]:
    x = tf.placeholder(tf.float32, [2, 3])
    made = [tf.shape(x), tf.rank(x), tf.size(x), tf.reshape(x, [-1]), tf.expand_dims(x, 0), tf.squeeze(x[None])]
    return [*made, tf.transpose(x), tf.zeros_like(x), tf.ones_like(x), tf.fill([2], 1.0), tf.range(3), tf.eye(3).op.name.split("/")[0]]  # fmt: skip  # noqa: E501


@named
def parts(tf: Any) -> list[Any]:
    x = tf.placeholder(tf.float32, [2, 4])
    made = [tf.concat([x, x], 0), tf.stack([x, x]), *tf.unstack(x), *tf.split(x, 2, 1), *tf.split(x, [1, 3], 1)]
    made += [tf.tile(x, [1, 2]), tf.pad(x, [[1, 1], [0, 0]]), tf.reverse(x, [0]), tf.slice(x, [0, 0], [1, 1])]
    return [*made, tf.gather_nd(x, [[0, 0]]), tf.one_hot([0], 2), tf.where(x > 0), tf.where(x > 0, x, x)]


@named
def constants(tf: Any) -> list[Any]:
    return [tf.constant(1), tf.constant(2), tf.constant(3, name="three"), tf.constant(3, name="three"), tf.zeros([2])]


@named
def neural(tf: Any) -> list[Any]:
    x = tf.placeholder(tf.float32, [2, 3])
    functions = [tf.nn.relu, tf.nn.relu6, tf.nn.elu, tf.nn.selu, tf.nn.softplus, tf.nn.softsign, tf.nn.l2_loss]
    functions += [tf.nn.softmax, tf.nn.log_softmax, tf.nn.leaky_relu, tf.nn.sigmoid, tf.nn.tanh]
    made = [each(x) for each in functions]
    return [*made, tf.nn.bias_add(x, tf.zeros([3])), tf.nn.top_k(x).values, tf.nn.xw_plus_b(x, tf.eye(3), x[0])]


@named
def given_names(tf: Any) -> list[Any]:
    x = tf.placeholder(tf.float32, [2, 3], name="x")
    made = [tf.add(x, x, name="sum"), tf.add(x, x, name="sum"), tf.reduce_mean(x, name="loss"), tf.nn.relu(x, "act")]
    made += [tf.matmul(x, x, transpose_b=True, name="product"), tf.reshape(x, [6], name="flat"), tf.identity(x, "out")]
    return [x, *made, tf.concat([x, x], 0, name="both"), tf.stack([x, x], name="pair"), tf.cast(x, tf.int32, "whole")]


@named
def unique_names(tf: Any) -> list[Any]:
    made = [tf.constant(0, name=each) for each in ["a", "a", "a_1", "a", "A", "a_1", "b/c", "b/c", "b"]]
    return [*made, tf.get_default_graph().unique_name("a"), tf.get_default_graph().unique_name("a", mark_as_used=False)]


@named
def name_scopes(tf: Any) -> list[Any]:
    made: list[Any] = []
    for each in ["s", "s", "t/u", "s_1"]:
        with tf.name_scope(each) as scope:
            made += [scope, tf.constant(0), tf.constant(0)]
            with tf.name_scope("inner"):
                made.append(tf.constant(0))
    with tf.name_scope("s/") as scope:
        made += [scope, tf.constant(0)]
    with tf.name_scope("s"), tf.name_scope(None) as scope:
        made += [scope, tf.constant(0)]
    with tf.name_scope(None, "default", [made[1]]) as scope:
        made += [scope, tf.constant(0)]
    with tf.name_scope("given", "default") as scope:
        made += [scope, tf.add(1, 2, name=scope), tf.constant(0, name="k")]
    return made


@named
def variable_scopes(tf: Any) -> list[Any]:
    made: list[Any] = []
    with tf.variable_scope("s") as scope:
        v = tf.get_variable("v", [2])
        made += [scope.name, scope.original_name_scope, v, v * 2.0, tf.constant(0)]
        with tf.variable_scope("inner") as inner:
            made += [inner.name, inner.original_name_scope, tf.get_variable("w", [2]), tf.constant(0)]
    with tf.variable_scope("s", reuse=True):
        made += [tf.get_variable("v", [2]), tf.constant(0)]
    with tf.variable_scope(scope, reuse=True) as again:
        made += [again.name, again.original_name_scope, tf.get_variable("v", [2]), tf.constant(0)]
        with tf.variable_scope(inner):
            made += [tf.constant(0)]
    with tf.variable_scope("s", reuse=tf.AUTO_REUSE):
        made += [tf.get_variable("v", [2]), tf.get_variable("new", [2]), tf.constant(0)]
    with tf.name_scope("outer"), tf.variable_scope("s", reuse=True):
        made += [tf.get_variable("v", [2]), tf.constant(0)]
    with tf.variable_scope("outer2"), tf.variable_scope(scope, reuse=True) as again:
        made += [again.name, tf.get_variable("v", [2]), tf.constant(0)]
    with tf.variable_scope(scope, auxiliary_name_scope=False), tf.name_scope(scope.original_name_scope):
        made += [tf.constant(0)]
    return made


@named
def default_names_of_scopes(tf: Any) -> list[Any]:
    made: list[Any] = []
    for _ in range(3):
        with tf.variable_scope(None, "layer") as scope:
            made += [scope.name, tf.get_variable("v", [1]), tf.constant(0)]
    with tf.variable_scope("model"):
        for _ in range(2):
            with tf.variable_scope(None, default_name="layer") as scope:
                made += [scope.name, tf.get_variable("v", [1]), tf.constant(0)]
    with tf.variable_scope("model", reuse=True), tf.variable_scope(None, "layer") as scope:
        made += [scope.name, tf.get_variable("v", [1]), tf.constant(0)]
    return made


@named
def variables(tf: Any) -> list[Any]:
    made = [tf.Variable(1.0), tf.Variable(1.0), tf.Variable(1.0, name="w"), tf.Variable(1.0, name="w")]
    with tf.name_scope("n"):
        made += [tf.Variable(1.0, name="w"), tf.get_variable("g", [1])]
    with tf.variable_scope("s"):
        made += [tf.Variable(1.0, name="w"), tf.get_variable("g", [1])]
    made += [each.op for each in made]
    return [*made, tf.global_variables_initializer(), tf.no_op(), tf.group(tf.no_op()), made[0].initializer]


@named
def operators_inside_scopes(tf: Any) -> list[Any]:
    x = tf.placeholder(tf.float32, [2, 2], name="in/x")
    with tf.name_scope("layer"):
        made = [x * 2, x + 1, tf.matmul(x, x), tf.nn.relu(x), x[0], tf.reduce_mean(x)]
        with tf.name_scope("layer"):
            made += [x * 2]
    with tf.name_scope("layer"):
        made += [x * 2]
    return [x, *made]


@named
def outputs_of_several(tf: Any) -> list[Any]:
    x = tf.placeholder(tf.float32, [4])
    return [*tf.unstack(x), *tf.split(x, 2), *tf.nn.top_k(x, 2), *tf.unique(x)]


@named
def losses(tf: Any) -> list[Any]:
    x = tf.placeholder(tf.float32, [2, 3])
    sparse = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=[0, 1], logits=x, name="loss")
    soft = tf.nn.softmax_cross_entropy_with_logits_v2(labels=x, logits=x)
    logistic = tf.nn.sigmoid_cross_entropy_with_logits(labels=x, logits=x)
    return [sparse.op.name.split("/")[0], soft.op.name.split("/")[0], logistic.op.name.split("/")[0]]


@named
def control_flow(tf: Any) -> list[Any]:
    x = tf.placeholder(tf.float32, [3])
    made = [tf.while_loop(lambda k: k < 3, lambda k: k + 1, [0]), tf.cond(x[0] > 0, lambda: x, lambda: -x)]
    made += [tf.map_fn(lambda e: e * 2, x), tf.scan(lambda a, b: a + b, x)]
    return [each.op.name.split("/")[0] for each in made]


@named
def random_numbers(tf: Any) -> list[Any]:
    made = [tf.random_uniform([2]), tf.random_normal([2]), tf.truncated_normal([2]), tf.random_shuffle([1, 2])]
    return [each.op.name.split("/")[0] for each in made]


@named
def images(tf: Any) -> list[Any]:
    x, w = tf.placeholder(tf.float32, [2, 6, 6, 3]), tf.placeholder(tf.float32, [3, 3, 3, 4])
    one, window = [1, 1, 1, 1], [1, 2, 2, 1]
    return [
        tf.nn.conv2d(x, w, one, "SAME"),
        tf.nn.max_pool(x, window, window, "SAME"),
        tf.nn.avg_pool(x, window, window, "SAME"),
        tf.nn.lrn(x),
        tf.nn.depthwise_conv2d(x, tf.zeros([3, 3, 3, 1]), one, "SAME"),
        tf.nn.conv2d_transpose(x, tf.zeros([3, 3, 4, 3]), [2, 6, 6, 4], one),
        tf.nn.separable_conv2d(x, tf.zeros([3, 3, 3, 1]), tf.zeros([1, 1, 3, 2]), one, "SAME"),
        tf.nn.convolution(x, w, "SAME"),
        tf.nn.pool(x, [2, 2], "MAX", "SAME"),
        tf.layers.conv2d(x, 4, 3),
        tf.layers.conv2d(x, 4, 3, activation=tf.nn.relu, name="own"),
        tf.layers.max_pooling2d(x, 2, 2),
        tf.layers.average_pooling2d(x, 2, 2, name="mean"),
        tf.layers.conv2d_transpose(x, 2, 3),
        tf.layers.separable_conv2d(x, 2, 3),
        tf.layers.flatten(x),
    ]
