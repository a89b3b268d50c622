"""The proof that unspool computes what TensorFlow computes.

`draw.py` runs TensorFlow's own loops on random cases and stores everything they compute; `compare.py` runs unspool on
the same cases and compares. Both run the one program in `program.py`, each with its own library.

A case is an .npz file:

    spec                  JSON: the loop, how to build its cells, and every option of the call (see `specs.py`)
    x, or x_0, x_1, ...   the inputs: one tensor, or the leaves of a structure
    var:NAME              every variable by TensorFlow's name, in the order TensorFlow made them
    init_i                the leaves of the initial states, if they were given
    out_i, state_i        the leaves of outputs and final states; a list of steps is stacked along axis 1
    loop_i, saved_i       the leaves of the final loop state (raw_rnn) and of the saved states (state saving)
    outline               JSON: the containers of outputs, states and loop state
    loss                  sum(cos(k) * output_k) + sum(sin(state)) over the floating leaves of outputs, and of states
                          and loop states; k counts the elements of each output leaf in row-major order
    grad_x..., grad:NAME, grad_init_i   its gradients

Leaves are numbered in TensorFlow's order of flattening.

`tf1_draw.py` and `tf1_compare.py` do the same for whole programs of TensorFlow 1, those in `tests/tf1_programs`, with
what `tf1_run.py` notes of them.
"""
