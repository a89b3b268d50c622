"""`python -m unspool.tf1 train.py`: runs a program that says `import tensorflow`."""

from unspool.tf1.running.runner import main

if __name__ == "__main__":
    main()
