"""Is the target ready for an import? None of the checks sends an event or changes anything.

`run.check_target` runs every function in `checks` that is registered with `@check` (`check`) over facts that are
requested once (`target`): the capture host's response to a batch without events, and the answers of the management API
to a personal key. The result of what cannot be checked is `unknown`, with the reason.
"""
