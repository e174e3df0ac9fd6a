"""The Python source that a program becomes, and the functions that it calls."""
