"""The management API of the local service: hog functions, session recordings with sharing, projects.

`operations` is the one table of what there is; routes, scopes and the OpenAPI document are made from it. Every
operation is a function `(State, Call) -> Reply`, run one after another, so that two updates never mix.
"""
