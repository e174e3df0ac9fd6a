"""The namespace in which the keys of a mapping's rows become uuids."""

from __future__ import annotations

from uuid import UUID

from pipeline import uuids
from pipeline.mapper.language.sections import Mapping
from pipeline.models import SealedOptions


def is_importer_key(mapping: Mapping, options: SealedOptions) -> bool:
    """Whether the keys are those of the service's own importer, which a mapping may have in addition to the tool's
    (`--set uuid=posthog`)."""
    return mapping.key is not None and mapping.key.posthog is not None and options.settings.get("uuid") == "posthog"


def namespace_of(mapping: Mapping, options: SealedOptions) -> UUID:
    """The namespace in which the keys of the mapping's rows become uuids."""
    if is_importer_key(mapping, options):
        return uuids.POSTHOG_MIXPANEL
    return uuids.namespace(mapping.tool, options.settings.get("source", ""))
