"""Definitions of events and properties: descriptions, tags, flags and types, from the old tool to the target.

read_definitions(path) -> Definitions     what a file of the old tool, or a table of a person, defines
make_plan(...) -> DefinitionPlan          what would change at the target, and what is left out
apply_plan, undo_plan                     change it, and restore what was there
"""
