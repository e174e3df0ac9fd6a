"""What the source of the real service accepts and refuses beyond the contract's types
(docs/know/service.md#hog-functions, #session-recordings).

The models of functions have the names of those that they replace under `observed`, also in the OpenAPI document.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field, create_model

from pipeline.management import models
from pipeline.management.models import Maybe, Nullable, ServiceObject

Type = Literal[
    "destination", "site_destination", "internal_destination", "source_webhook", "warehouse_source_webhook", "site_app",
    "transformation", "transformation_log",
]  # fmt: skip
"""The contract shows only `destination`."""
Source = Literal["events", "person-updates", "data-warehouse-table", "data-warehouse-view"]
Templating = Annotated[
    Literal[True, False, "hog", "liquid"], BeforeValidator(lambda value: value if type(value) in (bool, str) else "")
]
"""True or false; 1 does not count as true."""
LONGEST_HOG = 100 * 1024


class InputSchemaItem(models.InputSchemaItem):
    """One input that a function asks for."""

    templating: Maybe[Templating] = None  # type: ignore[assignment]


class InputValue(models.InputValue):
    """The value of an input; a null value counts as missing."""

    templating: Maybe[Templating] = None


class Filters(models.Filters):
    """Which events a function fires on."""

    source: Maybe[Source] = None


class Masking(ServiceObject):
    """How often a function may fire for one hash; `ttl` is in seconds."""

    ttl: Annotated[int, Field(ge=60, le=86400)]
    hash: str
    threshold: Nullable[int] = None
    bytecode: Any = None


class FunctionMapping(models.FunctionMapping):
    """Inputs and filters of one mapping of a function."""

    inputs_schema: Maybe[list[InputSchemaItem]] = None  # type: ignore[assignment]
    inputs: Maybe[dict[str, InputValue | None]] = None  # type: ignore[assignment]
    filters: Maybe[Filters] = None


class HogFunctionWrite(models.HogFunctionWrite):
    """The writable fields."""

    type: Nullable[Type] = None
    name: Nullable[Annotated[str, Field(max_length=400)]] = None
    hog: Maybe[Annotated[str, Field(max_length=LONGEST_HOG)]] = None
    inputs_schema: Nullable[list[InputSchemaItem]] = None  # type: ignore[assignment]
    inputs: Maybe[dict[str, InputValue | None]] = None  # type: ignore[assignment]
    filters: Nullable[Filters] = None
    masking: Nullable[Masking] = None  # type: ignore[assignment]
    mappings: Nullable[list[FunctionMapping]] = None  # type: ignore[assignment]
    icon_url: Nullable[str] = None
    template_id: Nullable[str] = None
    execution_order: Nullable[Annotated[int, Field(ge=0, le=32767)]] = None


class SessionRecordingWrite(ServiceObject):
    """The body of an update of a recording, which can only mark it."""

    viewed: Maybe[bool] = None
    analyzed: Maybe[bool] = None


_ANYTHING = (
    "date_from", "date_to", "events", "actions", "properties", "console_log_filters", "having_predicates",
    "filter_test_accounts", "order", "order_direction", "after", "person_uuid", "as_query", "version",
    "hogql_filtering", "add_events_to_property_queries",
)  # fmt: skip
RecordingsQuery: Any = create_model(
    "RecordingsQuery",
    __config__=ConfigDict(extra="forbid"),
    limit=(Annotated[int, Field(ge=0)], 50),
    offset=(Annotated[int, Field(ge=0)], 0),
    session_ids=(list[Any] | None, None),
    distinct_ids=(list[Any] | None, None),
    **dict.fromkeys(_ANYTHING, (Any, None)),  # type: ignore[call-overload]
)
"""The documented query parameters of the list of recordings; any other is refused."""
