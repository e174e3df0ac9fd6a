"""The objects of the service's contract (docs/know/service.md#management-api), with its names, nesting and nullability.

Every field may be absent, since the contract states for few objects which fields are required; an absent field reads as
None and differs from null in `model_fields_set`. Null is accepted only if the contract shows it, and for `masking`,
which the service returns as null if it is not set (docs/know/service.md#hog-functions). Nothing is coerced and instants
remain strings, so `Model.read(value).plain() == value`, unknown fields included.

    HogFunction.model_validate(value)     by the contract; raises pydantic.ValidationError, which shows no value
    HogFunction.read(value)               tolerant: a value of another type is accepted
    HogFunctionWrite(enabled=False)       a body with exactly the given fields: `.plain()` is `{"enabled": False}`
    HogFunction.model_json_schema()       the JSON Schema of the contract's object

A `repr` shows no value that may be a secret (an input, an access token, a key).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Generic, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler, ValidationError, WithJsonSchema
from pydantic_core import core_schema

T = TypeVar("T")
_LENIENT = {"lenient": True}
_SHOWN = frozenset(("id", "key", "name", "type", "kind", "enabled", "deleted", "status", "count", "execution_order"))
"""Fields that a `repr` shows; any other may contain a secret."""


class _Shape:
    """A field of type T that may be absent: null is accepted only if `null`, other types only by `read`."""

    def __init__(self, *, null: bool) -> None:
        self._null = null

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        inner = handler(source)
        if not self._null and inner["type"] == "nullable":
            inner = inner["schema"]
        return core_schema.with_info_wrap_validator_function(_tolerant, inner)


def _tolerant(
    value: object, check: core_schema.ValidatorFunctionWrapHandler, about: core_schema.ValidationInfo
) -> object:
    try:
        return check(value)
    except ValidationError:
        if about.context is _LENIENT:
            return value
        raise


Maybe = Annotated[T | None, _Shape(null=False)]
"""T, or absent (None)."""
Nullable = Annotated[T | None, _Shape(null=True)]
"""T, null, or absent (None)."""
Number = Annotated[int | float, WithJsonSchema({"type": "number"})]
Instant = Annotated[str, WithJsonSchema({"type": "string", "format": "date-time"})]
"""ISO 8601, unchanged."""
Uuid = Annotated[str, WithJsonSchema({"type": "string", "format": "uuid"})]
Address = Annotated[str, WithJsonSchema({"type": "string", "format": "uri"})]
Email = Annotated[str, WithJsonSchema({"type": "string", "format": "email"})]
FreeForm = dict[str, Any]


def _without_titles(schema: dict[str, Any]) -> None:
    """Titles only repeat the names, and a default of null would suggest that null is accepted."""
    for shape in schema.get("properties", {}).values():
        shape.pop("title", None)
        shape.pop("default", None)


class ServiceObject(BaseModel):
    """An object of the service: immutable and strict, with unknown fields unchanged."""

    model_config = ConfigDict(
        extra="allow",
        frozen=True,
        strict=True,
        defer_build=True,
        hide_input_in_errors=True,
        json_schema_extra=_without_titles,
    )

    @classmethod
    def read(cls, value: object) -> Self:
        """An object from the service, whatever the types of its fields. Raises ValidationError if it is not an
        object."""
        return cls.model_validate(value, context=_LENIENT)

    def plain(self) -> dict[str, Any]:
        """The fields that were read or set, as JSON values: the input of `read`."""
        names = type(self).model_fields
        values = {field.alias or name: getattr(self, name) for name, field in names.items() if name in self._set}
        return {name: _plain(value) for name, value in (values | (self.model_extra or {})).items()}

    @property
    def _set(self) -> set[str]:
        return self.model_fields_set

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        for name in type(self).model_fields:
            if name in _SHOWN and name in self._set:
                yield name, getattr(self, name)


def _plain(value: object) -> object:
    if isinstance(value, ServiceObject):
        return value.plain()
    if isinstance(value, list):
        return [item.plain() if isinstance(item, ServiceObject) else item for item in value]
    if isinstance(value, dict):
        return {name: item.plain() if isinstance(item, ServiceObject) else item for name, item in value.items()}
    return value


class User(ServiceObject):
    """Who created a hog function."""

    id: Maybe[int] = None
    uuid: Maybe[Uuid] = None
    distinct_id: Maybe[str] = None
    first_name: Maybe[str] = None
    last_name: Maybe[str] = None
    email: Maybe[Email] = None
    is_email_verified: Maybe[bool] = None
    hedgehog_config: Maybe[FreeForm] = None
    role_at_organization: Maybe[str] = None


class InputSchemaItem(ServiceObject):
    """One input that a hog function asks for."""

    type: Maybe[str] = None
    key: Maybe[str] = None
    label: Maybe[str] = None
    choices: Maybe[list[FreeForm]] = None
    required: Maybe[bool] = None
    default: Any = None
    secret: Maybe[bool] = None
    hidden: Maybe[bool] = None
    description: Maybe[str] = None
    integration: Maybe[str] = None
    integration_key: Maybe[str] = None
    requires_field: Maybe[str] = None
    integration_field: Maybe[str] = None
    requiredScopes: Maybe[str] = None
    templating: Maybe[bool] = None


class InputValue(ServiceObject):
    """The value of an input.

    In the contract `value` is a string; the service accepts and returns any JSON there
    (docs/know/service.md#hog-functions).
    """

    value: Any = None
    bytecode: Maybe[list[Any]] = None
    order: Maybe[int] = None
    transpiled: Any = None


class Filters(ServiceObject):
    """Which events a hog function fires on."""

    actions: Maybe[list[FreeForm]] = None
    events: Maybe[list[FreeForm]] = None
    properties: Maybe[list[FreeForm]] = None
    bytecode: Any = None
    transpiled: Any = None
    filter_test_accounts: Maybe[bool] = None
    bytecode_error: Maybe[str] = None


class Masking(ServiceObject):
    """How often a hog function may fire for one hash. `ttl` is in seconds (docs/know/service.md#hog-functions)."""

    ttl: Maybe[int] = None
    threshold: Maybe[int] = None
    hash: Maybe[str] = None
    bytecode: Any = None


class FunctionMapping(ServiceObject):
    """Inputs and filters of one mapping of a hog function."""

    name: Maybe[str] = None
    inputs_schema: Maybe[list[InputSchemaItem]] = None
    inputs: Maybe[dict[str, InputValue]] = None
    filters: Maybe[Filters] = None


class TemplateMapping(ServiceObject):
    """A mapping inside a template."""

    name: Maybe[str] = None
    filters: Maybe[FreeForm] = None
    inputs: Maybe[FreeForm] = None
    inputs_schema: Maybe[list[Any]] = None


class MappingTemplate(ServiceObject):
    """A mapping that a template offers."""

    name: Maybe[str] = None
    include_by_default: Maybe[bool] = None
    filters: Maybe[FreeForm] = None
    inputs: Maybe[FreeForm] = None
    inputs_schema: Maybe[list[Any]] = None


class Template(ServiceObject):
    """The template that a hog function was created from."""

    mapping_templates: Maybe[list[MappingTemplate]] = None
    mappings: Maybe[list[TemplateMapping]] = None
    status: Maybe[str] = None
    free: Maybe[bool] = None
    type: Maybe[str] = None
    id: Maybe[str] = None
    name: Maybe[str] = None
    hog: Maybe[str] = None
    inputs_schema: Maybe[list[FreeForm]] = None
    category: Maybe[list[str]] = None
    description: Maybe[str] = None
    filters: Maybe[FreeForm] = None
    masking: Maybe[FreeForm] = None
    icon_url: Maybe[str] = None
    kind: Maybe[str] = None


class Status(ServiceObject):
    """The health of a hog function."""

    state: Maybe[int] = None
    rating: Maybe[Number] = None
    tokens: Maybe[int] = None


class _FunctionSummary(ServiceObject):
    """The first fields of both a record and a list item of a hog function."""

    id: Maybe[Uuid] = None
    type: Maybe[str] = None
    kind: Maybe[str] = None
    name: Maybe[str] = None
    description: Maybe[str] = None
    created_at: Maybe[Instant] = None
    created_by: Maybe[User] = None
    updated_at: Maybe[Instant] = None
    enabled: Maybe[bool] = None


class HogFunction(_FunctionSummary):
    """A full record: the answer of create, retrieve and update."""

    deleted: Maybe[bool] = None
    hog: Maybe[str] = None
    bytecode: Any = None
    transpiled: Maybe[str] = None
    inputs_schema: Maybe[list[InputSchemaItem]] = None
    inputs: Maybe[dict[str, InputValue]] = None
    filters: Maybe[Filters] = None
    masking: Nullable[Masking] = None
    mappings: Maybe[list[FunctionMapping]] = None
    icon_url: Maybe[str] = None
    template: Maybe[Template] = None
    template_id: Maybe[str] = None
    status: Maybe[Status] = None
    execution_order: Maybe[int] = None
    create_in_folder: Maybe[str] = Field(default=None, alias="_create_in_folder")


class HogFunctionListItem(_FunctionSummary):
    """A hog function in a list: `template` is a string and `filters` may be null."""

    hog: Maybe[str] = None
    filters: Nullable[Filters] = None
    masking: Nullable[Masking] = None
    icon_url: Maybe[str] = None
    template: Maybe[str] = None
    status: Maybe[Status] = None
    execution_order: Maybe[int] = None


class HogFunctionWrite(ServiceObject):
    """The writable fields: the body of create, update, broadcast, invocations and rearrange.

    The contract names no type for `type`, `filters` and `masking` here; they have the types of the record, or null.
    """

    type: Nullable[str] = None
    kind: Maybe[str] = None
    name: Maybe[str] = None
    description: Maybe[str] = None
    enabled: Maybe[bool] = None
    deleted: Maybe[bool] = None
    hog: Maybe[str] = None
    inputs_schema: Maybe[list[InputSchemaItem]] = None
    inputs: Maybe[dict[str, InputValue]] = None
    filters: Nullable[Filters] = None
    masking: Nullable[Masking] = None
    mappings: Maybe[list[FunctionMapping]] = None
    icon_url: Maybe[str] = None
    template_id: Maybe[str] = None
    execution_order: Maybe[int] = None
    create_in_folder: Maybe[str] = Field(default=None, alias="_create_in_folder")


class Person(ServiceObject):
    """The person of a recording."""

    id: Maybe[int] = None
    name: Maybe[str] = None
    distinct_ids: Maybe[str] = None
    properties: Any = None
    created_at: Maybe[Instant] = None
    uuid: Maybe[Uuid] = None


class SessionRecording(ServiceObject):
    """A recorded session."""

    id: Maybe[str] = None
    distinct_id: Maybe[str] = None
    viewed: Maybe[bool] = None
    viewers: Maybe[list[str]] = None
    recording_duration: Maybe[int] = None
    active_seconds: Maybe[int] = None
    inactive_seconds: Maybe[int] = None
    start_time: Maybe[Instant] = None
    end_time: Maybe[Instant] = None
    click_count: Maybe[int] = None
    keypress_count: Maybe[int] = None
    mouse_activity_count: Maybe[int] = None
    console_log_count: Maybe[int] = None
    console_warn_count: Maybe[int] = None
    console_error_count: Maybe[int] = None
    start_url: Maybe[str] = None
    person: Maybe[Person] = None
    storage: Maybe[str] = None
    snapshot_source: Maybe[str] = None
    ongoing: Maybe[bool] = None
    activity_score: Maybe[Number] = None


class SessionRecordingWrite(ServiceObject):
    """The body of an update of a recording; the contract does not show what is inside `person`."""

    person: Any = None


class SharingConfiguration(ServiceObject):
    """How a recording is shared. `access_token` is a secret."""

    created_at: Maybe[Instant] = None
    enabled: Maybe[bool] = None
    access_token: Maybe[str] = None


class Project(ServiceObject):
    """A project as `/api/projects/` lists it; the contract shows only its id."""

    id: Maybe[int | str] = None
    name: Maybe[str] = None


class ListPage(ServiceObject, Generic[T]):
    """One page of a list: `ListPage[HogFunctionListItem].read(value)`. `next` and `previous` are URLs or null."""

    count: Maybe[int] = None
    next: Nullable[Address] = None
    previous: Nullable[Address] = None
    results: Maybe[list[T]] = None
