"""The program that a mapping becomes: every operation is data."""
