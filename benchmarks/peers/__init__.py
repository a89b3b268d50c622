"""How each rival computes a problem: a peer is one function, registered once, and takes part wherever it fits."""

from benchmarks.peers import vendor, loops, prototype_scan, xla, tensorflow  # isort: skip  # the order in the tables
from benchmarks.peers.registry import PEERS, Peer, case, dynamic_rnn, peer

__all__ = ["PEERS", "Peer", "case", "dynamic_rnn", "loops", "peer", "prototype_scan", "tensorflow", "vendor", "xla"]
