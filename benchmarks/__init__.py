"""Small scripts that measure `dynamic_rnn` beside its peers, in the same run, on the machine at hand.

    make bench                                            # all that make sense here, into build/benchmarks/
    python -m benchmarks lengths memory --device cuda     # some of them
    python -m benchmarks.lstm --rounds 5 --json out.json  # one of them

A script says in one sentence what it compares with what, and lists its cases. `problem.py` says what a case computes,
`peers/` how each rival computes the same, `harness.py` measures. A new peer is one file in `peers/` and takes part
wherever it fits; a new script is one file here and a line in `__main__.py`.
"""
