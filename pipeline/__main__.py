"""`python -m pipeline` is `backcast`."""

from pipeline.cli import main

main()
