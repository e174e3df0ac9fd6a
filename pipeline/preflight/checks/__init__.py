"""The checks, a module for each subject; `pipeline.preflight.check` finds them."""
