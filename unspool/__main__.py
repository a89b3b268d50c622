"""`python -m unspool`: the command `unspool`."""

from unspool.cli import main

if __name__ == "__main__":
    main()
