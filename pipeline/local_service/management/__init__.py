"""The management API of the local service: hog functions, session recordings with sharing, projects.

An operation is a function from an OperationCall to a Response, with its declaration above it. They are collected in
`operations`, from which routes, scopes and the OpenAPI document are derived. They run one after another, so two updates
never mix.
"""
