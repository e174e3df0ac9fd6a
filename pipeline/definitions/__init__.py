"""Definitions of events and properties, and the choice of events, from the old tool to the target.

read_definitions(path) -> Definitions     what a file of the old tool, or a table of a person, defines
plan_changes(...)                         what would change at the target, and what is left out
run_plan(file, client, undo=...)          change it, or restore what was there
write_scope(sources, options)             the table in which a person chooses event names
"""
