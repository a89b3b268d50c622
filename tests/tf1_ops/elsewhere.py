"""Functions of tf1 that no recorded and no drawn call reaches: they are no operations, or compared as programs."""

from __future__ import annotations

ELSEWHERE = {
    "loops over cells, which conformance/draw.py and tf1_draw.py draw": [
        "nn.bidirectional_dynamic_rnn nn.dynamic_rnn nn.raw_rnn nn.static_bidirectional_rnn nn.static_rnn"
    ],
    "records and files, in tests/tf1_inputs": [
        "count_up_to parse_example parse_single_example parse_single_sequence_example lookup.TextFileInitializer"
    ],
    "placeholders, which every call is fed by": ["placeholder sparse_placeholder sparse.placeholder"],
    "about a graph, its names and its lists": [
        "add_check_numerics_ops add_to_collection as_dtype colocate_with container device disable_eager_execution",
        "disable_v2_behavior executing_eagerly",
        "get_collection get_collection_ref get_default_session group import_graph_def make_template",
        "name_scope no_op reset_default_graph set_random_seed random.set_random_seed",
        "losses.add_loss losses.get_losses",
        "losses.get_regularization_loss losses.get_regularization_losses",
    ],
    "about variables and their first values": [
        "all_variables get_variable get_variable_scope global_variables global_variables_initializer",
        "initialize_all_tables initialize_all_variables is_variable_initialized local_variables no_regularizer",
        "local_variables_initializer report_uninitialized_variables tables_initializer lookup.tables_initializer",
        "trainable_variables variable_scope variables_initializer",
    ],
}
"""Why, and their names."""
