"""Rows of the source that a plan shows: examples of checks, and rows beside the events that they become."""
