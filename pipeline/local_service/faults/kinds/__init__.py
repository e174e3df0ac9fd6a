"""The faults there are, one class each; every module here is found by itself."""
