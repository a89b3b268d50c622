"""What the CUDA loop emitter is measured by on a GPU: every part beside its peers, and against what is asked of it.

    make gpu-bench                                                       # all of it, into build/benchmarks/cuda.json
    python -m benchmarks.cuda --only loop calls-fp16 --rounds 5          # some parts
    python -m benchmarks.cuda --only calls-fp16 --cases 64x256x512       # one case
    python -m benchmarks.cuda --only loop --best 4                       # more tilings than the one that a plan takes

`parts.py` lists parts and cases, `claims.py` what is asked of them. `worker.py` runs cases one after another in a
process that is begun again after a case that does not end. A case that fails is a line with `failed`.
"""
