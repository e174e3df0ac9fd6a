"""Is the target ready for an import? None of the checks sends an event or changes anything.

`run.check_target` runs every function in `checks` that is registered with `@check` (`check`) over facts that are
requested once (`target`): the capture host's response to a batch without events, and the management API's answers to a
personal key. If something cannot be checked, the result is `unknown`, with the reason.
"""
