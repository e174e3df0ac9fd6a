"""Is the target ready for an import? None of the checks sends an event or changes anything.

`run.check_target` runs every function in `checks` that is registered with `@check` (`check`), over facts that are asked
for once (`target`): the capture host's response to a batch without events, and what the management API shows to a
personal key. What cannot be checked is `unknown`, with the reason, and never taken for granted.
"""
