"""The management API of the local service: hog functions, session recordings with sharing, projects.

`operations` is the one table of them; routes, scopes and the OpenAPI document are derived from it. An operation is a
function `(ManagementState, OperationCall) -> OperationReply`; they run one after another, so two updates never mix.
"""
