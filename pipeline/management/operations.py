"""The operations of the management API in one table: each one's method, path, key scope, parameters and bodies
(docs/know/service.md#hog-functions, #session-recordings, #key-scopes).

The client, its commands, the routes of the local service and its OpenAPI document are derived from this table. The
contract leaves open the scopes of eight operations; they come from the service's source
(docs/know/service.md#hog-functions), which names none for broadcast, icon and icons: these have the scope of the
nearest operation.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple, TypedDict

# -- parameters ----------------------------------------------------------------------------------------


class Flag(NamedTuple):
    """How the command line shows a parameter: its value (None: its choices), and its purpose."""

    metavar: str | None
    help: str
    least: int | None = None


Names = str | tuple[str, ...] | list[str] | None
"""One name, or several."""
Text = str | None
Number = int | None
Limit = Annotated[Number, Flag("N", "Items per page.  [default: the service's]", 1)]
Offset = Annotated[Number, Flag("N", "Items to skip before the first page.  [default: 0]", 0)]
JSON = "JSON|@FILE|-"


class Page(TypedDict, total=False):
    """Which page of a list."""

    limit: Limit
    offset: Offset


class FunctionFilters(TypedDict, total=False):
    """Filters of a list of hog functions."""

    created_at: Annotated[Text, Flag("TIME", "Only functions created at this time.")]
    created_by: Annotated[Number, Flag("USER", "Only functions of this user, given by number.")]
    enabled: Annotated[bool | None, Flag(None, "Only functions that are enabled, or disabled.")]
    exclude_kind: Annotated[Names, Flag("A,B", "Leave out functions of these kinds.")]
    id: Annotated[Text, Flag("ID", "Only the function with this id.")]
    kind: Annotated[Names, Flag("A,B", "Only functions of these kinds.")]
    limit: Limit
    offset: Offset
    type: Annotated[Names, Flag("A,B", "Only functions of these types.")]
    updated_at: Annotated[Text, Flag("TIME", "Only functions changed at this time.")]


class LogFilters(TypedDict, total=False):
    """Filters of the log of a hog function."""

    limit: Annotated[Number, Flag("N", "Maximum number of lines.", 1)]
    after: Annotated[Text, Flag("TIME", "Only lines after this time, such as -7d or 2024-01-31.")]
    before: Annotated[Text, Flag("TIME", "Only lines before this time.")]
    level: Annotated[Text, Flag("LEVEL", "Only lines of this level, such as error.")]
    search: Annotated[Text, Flag("TEXT", "Only lines that contain this.")]
    instance_id: Annotated[Text, Flag("ID", "Only lines of this run.")]


class MetricsFilters(TypedDict, total=False):
    """Filters of the metrics of a hog function, and how they are grouped."""

    after: Annotated[Text, Flag("TIME", "Only runs from this time onwards, such as -7d or 2024-01-31.")]
    before: Annotated[Text, Flag("TIME", "Only runs before this time.")]
    interval: Annotated[Text, Flag("hour|day|week", "The length of each interval.")]
    breakdown_by: Annotated[Text, Flag("name|kind", "Count by name or by kind.")]
    name: Annotated[Names, Flag("A,B", "Only metrics with these names.")]
    kind: Annotated[Names, Flag("A,B", "Only metrics of these kinds.")]
    instance_id: Annotated[Text, Flag("ID", "Only this run.")]


class IconChoice(TypedDict, total=False):
    """Which icon."""

    id: Annotated[Text, Flag("ID", "Which icon.")]


class IconFilters(TypedDict, total=False):
    """Which icons."""

    query: Annotated[Text, Flag("TEXT", "Icons whose names contain this.")]


class FunctionFields(TypedDict, total=False):
    """The writable fields of a hog function (docs/know/service.md#hog-functions), in its order."""

    type: Annotated[Text, Flag("TEXT", "The type of function, such as destination or transformation.")]
    kind: Annotated[Text, Flag("TEXT", "The variant of its type.")]
    name: Annotated[Text, Flag("TEXT", "Its name.")]
    description: Annotated[Text, Flag("TEXT", "Its purpose.")]
    enabled: Annotated[bool | None, Flag(None, "Whether it runs.")]
    deleted: Annotated[bool | None, Flag(None, "Soft-delete it, or bring it back.")]
    hog: Annotated[Text, Flag("TEXT|@FILE|-", "Source code.")]
    inputs_schema: Annotated[Any, Flag(JSON, "Which inputs it takes.")]
    inputs: Annotated[Any, Flag(JSON, "Values of its inputs. Put secrets into a file: @FILE.")]
    filters: Annotated[Any, Flag(JSON, "Which events it runs for.")]
    masking: Annotated[Any, Flag(JSON, "How often it runs for similar events.")]
    mappings: Annotated[Any, Flag(JSON, "Inputs for single event names.")]
    icon_url: Annotated[Text, Flag("URL", "The address of its icon.")]
    template_id: Annotated[Text, Flag("ID", "The template that it is created from.")]
    execution_order: Annotated[Number, Flag("N", "Its place among the transformations, from 1.")]
    _create_in_folder: Annotated[Text, Flag("TEXT", "The project folder to create it in.")]


class RecordingFields(TypedDict, total=False):
    """The writable field of a recording."""

    person: Annotated[Any, Flag(JSON, "Who the recording shows.")]


class DefinitionFilters(Page, total=False):
    """Which page of a list of definitions, and of which properties."""

    type: Annotated[Text, Flag("event|person", "Properties of events, or of persons.")]


class NoFields(TypedDict, total=False):
    """A body without fields, which may be empty."""


# -- operations ----------------------------------------------------------------------------------------

PROJECTS = "/api/projects"
_PROJECT = PROJECTS + "/{project_id}"
_FUNCTIONS = _PROJECT + "/hog_functions"
_FUNCTION = _FUNCTIONS + "/{id}"
_RECORDINGS = _PROJECT + "/session_recordings"
_RECORDING = _RECORDINGS + "/{id}"
_SHARING = _RECORDINGS + "/{recording_id}/sharing"
_EVENTS, _PROPERTIES = _PROJECT + "/event_definitions", _PROJECT + "/property_definitions"
_READ, _WRITE = "hog_function:read", "hog_function:write"
_WATCH, _KEEP = "session_recording:read", "session_recording:write"


class Endpoint(NamedTuple):
    """An operation of the API: its id in the OpenAPI document, its name for people, its method, its path with fields
    for ids, which may end in a slash, and the scope that its key needs.

    `query` and `fields` declare its query parameters, and the fields of its body that a command takes. `body` and
    `answer` name the schemas of both bodies in the OpenAPI document, "" for none; the answer is also "" if the contract
    does not state it. `status` is that of a success, or of the refusal that is its only answer. `observed`: the service
    has it but the contract does not (docs/know/service.md#hog-functions). `served`: the local service has it.
    """

    id: str
    name: str
    method: str
    path: str
    scope: str
    query: type = NoFields
    fields: type | None = None
    body: str = ""
    answer: str = ""
    status: int = 200
    observed: bool = False
    served: bool = True

    @property
    def repeatable(self) -> bool:
        """Whether a second request has no effect beyond the first, so that it may be resent after a lost answer.

        True for GET, DELETE, PATCH and PUT: bodies set fields to values, and add nothing; and for a query.
        """
        return self.method != "POST" or self.id == "query"

    @property
    def in_project(self) -> bool:
        return "{project_id}" in self.path

    @property
    def of_one(self) -> bool:
        return "id}" in self.path.removeprefix(_PROJECT)

    @property
    def has_body(self) -> bool:
        return self.method in ("POST", "PATCH", "PUT")


# fmt: off
_record: dict[str, Any] = {"fields": FunctionFields, "body": "HogFunctionWrite", "answer": "HogFunction"}
_run: dict[str, Any] = {"fields": NoFields, "body": "HogFunctionWrite"}
_shown: dict[str, Any] = {"fields": RecordingFields, "body": "SessionRecordingWrite"}

LIST_FUNCTIONS = Endpoint("hog_functions_list", "list hog functions", "GET", _FUNCTIONS, _READ,
                          query=FunctionFilters, answer="HogFunctionPage")
CREATE_FUNCTION = Endpoint("hog_functions_create", "create a hog function", "POST", _FUNCTIONS, _WRITE,
                           status=201, **_record)
ICON = Endpoint("hog_functions_icon", "retrieve an icon", "GET", _FUNCTIONS + "/icon", _READ, query=IconChoice)
ICONS = Endpoint("hog_functions_icons", "retrieve icons", "GET", _FUNCTIONS + "/icons", _READ, query=IconFilters)
REARRANGE = Endpoint("hog_functions_rearrange", "rearrange hog functions", "PATCH", _FUNCTIONS + "/rearrange", _WRITE,
                     body="HogFunctionOrders")
BROADCAST = Endpoint("hog_functions_broadcast", "broadcast a hog function", "POST", _FUNCTION + "/broadcast", _WRITE,
                     **_run)
INVOKE = Endpoint("hog_functions_invoke", "invoke a hog function", "POST", _FUNCTION + "/invocations", _WRITE, **_run)
LOGS = Endpoint("hog_functions_logs", "retrieve logs", "GET", _FUNCTION + "/logs", _READ, query=LogFilters)
METRICS = Endpoint("hog_functions_metrics", "retrieve metrics", "GET", _FUNCTION + "/metrics", _READ,
                   query=MetricsFilters)
METRICS_TOTALS = Endpoint("hog_functions_metrics_totals", "retrieve metrics totals", "GET",
                          _FUNCTION + "/metrics/totals", _READ, query=MetricsFilters)
RETRIEVE_FUNCTION = Endpoint("hog_functions_retrieve", "retrieve a hog function", "GET", _FUNCTION, _READ,
                             answer="HogFunction")
UPDATE_FUNCTION = Endpoint("hog_functions_update", "update a hog function", "PATCH", _FUNCTION, _WRITE, **_record)
REPLACE_FUNCTION = Endpoint("hog_functions_replace", "replace a hog function", "PUT", _FUNCTION, _WRITE,
                            observed=True, **_record)
DELETE_FUNCTION = Endpoint("hog_functions_delete", "hard-delete a hog function", "DELETE", _FUNCTION, _WRITE,
                           status=405)

LIST_RECORDINGS = Endpoint("recordings_list", "list recordings", "GET", _RECORDINGS, _WATCH,
                           query=Page, answer="SessionRecordingPage")
RETRIEVE_RECORDING = Endpoint("recordings_retrieve", "retrieve a recording", "GET", _RECORDING, _WATCH,
                              answer="SessionRecording")
UPDATE_RECORDING = Endpoint("recordings_update", "update a recording", "PATCH", _RECORDING, _KEEP,
                            answer="SessionRecording", **_shown)
REPLACE_RECORDING = Endpoint("recordings_replace", "replace a recording", "PUT", _RECORDING, _KEEP,
                             observed=True, **_shown)
DELETE_RECORDING = Endpoint("recordings_delete", "delete a recording", "DELETE", _RECORDING, _KEEP, status=204)
SHARING = Endpoint("recordings_sharing", "retrieve sharing", "GET", _SHARING, "sharing_configuration:read",
                   answer="SharingConfiguration")
REFRESH_SHARING = Endpoint("recordings_sharing_refresh", "refresh sharing", "POST", _SHARING + "/refresh",
                           "sharing_configuration:write", answer="SharingConfiguration", observed=True)

LIST_EVENTS = Endpoint("event_definitions_list", "list event definitions", "GET", _EVENTS, "event_definition:read",
                       query=Page, observed=True)
UPDATE_EVENT = Endpoint("event_definitions_update", "update an event definition", "PATCH", _EVENTS + "/{id}",
                        "event_definition:write", observed=True)
LIST_PROPERTIES = Endpoint("property_definitions_list", "list property definitions", "GET", _PROPERTIES,
                           "property_definition:read", query=DefinitionFilters, observed=True)
UPDATE_PROPERTY = Endpoint("property_definitions_update", "update a property definition", "PATCH",
                           _PROPERTIES + "/{id}", "property_definition:write", observed=True)

LIST_PROJECTS = Endpoint("projects_list", "list projects", "GET", PROJECTS, "project:read",
                         query=Page, answer="ProjectPage")
CURRENT_PROJECT = Endpoint("projects_current", "retrieve the current project", "GET", PROJECTS + "/@current",
                           "project:read", served=False)
RETRIEVE_PROJECT = Endpoint("projects_retrieve", "retrieve a project", "GET", _PROJECT, "project:read",
                            answer="Project")
LIST_GROUP_TYPES = Endpoint("groups_types_list", "list group types", "GET", _PROJECT + "/groups_types", "group:read",
                            answer="GroupTypes")
QUERY = Endpoint("query", "run one read-only SELECT", "POST", _PROJECT + "/query", "query:read",
                 body="Query", answer="QueryAnswer")
RETRIEVE_BILLING = Endpoint("billing_retrieve", "retrieve billing", "GET", "/api/billing", "billing:read",
                            served=False)
"""The contract does not have the last five; the checks before an import and `verify` use them. The local service
accepts @current as an id, and has no billing."""


def operations(*, observed: bool) -> list[Endpoint]:
    """The local service's operations, in the order in which paths are tried: fixed names before ids."""
    table = [one for one in globals().values() if isinstance(one, Endpoint)]
    return [one for one in table if one.served and (observed or not one.observed)]
# fmt: on
