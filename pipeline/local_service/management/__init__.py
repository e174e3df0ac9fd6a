"""The management API of the local service: hog functions, session recordings with sharing, projects.

An operation is a function from an OperationCall to a Response, with its declaration above it. `operations` collects
them; routes, scopes and the OpenAPI document are derived from it. They run one after another, so two updates never mix.
"""
