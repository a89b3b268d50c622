collect_ignore = ["scripts"]  # programs that import tensorflow, which test_tf1_scripts.py runs
