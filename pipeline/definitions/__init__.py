"""Definitions of events and properties, and the choice of events, from the old tool to the target.

read_definitions(path) -> Definitions     what a file of the old tool, or a table of a person, defines
changes_of(...)                           what would change at the target, and what is left out
apply_plan, undo_plan                     change it, and restore what was there
write_scope(sources, options)             the table in which a person chooses event names
"""
